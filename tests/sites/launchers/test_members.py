"""Which launcher runs what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from wfrun.engine.exchange import AttemptRequest
from wfrun.engine.model import Resources
from wfrun.sites.launchers.members import TAKE_BACK_S, Held, Member, Pool


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
        key, ("true",), {}, (), (), None, None, None, resources, avoid_hosts, expected_s
    )


def join(
    pool: Pool,
    name: str,
    cores: int = 2,
    *,
    node: int = 0,
    memory_bytes: int = 0,
    gpus: int = 0,
    ends_s: float | None = None,
    walltime_s: float | None = None,
) -> Member:
    member = pool.join(name, node)
    member.host, member.cores, member.is_open = f"{name}-{node}", cores, True
    member.memory_bytes, member.gpus = memory_bytes, gpus
    member.ends_s, member.walltime_s = ends_s, walltime_s
    return member


def given(pool: Pool, now_s: float = 0.0) -> list[tuple[str, str]]:
    """What is given out now, and to whom."""
    out = [(held.key, held.members[0].launcher) for held in pool.assign(now_s)]
    pool.check()
    return out


def add(pool: Pool, *requests: AttemptRequest) -> list[Held]:
    return [pool.add(each) for each in requests]


def numbered(count: int) -> list[AttemptRequest]:
    return [request(f"k{n}") for n in range(count)]


def test_attempts_are_given_out_evenly_and_in_order() -> None:
    pool = Pool()
    join(pool, "a", 2)
    join(pool, "b", 4)
    add(pool, *numbered(9))
    out = given(pool)
    assert [key for key, _ in out] == [f"k{n}" for n in range(6)]
    assert Counter(name for _, name in out) == {"a": 2, "b": 4}
    pool.end("k1", 1.0)
    assert [key for key, _ in given(pool)] == ["k6"]


def test_a_launcher_that_is_not_open_gets_nothing() -> None:
    pool = Pool()
    join(pool, "a").is_open = False
    add(pool, *numbered(2))
    assert given(pool) == []
    assert pool.waiting() == 2


def test_a_wide_attempt_gets_the_next_room_and_narrow_ones_go_elsewhere() -> None:
    pool = Pool()
    join(pool, "a", 4)
    join(pool, "b", 2)
    add(pool, *(request(f"n{n}") for n in range(3)))
    assert given(pool) == [("n0", "a"), ("n1", "b"), ("n2", "a")]
    add(pool, request("wide", 4), *numbered(4))
    assert given(pool) == [("k0", "b")]  # there are two cores in a, which is kept
    pool.end("n0")
    assert given(pool) == []
    pool.end("n2")
    assert given(pool) == [("wide", "a")]


def test_what_fits_no_launcher_holds_up_nobody() -> None:
    pool = Pool()
    join(pool, "a", 2)
    add(pool, request("huge", 64), request("k"))
    assert given(pool) == [("k", "a")]
    join(pool, "b", 64)
    assert given(pool) == [("huge", "b")]


def test_memory_and_gpus_are_counted() -> None:
    pool = Pool()
    join(pool, "a", 8, memory_bytes=100)
    join(pool, "b", 8, memory_bytes=10, gpus=1)
    add(pool, *(request(f"m{n}", memory_bytes=40) for n in range(3)))
    add(pool, *(request(f"g{n}", gpus=1) for n in range(2)))
    assert given(pool) == [("m0", "a"), ("m1", "a"), ("g0", "b")]
    pool.end("g0")
    assert given(pool) == [("g1", "b")]
    pool.end("m1")
    assert given(pool) == [("m2", "a")]


def test_what_would_outlast_a_launcher_goes_to_another() -> None:
    pool = Pool()
    join(pool, "short", ends_s=100.0, walltime_s=600.0)
    add(pool, request("long", expected_s=200.0), request("brief", expected_s=20.0))
    assert given(pool) == [("brief", "short")]
    join(pool, "other", ends_s=1000.0, walltime_s=600.0)
    assert given(pool) == [("long", "other")]


def test_a_walltime_counts_where_no_length_is_known_unless_it_is_that_of_launchers() -> None:
    pool = Pool()
    join(pool, "a", ends_s=100.0, walltime_s=600.0)
    add(pool, request("half", walltime_s=300.0), request("whole", walltime_s=600.0))
    assert given(pool) == [("whole", "a")]


def test_what_a_launcher_gave_back_it_does_not_get_again() -> None:
    pool = Pool()
    a = join(pool, "a")
    (held,) = add(pool, request("k"))
    assert given(pool) == [("k", "a")]
    held.refused_by = (a,)
    pool.wait(held)
    assert given(pool) == []
    join(pool, "b")
    assert given(pool) == [("k", "b")]


def test_hosts_are_avoided_while_there_are_others() -> None:
    pool = Pool()
    join(pool, "bad")
    add(pool, request("k", avoid_hosts=("bad-0",)))
    assert given(pool) == [("k", "bad")]
    good = join(pool, "good", 1)
    add(pool, *(request(f"m{n}", avoid_hosts=("bad-0",)) for n in range(2)))
    assert given(pool) == [("m0", "good")]
    good.is_open = False
    assert given(pool) == [("m1", "bad")]


def test_several_nodes_are_those_of_one_launcher() -> None:
    pool = Pool()
    for name in ("a", "b"):
        for node in range(2):
            join(pool, name, 4, node=node)
    add(pool, request("k"), request("pair", 8, nodes=2))
    out = dict(given(pool))
    assert out["pair"] != out["k"]
    pair = pool.attempts["pair"]
    assert [member.node for member in pair.members] == [0, 1]
    assert all(member.used_cores == 4 for member in pair.members)
    add(pool, request("pair2", 8, nodes=2), *numbered(3))
    # The other launcher is kept for it.
    assert given(pool) == []
    pool.end("k")
    assert ("pair2", out["k"]) in given(pool)


def test_short_tasks_are_held_in_advance_and_long_ones_not() -> None:
    pool = Pool()
    member = join(pool, "a", 2)
    member.latency_s = 0.1
    add(pool, *numbered(100))
    assert len(given(pool)) == 2
    pool.end("k0", 0.01)  # 0.1 s of latency is worth 20 of these for each slot
    assert len(given(pool)) == 41
    assert member.used_cores == 42
    long = Pool()
    join(long, "a", 2).latency_s = 0.1
    add(long, *numbered(100))
    given(long)
    long.end("k0", 60.0)
    assert len(given(long)) == 1


def test_stock_goes_to_launchers_that_are_idle() -> None:
    pool = Pool()
    a = join(pool, "a", 2)
    a.latency_s = 0.1
    pool.mean_s = 0.05
    add(pool, *numbered(10))
    assert len(given(pool)) == 10
    b = join(pool, "b", 4)
    assert pool.surplus(0.0) == {}  # they have just been sent
    back = pool.surplus(TAKE_BACK_S + 0.1)
    assert back == {a: ["k9", "k8", "k7", "k6"]}
    assert pool.surplus(TAKE_BACK_S + 0.2) == {}  # they are asked back once
    for key in back[a]:
        pool.wait(pool.attempts[key])
    assert sorted(given(pool)) == [("k6", "b"), ("k7", "b"), ("k8", "b"), ("k9", "b")]
    assert b.used_cores == 4


def test_what_comes_back_is_first_again() -> None:
    pool = Pool()
    a = join(pool, "a", 2)
    held = add(pool, *numbered(5))
    given(pool)
    a.is_open = False
    pool.wait(held[1])
    pool.wait(held[0])
    join(pool, "b", 5)
    assert [key for key, _ in given(pool)] == [f"k{n}" for n in range(5)]


def test_what_a_launcher_had_is_told_when_it_is_gone() -> None:
    pool = Pool()
    for node in range(2):
        join(pool, "a", 4, node=node)
    add(pool, request("pair", 8, nodes=2))
    assert given(pool) == [("pair", "a")]
    assert [held.key for held in pool.leave("a")] == ["pair"]
    assert not pool.attempts["pair"].members
    assert not pool.is_waiting(pool.attempts["pair"])
    assert pool.members == {}
    pool.check()


class Books(RuleBasedStateMachine):
    """Whatever happens, every attempt is in one place, and launchers have no more than fits."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = Pool()
        self.now_s = 0.0
        self.made = 0
        self.open: set[str] = set()

    def _some(self, choice: int, of: Sequence[str]) -> str | None:
        return sorted(of)[choice % len(of)] if of else None

    @rule(cores=st.integers(1, 4), nodes=st.integers(1, 2), memory=st.integers(0, 2))
    def add(self, cores: int, nodes: int, memory: int) -> None:
        self.made += 1
        key = f"k{self.made:03}"
        self.pool.add(request(key, cores * nodes, nodes=nodes, memory_bytes=memory))
        self.open.add(key)

    @rule(name=st.sampled_from("abc"), node=st.integers(0, 1), cores=st.integers(1, 4))
    def join(self, name: str, node: int, cores: int) -> None:
        if (name, node) not in self.pool.members:
            join(self.pool, name, cores, node=node, memory_bytes=4).latency_s = 0.05

    @rule(name=st.sampled_from("abc"), is_open=st.booleans())
    def change(self, name: str, is_open: bool) -> None:
        for member in self.pool.members.values():
            if member.launcher == name:
                member.is_open = is_open

    @rule(step_s=st.floats(0, 2))
    def assign(self, step_s: float) -> None:
        self.now_s += step_s
        before = {key for key in self.open if self.pool.attempts[key].members}
        out = self.pool.assign(self.now_s)
        assert not before & {held.key for held in out}
        for held in out:
            assert len(held.members) == held.asked.nodes
            assert len({member.launcher for member in held.members}) == 1
            assert all(member.is_open for member in held.members)
            assert all(member.could_hold(held.asked) for member in held.members)

    @rule(choice=st.integers(0, 99), took_s=st.floats(0, 0.2))
    def end(self, choice: int, took_s: float) -> None:
        key = self._some(choice, list(self.open))
        if key is not None:
            self.open.discard(key)
            assert self.pool.end(key, took_s) is not None
            assert self.pool.end(key, took_s) is None

    @rule(choice=st.integers(0, 99), aside=st.booleans())
    def back(self, choice: int, aside: bool) -> None:
        key = self._some(choice, list(self.open))
        if key is not None:
            self.pool.wait(self.pool.attempts[key])
            if aside:
                self.pool.set_aside(self.pool.attempts[key])

    @rule(name=st.sampled_from("abc"))
    def leave(self, name: str) -> None:
        had = {h.key for h in self.pool.attempts.values()
               if any(member.launcher == name for member in h.members)}  # fmt: skip
        gone = self.pool.leave(name)
        assert sorted(held.key for held in gone) == sorted(had)

    @rule()
    def surplus(self) -> None:
        for member, keys in self.pool.surplus(self.now_s).items():
            assert all(key in member.held for key in keys)

    @invariant()
    def nothing_is_forgotten(self) -> None:
        self.pool.check()
        assert set(self.pool.attempts) == self.open


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
