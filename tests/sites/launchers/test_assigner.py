"""The assignment of attempts to launchers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from tests.amounts import examples
from wfrun.engine.exchange import AttemptRequest
from wfrun.engine.model import Access, LauncherSpec, Resources, SiteSpec
from wfrun.sites.launchers.assigner import MIN_PREFETCHED_S, AttemptAssigner
from wfrun.sites.launchers.launcher_jobs import too_long
from wfrun.sites.launchers.launcher_nodes import LauncherNode, PoolAttempt


def request(
    key: str,
    cores: int = 1,
    *,
    nodes: int = 1,
    memory_bytes: int = 0,
    gpus: int = 0,
    expected_s: float | None = None,
    walltime_s: float | None = None,
    avoid_hosts: tuple[str, ...] = (),
) -> AttemptRequest:
    resources = Resources(cores, memory_bytes, gpus, walltime_s, nodes)
    return AttemptRequest(
        key, ("true",), {}, (), (), None, None, None, resources, avoid_hosts, expected_s=expected_s
    )


def join(
    assigner: AttemptAssigner,
    name: str,
    cores: int = 2,
    *,
    node: int = 0,
    memory_bytes: int = 0,
    gpus: int = 0,
    ends_s: float | None = None,
    walltime_s: float | None = None,
) -> LauncherNode:
    joined = assigner.node_of(name, node)
    joined.host, joined.cores, joined.is_open = f"{name}-{node}", cores, True
    joined.memory_bytes, joined.gpus = memory_bytes, gpus
    joined.ends_s, joined.walltime_s = ends_s, walltime_s
    return joined


def given(assigner: AttemptAssigner, now_s: float = 0.0) -> list[tuple[str, str]]:
    """The attempts assigned now, each with its launcher."""
    out = [(attempt.key, attempt.nodes[0].launcher) for attempt in assigner.assign(now_s)]
    assigner.check()
    return out


def add(assigner: AttemptAssigner, *requests: AttemptRequest) -> list[PoolAttempt]:
    return [assigner.add(each) for each in requests]


def numbered(count: int) -> list[AttemptRequest]:
    return [request(f"k{n}") for n in range(count)]


def test_attempts_are_given_out_evenly_and_in_order() -> None:
    assigner = AttemptAssigner()
    join(assigner, "a", 2)
    join(assigner, "b", 4)
    add(assigner, *numbered(9))
    out = given(assigner)
    assert [key for key, _ in out] == [f"k{n}" for n in range(6)]
    assert Counter(name for _, name in out) == {"a": 2, "b": 4}
    assigner.end("k1", 1.0)
    assert [key for key, _ in given(assigner)] == ["k6"]


def test_a_closed_launcher_gets_nothing() -> None:
    assigner = AttemptAssigner()
    join(assigner, "a").is_open = False
    add(assigner, *numbered(2))
    assert given(assigner) == []
    assert assigner.waiting_count() == 2


def test_placeholders_of_claims_take_the_attempts_of_these_alone() -> None:
    assigner = AttemptAssigner()
    join(assigner, "r.C1.0", 4)
    join(assigner, "r.C2.0", 4)
    join(assigner, "a", 1)
    claimed = [replace(request(f"c{n}", 2), claim=f"r.C{n}") for n in (1, 3)]
    add(assigner, request("wide", 4), *claimed, *numbered(2))
    assert given(assigner) == [("c1", "r.C1.0"), ("k0", "a")]
    assigner.end("c1")
    assert given(assigner) == []
    join(assigner, "r.C3.0", 2)
    assert given(assigner) == [("c3", "r.C3.0")]


def test_a_wide_attempt_gets_a_reservation_and_narrow_ones_go_elsewhere() -> None:
    assigner = AttemptAssigner()
    join(assigner, "a", 4)
    join(assigner, "b", 2)
    add(assigner, *(request(f"n{n}") for n in range(3)))
    assert given(assigner) == [("n0", "a"), ("n1", "b"), ("n2", "a")]
    add(assigner, request("wide", 4), *numbered(4))
    assert given(assigner) == [("k0", "b")]  # a has two free cores and is reserved
    assigner.end("n0")
    assert given(assigner) == []
    assigner.end("n2")
    assert given(assigner) == [("wide", "a")]


def test_an_attempt_that_fits_no_launcher_blocks_no_other() -> None:
    assigner = AttemptAssigner()
    join(assigner, "a", 2)
    add(assigner, request("huge", 64), request("k"))
    assert given(assigner) == [("k", "a")]
    join(assigner, "b", 64)
    assert given(assigner) == [("huge", "b")]


def test_memory_and_gpus_are_counted() -> None:
    assigner = AttemptAssigner()
    join(assigner, "a", 8, memory_bytes=100)
    join(assigner, "b", 8, memory_bytes=10, gpus=1)
    add(assigner, *(request(f"m{n}", memory_bytes=40) for n in range(3)))
    add(assigner, *(request(f"g{n}", gpus=1) for n in range(2)))
    assert given(assigner) == [("m0", "a"), ("m1", "a"), ("g0", "b")]
    assigner.end("g0")
    assert given(assigner) == [("g1", "b")]
    assigner.end("m1")
    assert given(assigner) == [("m2", "a")]


def test_an_attempt_that_would_outlast_a_launcher_goes_to_another() -> None:
    assigner = AttemptAssigner()
    join(assigner, "short", ends_s=100.0, walltime_s=600.0)
    add(assigner, request("long", expected_s=200.0), request("brief", expected_s=20.0))
    assert given(assigner) == [("brief", "short")]
    join(assigner, "other", ends_s=1000.0, walltime_s=600.0)
    assert given(assigner) == [("long", "other")]


def test_a_walltime_is_the_estimate_unless_it_is_that_of_the_launchers() -> None:
    assigner = AttemptAssigner()
    join(assigner, "a", ends_s=100.0, walltime_s=600.0)
    add(assigner, request("half", walltime_s=300.0), request("whole", walltime_s=600.0))
    assert given(assigner) == [("whole", "a")]


def test_a_launcher_does_not_get_again_what_it_returned() -> None:
    assigner = AttemptAssigner()
    a = join(assigner, "a")
    (attempt,) = add(assigner, request("k"))
    assert given(assigner) == [("k", "a")]
    attempt.returned_by = (a,)
    assigner.enqueue(attempt)
    assert given(assigner) == []
    join(assigner, "b")
    assert given(assigner) == [("k", "b")]


def test_hosts_are_avoided_while_there_are_others() -> None:
    assigner = AttemptAssigner()
    join(assigner, "bad")
    add(assigner, request("k", avoid_hosts=("bad-0",)))
    assert given(assigner) == [("k", "bad")]
    good = join(assigner, "good", 1)
    add(assigner, *(request(f"m{n}", avoid_hosts=("bad-0",)) for n in range(2)))
    assert given(assigner) == [("m0", "good")]
    good.is_open = False
    assert given(assigner) == [("m1", "bad")]


def test_an_attempt_on_several_nodes_gets_those_of_one_launcher() -> None:
    assigner = AttemptAssigner()
    for name in ("a", "b"):
        for node in range(2):
            join(assigner, name, 4, node=node)
    add(assigner, request("k"), request("pair", 8, nodes=2))
    out = dict(given(assigner))
    assert out["pair"] != out["k"]
    pair = assigner.attempts["pair"]
    assert [node.number for node in pair.nodes] == [0, 1]
    assert all(node.used_cores == 4 for node in pair.nodes)
    add(assigner, request("pair2", 8, nodes=2), *numbered(3))
    # The other launcher is reserved for it.
    assert given(assigner) == []
    assigner.end("k")
    assert ("pair2", out["k"]) in given(assigner)


def test_short_tasks_are_prefetched_and_long_ones_are_not() -> None:
    assigner = AttemptAssigner()
    node = join(assigner, "a", 2)
    node.latency_s = 0.1
    add(assigner, *numbered(100))
    assert len(given(assigner)) == 2
    assigner.end("k0", 0.01)  # 0.1 s of latency is worth 20 of these for each slot
    assert len(given(assigner)) == 41
    assert node.used_cores == 42
    long = AttemptAssigner()
    join(long, "a", 2).latency_s = 0.1
    add(long, *numbered(100))
    given(long)
    long.end("k0", 60.0)
    assert len(given(long)) == 1


def test_prefetched_attempts_are_recalled_for_idle_launchers() -> None:
    assigner = AttemptAssigner()
    a = join(assigner, "a", 2)
    a.latency_s = 0.1
    assigner.mean_runtime_s = 0.05
    add(assigner, *numbered(10))
    assert len(given(assigner)) == 10
    b = join(assigner, "b", 4)
    assert assigner.recall(0.0) == {}  # they have just been sent
    back = assigner.recall(MIN_PREFETCHED_S + 0.1)
    assert back == {a: ["k9", "k8", "k7", "k6"]}
    assert assigner.recall(MIN_PREFETCHED_S + 0.2) == {}  # they are asked back once
    for key in back[a]:
        assigner.enqueue(assigner.attempts[key])
    assert sorted(given(assigner)) == [("k6", "b"), ("k7", "b"), ("k8", "b"), ("k9", "b")]
    assert b.used_cores == 4


def test_returned_attempts_keep_their_place_in_the_queue() -> None:
    assigner = AttemptAssigner()
    a = join(assigner, "a", 2)
    attempt = add(assigner, *numbered(5))
    given(assigner)
    a.is_open = False
    assigner.enqueue(attempt[1])
    assigner.enqueue(attempt[0])
    join(assigner, "b", 5)
    assert [key for key, _ in given(assigner)] == [f"k{n}" for n in range(5)]


def test_removing_a_launcher_returns_its_attempts() -> None:
    assigner = AttemptAssigner()
    for node in range(2):
        join(assigner, "a", 4, node=node)
    add(assigner, request("pair", 8, nodes=2))
    assert given(assigner) == [("pair", "a")]
    assert [attempt.key for attempt in assigner.remove_launcher("a")] == ["pair"]
    assert not assigner.attempts["pair"].nodes
    assert not assigner.is_waiting(assigner.attempts["pair"])
    assert assigner.nodes == {}
    assigner.check()


class Books(RuleBasedStateMachine):
    """In every state each attempt is in one place, and no node exceeds its capacity."""

    def __init__(self) -> None:
        super().__init__()
        self.assigner = AttemptAssigner()
        self.now_s = 0.0
        self.made = 0
        self.open: set[str] = set()

    def _some(self, choice: int, of: Sequence[str]) -> str | None:
        return sorted(of)[choice % len(of)] if of else None

    @rule(cores=st.integers(1, 4), nodes=st.integers(1, 2), memory=st.integers(0, 2))
    def add(self, cores: int, nodes: int, memory: int) -> None:
        self.made += 1
        key = f"k{self.made:03}"
        self.assigner.add(request(key, cores * nodes, nodes=nodes, memory_bytes=memory))
        self.open.add(key)

    @rule(name=st.sampled_from("abc"), node=st.integers(0, 1), cores=st.integers(1, 4))
    def join(self, name: str, node: int, cores: int) -> None:
        if (name, node) not in self.assigner.nodes:
            join(self.assigner, name, cores, node=node, memory_bytes=4).latency_s = 0.05

    @rule(name=st.sampled_from("abc"), is_open=st.booleans())
    def change(self, name: str, is_open: bool) -> None:
        for node in self.assigner.nodes.values():
            if node.launcher == name:
                node.is_open = is_open

    @rule(step_s=st.floats(0, 2))
    def assign(self, step_s: float) -> None:
        self.now_s += step_s
        before = {key for key in self.open if self.assigner.attempts[key].nodes}
        out = self.assigner.assign(self.now_s)
        assert not before & {attempt.key for attempt in out}
        for attempt in out:
            assert len(attempt.nodes) == attempt.resources.nodes
            assert len({node.launcher for node in attempt.nodes}) == 1
            assert all(node.is_open for node in attempt.nodes)
            assert all(node.fits(attempt.resources) for node in attempt.nodes)

    @rule(choice=st.integers(0, 99), took_s=st.floats(0, 0.2))
    def end(self, choice: int, took_s: float) -> None:
        key = self._some(choice, list(self.open))
        if key is not None:
            self.open.discard(key)
            assert self.assigner.end(key, took_s) is not None
            assert self.assigner.end(key, took_s) is None

    @rule(choice=st.integers(0, 99), aside=st.booleans())
    def back(self, choice: int, aside: bool) -> None:
        key = self._some(choice, list(self.open))
        if key is not None:
            self.assigner.enqueue(self.assigner.attempts[key])
            if aside:
                self.assigner.detach(self.assigner.attempts[key])

    @rule(name=st.sampled_from("abc"))
    def leave(self, name: str) -> None:
        had = {a.key for a in self.assigner.attempts.values()
               if any(node.launcher == name for node in a.nodes)}  # fmt: skip
        gone = self.assigner.remove_launcher(name)
        assert sorted(attempt.key for attempt in gone) == sorted(had)

    @rule()
    def surplus(self) -> None:
        for node, keys in self.assigner.recall(self.now_s).items():
            assert all(key in node.attempts for key in keys)

    @invariant()
    def nothing_is_forgotten(self) -> None:
        self.assigner.check()
        assert set(self.assigner.attempts) == self.open


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)


@pytest.mark.parametrize(("walltime_s", "longest_s"), [(10.0, 8.0), (60.0, 54.0), (3600.0, 3590.0)])
def test_the_longest_task_of_a_launcher_ends_before_the_launcher_ends_it(
    walltime_s: float, longest_s: float
) -> None:
    launchers = LauncherSpec(cores=4, walltime_s=walltime_s)
    spec = SiteSpec("alpha", 4, access=Access(("head",), dispatch="launchers", launchers=launchers))
    assert too_long(request("a", expected_s=longest_s), spec) is None
    assert "a longer 'walltime'" in str(too_long(request("a", expected_s=longest_s + 0.5), spec))
