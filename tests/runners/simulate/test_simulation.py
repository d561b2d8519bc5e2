"""Simulated runs as a user sees them: the virtual clock, whole runs, and their logs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from rich.console import Console

from tests.amounts import examples
from tests.engine.core.test_invariants import InvariantChecker
from tests.engine.strategies import catalogs, settings_of_runs, workflows
from tests.places import CORPUS
from wfrun.engine import events as ev
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import RunState
from wfrun.engine.errors import InvalidError, LostError
from wfrun.engine.model import (
    Catalog,
    File,
    LinkSpec,
    NodeGroup,
    Resources,
    SiteSpec,
    Task,
    Workflow,
)
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.parsers.generate import generate
from wfrun.parsers.read import read_workflow
from wfrun.runners.inspect.tables import report
from wfrun.runners.run.clock import VirtualClock
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.runners.run.store.event_store import Store
from wfrun.runners.simulate.simulation import Platform, simulate
from wfrun.sites.simulated.model import SiteModel
from wfrun.sites.simulated.queues import SimulatedJob

LRMS = ("fcfs", "easy", "conservative")
THREE_SITES = Catalog(
    (SiteSpec("alpha", 4), SiteSpec("beta", 2, speed_ratio=2.0), SiteSpec("gamma", 8)),
    tuple(
        LinkSpec(a, b, 1e6, 0.01)
        for a in ("alpha", "beta", "gamma", "origin")
        for b in ("alpha", "beta", "gamma", "origin")
        if a != b
    ),
)


class MemoryLog:
    """Events in the order of their log."""

    def __init__(self) -> None:
        self.events: list[ev.Event] = []

    def append(self, events: Sequence[ev.Event]) -> None:
        self.events.extend(events)

    def commit(self) -> None:
        """Memory is durable enough."""

    def encoded(self) -> bytes:
        return msgspec.json.encode(self.events)


# -- the clock


def next_of(clock: VirtualClock) -> list[ev.Event]:
    return asyncio.run(_next(clock))


async def _next(clock: VirtualClock) -> list[ev.Event]:
    return await clock.next()


def mark(at_s: float, name: str = "") -> ev.TimerFired:
    return ev.TimerFired(at_s, name)


def test_the_clock_jumps_to_the_earliest_event() -> None:
    clock = VirtualClock(start_s=5.0)
    assert clock.now() == 5.0
    clock.call_at(30.0, mark(30.0))
    clock.call_at(10.0, mark(10.0))
    assert next_of(clock) == [mark(10.0)]
    assert clock.now() == 10.0
    assert next_of(clock) == [mark(30.0)]


def test_events_of_one_time_come_together_in_the_order_of_asking() -> None:
    clock = VirtualClock()
    for name in "abc":
        clock.call_at(1.0, mark(1.0, name))
    assert [event.timer for event in next_of(clock) if isinstance(event, ev.TimerFired)] == [
        "a",
        "b",
        "c",
    ]


def test_what_is_due_at_one_time_is_called_by_rank() -> None:
    clock = VirtualClock()
    called: list[str] = []
    clock.schedule(1.0, lambda: called.append("last"), rank=2)
    clock.schedule(1.0, lambda: called.append("arrival"), rank=1)
    clock.schedule(1.0, lambda: called.append("end"), rank=0)
    clock.schedule(1.0, lambda: clock.post(mark(1.0)), rank=1)
    clock.schedule(0.5, lambda: called.append("before"), rank=2)
    assert next_of(clock) == [mark(1.0)]
    assert called == ["before", "end", "arrival", "last"]


def test_what_is_late_happens_now() -> None:
    clock = VirtualClock(start_s=10.0)
    clock.call_at(3.0, mark(3.0))
    assert next_of(clock) == [mark(3.0)]
    assert clock.now() == 10.0


def test_a_call_may_ask_for_more_at_the_same_time() -> None:
    clock = VirtualClock()
    clock.schedule(1.0, lambda: clock.schedule(1.0, lambda: clock.post(mark(1.0)), 0), 2)
    assert next_of(clock) == [mark(1.0)]


def test_a_standstill_is_an_error() -> None:
    clock = VirtualClock(start_s=7.0)
    clock.schedule(8.0, lambda: None)
    with pytest.raises(LostError, match=r"stuck at 8\.0 s"):
        next_of(clock)


def test_the_clock_raises_what_it_was_told() -> None:
    clock = VirtualClock()
    clock.schedule(1.0, lambda: clock.fail(InvalidError("the world broke")))
    with pytest.raises(InvalidError, match="the world broke"):
        next_of(clock)


# -- whole runs


def chain(count: int, runtime_s: float = 10.0, size_bytes: int = 10_000_000) -> Workflow:
    """Tasks that each read what the one before has written."""
    files = [File(f"f{i}", size_bytes, producer=i) for i in range(count)]
    tasks = [
        Task(
            f"t{i}",
            "x",
            "x",
            inputs=(i - 1,) if i else (),
            outputs=(i,),
            runtime_s=runtime_s,
        )
        for i in range(count)
    ]
    return Workflow("chain", "chain", tasks, files, [(i - 1,) if i else () for i in range(count)])


def test_a_run_takes_what_one_works_out_by_hand() -> None:
    """Round-robin sends each task of the chain to the next site: run time at the site's speed,
    then 10 MB at 1 MB/s and 10 ms to the next one."""
    state = simulate([chain(4)], Platform(THREE_SITES), ev.Settings(policy="round-robin"))
    assert state.ended == "done"
    # alpha 10 s, beta 5 s, gamma 10 s, alpha 10 s, and three transfers of 10.01 s
    assert state.now_s == pytest.approx(35.0 + 3 * 10.01)
    assert (state.transfers, state.moved_bytes) == (3, 30_000_000)


def test_transfers_share_a_link_or_go_one_by_one() -> None:
    """Two tasks at alpha write 10 MB each, and two at beta read both of them."""
    files = [File("a", 10_000_000, producer=0), File("b", 10_000_000, producer=1)]
    pair = Resources(cores=4)
    tasks = [
        Task("a", "x", "x", outputs=(0,), runtime_s=1.0),
        Task("b", "x", "x", outputs=(1,), runtime_s=1.0),
        Task("c", "x", "x", inputs=(0,), runtime_s=1.0, resources=pair),
        Task("d", "x", "x", inputs=(1,), runtime_s=1.0, resources=pair),
    ]
    workflow = Workflow("w", "w", tasks, files, [(), (), (0,), (1,)])
    # only beta has room for c and d, and alpha is less loaded for a and b
    catalog = Catalog(
        (SiteSpec("alpha", 3), SiteSpec("beta", 8)), (LinkSpec("alpha", "beta", 1e6),)
    )
    # round-robin: a to alpha, b to beta; c needs a copy of a
    settings = ev.Settings(policy="single-cluster")
    shared = simulate([workflow], Platform(catalog), settings)
    assert shared.transfers == 0  # the only cluster where all fits
    settings = ev.Settings(policy="round-robin")
    ends_s = {
        sharing: simulate([workflow, workflow], Platform(catalog, sharing=sharing), settings).now_s
        for sharing in ("max-min", "serial")
    }
    # each workflow moves one file at the same time over one link
    assert ends_s == {"max-min": pytest.approx(22.0), "serial": pytest.approx(12.0)}


def test_head_nodes_bound_what_passes_them() -> None:
    fast = simulate([chain(3)], Platform(THREE_SITES), ev.Settings(policy="round-robin"))
    platform = Platform(THREE_SITES, head_bytes_per_s=0.5e6)
    slow = simulate([chain(3)], platform, ev.Settings(policy="round-robin"))
    assert slow.now_s == pytest.approx(fast.now_s + 2 * 10)


def test_what_is_submitted_later_starts_later() -> None:
    early = simulate([chain(3)], Platform(THREE_SITES), ev.Settings(policy="heft"))
    late = simulate([chain(3)], Platform(THREE_SITES, start_s=500.0), ev.Settings(policy="heft"))
    assert late.started_s == 500.0
    assert late.now_s - 500.0 == pytest.approx(early.now_s)


def test_policies_see_other_users_from_the_first_decision_on() -> None:
    """A cluster that others have filled is not the least loaded one."""
    catalog = Catalog((SiteSpec("alpha", 4), SiteSpec("beta", 4)))
    jobs = [SimulatedJob(0.0, 10_000.0, 4, 20_000.0)]
    log = MemoryLog()
    platform = Platform(catalog, background={"alpha": jobs}, start_s=100.0)
    simulate([generate("bag", 4, seed=1)], platform, ev.Settings(policy="all-clusters"), log=log)
    placed = [event for event in log.events if isinstance(event, ev.AttemptPlaced)]
    assert {event.site for event in placed} == {1}


@pytest.mark.parametrize(("arrivals_s", "first"), [(None, {0, 1}), ([0.0, 0.0], {0})])
def test_documents_of_one_submission_share_the_slots_from_the_start(
    arrivals_s: list[float] | None, first: set[int]
) -> None:
    """As in a real run; of those that come one after another the first takes all."""
    log = MemoryLog()
    bag = generate("bag", 8, seed=1)
    bags = [msgspec.structs.replace(bag, owner=owner) for owner in ("ann", "bea")]
    platform = Platform(Catalog((SiteSpec("alpha", 4),)))
    simulate(bags, platform, ev.Settings(selection="s-u-rr"), log=log, arrivals_s=arrivals_s)
    placed = [event for event in log.events if isinstance(event, ev.AttemptPlaced)]
    assert {event.workflow for event in placed[:4]} == first


@pytest.mark.parametrize("policy", list(PLACEMENT))
@pytest.mark.parametrize("lrm", LRMS)
def test_every_policy_and_queue_ends_a_workflow(policy: str, lrm: str) -> None:
    platform = Platform(THREE_SITES, SiteModel(lrm=lrm, submit_s=0.1, overload_jobs=20, poll_s=5.0))
    state = simulate([generate("montage", 60, seed=1)], platform, ev.Settings(policy=policy))
    assert (state.ended, state.done) == ("done", state.tasks)


@pytest.mark.parametrize("lrm", LRMS)
def test_a_run_outlives_failures_and_outages(lrm: str) -> None:
    """Sites go down and come back while tasks run, wait, and have their inputs on their way."""
    model = SiteModel(lrm=lrm, failure_rate=0.05, outage_every_s=400.0, outage_s=60.0)
    platform = Platform(THREE_SITES, model)
    log = MemoryLog()
    settings = ev.Settings(policy="round-robin", retries=50)
    several = [generate("montage", 60, seed=seed) for seed in range(3)]
    state = simulate(several, platform, settings, log=log)
    assert (state.ended, state.done) == ("done", state.tasks)
    causes = {e.outcome.cause for e in log.events if isinstance(e, ev.AttemptEnded)}
    assert causes == {"done", "exit", "lost"}
    assert any(isinstance(event, ev.SiteReopened) for event in log.events)


@pytest.mark.parametrize("lrm", LRMS)
def test_a_run_outlives_failures_of_nodes(lrm: str) -> None:
    """What was lost with a node is tried again; nothing else is, and nothing runs elsewhere."""
    nodes = (NodeGroup(3, 2, mtbf_s=300.0, mttr_s=60.0), NodeGroup(2, 1))
    catalog = Catalog((SiteSpec("alpha", 8, nodes=nodes),))
    log = MemoryLog()
    settings = ev.Settings(policy="round-robin", retries=50)
    bag = generate("bag", 200, seed=1)
    state = simulate([bag], Platform(catalog, SiteModel(lrm=lrm)), settings, log=log)
    assert (state.ended, state.done) == ("done", 200)
    outcomes = [e.outcome for e in log.events if isinstance(e, ev.AttemptEnded)]
    assert {o.host for o in outcomes if o.cause == "done"} == {f"alpha-{n}" for n in range(1, 6)}
    lost = [o.host for o in outcomes if o.cause == "lost"]
    assert len(lost) == len(outcomes) - 200 == state.retried > 0
    assert set(lost) <= {"alpha-1", "alpha-2", "alpha-3"}


def test_a_workflow_without_run_times_is_refused() -> None:
    workflow = chain(2)
    tasks = [workflow.tasks[0], msgspec.structs.replace(workflow.tasks[1], runtime_s=None)]
    unknown = msgspec.structs.replace(workflow, tasks=tasks)
    with pytest.raises(InvalidError, match="1 of 2 tasks have no run time") as caught:
        simulate([unknown], Platform(THREE_SITES), ev.Settings(policy="heft"))
    assert "--runtime" in (caught.value.hint or "")


# -- the log


OF_NODES = Catalog(
    (
        SiteSpec("alpha", 4, nodes=(NodeGroup(2, 2, 1.0, 200.0, 20.0),)),
        SiteSpec("beta", 2, speed_ratio=2.0, nodes=(NodeGroup(1, 1), NodeGroup(1, 1, 0.5))),
        SiteSpec("gamma", 8),
    ),
    THREE_SITES.links,
)


def run_of_everything(seed: int) -> MemoryLog:
    """A run with all that draws by chance."""
    log = MemoryLog()
    model = SiteModel(lrm="easy", failure_rate=0.1, outage_every_s=300.0, outage_s=30.0)
    jobs = [SimulatedJob(30.0 * n, 50.0, 1 + n % 2, 60.0) for n in range(40)]
    simulate(
        [generate("montage", 40, seed=1)],
        Platform(OF_NODES, model, background={"beta": jobs}, start_s=100.0),
        ev.Settings(policy="coarsening", policy_options={"size": 9}, seed=seed, retries=9),
        log=log,
    )
    return log


def test_the_same_seed_gives_the_same_log_byte_for_byte() -> None:
    assert run_of_everything(1).encoded() == run_of_everything(1).encoded()
    assert run_of_everything(1).encoded() != run_of_everything(2).encoded()


def test_times_of_the_log_do_not_go_back() -> None:
    times_s = [event.at_s for event in run_of_everything(3).events]
    assert times_s == sorted(times_s)


@pytest.mark.parametrize(
    ("lrm", "site", "end_s"), [("fcfs", "beta", 110.0), ("easy", "alpha", 105.0)]
)
def test_policies_pass_over_free_cores_behind_a_blocked_job(
    lrm: str, site: str, end_s: float
) -> None:
    """Another user's wide job waits at the faster site for 500 s, with two cores free."""
    jobs = [SimulatedJob(10.0, 600.0, 2, 600.0), SimulatedJob(20.0, 600.0, 4, 600.0)]
    platform = Platform(
        Catalog((SiteSpec("alpha", 4, speed_ratio=2.0), SiteSpec("beta", 4))),
        SiteModel(lrm=lrm),
        background={"alpha": jobs},
        start_s=100.0,
    )
    workflow = Workflow("w", "w", [Task("a", "x", "x", runtime_s=10.0)], [], [()])
    state = simulate([workflow], platform, ev.Settings(policy="cluster-min"))
    assert state.now_s == end_s
    assert [s.spec.name for s in state.sites if s.done] == [site]


def test_status_and_report_read_a_simulated_run(tmp_path: Path) -> None:
    workflow = generate("montage", 40, seed=1)
    store = Store(tmp_path, create=True)
    (digest,) = store.put_workflows([workflow])
    lived = simulate(
        [workflow],
        Platform(THREE_SITES),
        ev.Settings(policy="file-aware"),
        log=store,
        digests=[digest],
    )
    store.close()
    read = read_state(RunDir(tmp_path))
    assert (read.ended, read.done, read.now_s) == ("done", lived.done, lived.now_s)
    assert [site.done for site in read.sites] == [site.done for site in lived.sites]
    console = Console(width=100, file=StringIO())
    console.print(report.summary(read))
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    assert f"{lived.tasks}/{lived.tasks} tasks done" in text
    assert "file-aware" in text


# -- invariants


class AuditedLog(MemoryLog):
    """Holds the invariants as events are logged."""

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__()
        self._checker = checker

    def append(self, events: Sequence[ev.Event]) -> None:
        super().append(events)
        for event in events:
            self._checker.check(event)


@st.composite
def made_of_nodes(draw: st.DrawFn, spec: SiteSpec) -> SiteSpec:
    """The site as it is, or of nodes with one slow one, which may fail."""
    if draw(st.booleans()):
        return spec
    mtbf_s, mttr_s = draw(st.sampled_from([(0.0, 0.0), (300.0, 20.0)]))
    slow = NodeGroup(1, 2, 0.5, mtbf_s, mttr_s)
    others = NodeGroup(spec.slots - 2, 1, 1.0, mtbf_s, mttr_s)
    return msgspec.structs.replace(spec, nodes=(slow, others) if others.count else (slow,))


@st.composite
def worlds(draw: st.DrawFn) -> Platform:
    model = SiteModel(
        lrm=draw(st.sampled_from(LRMS)),
        submit_s=draw(st.sampled_from([0.0, 0.5])),
        overload_jobs=draw(st.sampled_from([0, 2])),
        poll_s=draw(st.sampled_from([0.0, 7.0])),
        failure_rate=draw(st.sampled_from([0.0, 0.0, 0.3])),
        outage_every_s=draw(st.sampled_from([0.0, 0.0, 100.0])),
        outage_s=5.0,
    )
    catalog = draw(catalogs())
    catalog = Catalog(tuple(draw(made_of_nodes(spec)) for spec in catalog.sites), catalog.links)
    jobs = [SimulatedJob(10.0 * n, 25.0, 1 + n % 2, 30.0) for n in range(draw(st.integers(0, 10)))]
    return Platform(
        catalog,
        model,
        draw(st.sampled_from(["max-min", "serial"])),
        draw(st.sampled_from([None, 1e6])),
        {catalog.sites[0].name: jobs},
        draw(st.sampled_from([0.0, 45.0])),
    )


@pytest.mark.slow
@hypothesis_settings(max_examples=examples(100), deadline=None)
@given(st.lists(workflows(max_tasks=12), min_size=1, max_size=3), worlds(), settings_of_runs())
def test_invariants_hold_in_any_simulated_world(
    several: list[Workflow], platform: Platform, settings: ev.Settings
) -> None:
    settings = msgspec.structs.replace(settings, retries=1000, retry_delay_s=0.0)
    checker = InvariantChecker(several, platform.catalog, settings)
    log = AuditedLog(checker)
    state = simulate(several, platform, settings, log=log)
    assert (state.ended, state.end_reason) == ("done", None)
    assert state.done == sum(len(w.tasks) for w in several)
    assert len(checker.done) == state.done
    _check_slots(log.events, several, platform.catalog)
    twin = Core({str(i): w for i, w in enumerate(several)})
    twin.replay(log.events)
    assert _essence(twin.state) == _essence(state)


def _check_slots(events: Sequence[ev.Event], several: Sequence[Workflow], catalog: Catalog) -> None:
    """No site runs more of our cores at once than it has; ends of one time come first. By the
    sites' own times, since ends may be heard of later."""
    placed = {e.key: e for e in events if isinstance(e, ev.AttemptPlaced)}
    changes: list[list[tuple[float, int, int]]] = [[] for _ in catalog.sites]
    for event in events:
        if isinstance(event, ev.AttemptEnded) and event.outcome.started_s is not None:
            attempt = placed[event.key]
            cores = several[attempt.workflow].tasks[attempt.task].resources.cores
            assert event.outcome.ended_s is not None
            if event.outcome.ended_s > event.outcome.started_s:
                changes[attempt.site].append((event.outcome.started_s, 1, cores))
                changes[attempt.site].append((event.outcome.ended_s, 0, -cores))
    for spec, of_site in zip(catalog.sites, changes, strict=True):
        busy = 0
        for _, _, change in sorted(of_site):
            busy += change
            assert busy <= spec.slots


def _essence(state: RunState) -> tuple[object, ...]:
    return (
        state.ended,
        state.now_s,
        state.done,
        state.transfers,
        state.moved_bytes,
        [(site.done, site.failed, site.used_core_s) for site in state.sites],
        [(w.ended_s, w.staging_s, w.waiting_s) for w in state.workflows],
    )


# -- HEFT against its paper

COSTS_S = (
    (14, 16, 9), (13, 19, 18), (11, 13, 19), (13, 8, 17), (12, 13, 10),
    (13, 16, 9), (7, 15, 11), (5, 11, 14), (18, 12, 20), (21, 7, 16),
)  # fmt: skip
"""Topcuoglu et al. 2002, Fig. 2: run time of each task on each of the three processors."""

COMMUNICATION = {
    (1, 2): 18, (1, 3): 12, (1, 4): 9, (1, 5): 11, (1, 6): 14, (2, 8): 19, (2, 9): 16, (3, 7): 23,
    (4, 8): 27, (4, 9): 23, (5, 9): 13, (6, 8): 15, (7, 10): 17, (8, 10): 11, (9, 10): 13,
}  # fmt: skip
"""And the cost of each edge between different processors."""

RANKS_S = (108.0, 77.0, 80.0, 80.0, 69.0, 63.333, 42.667, 35.667, 44.333, 14.667)
"""Table 2, upward ranks of n1 to n10."""

MEANS_S = [sum(costs) / 3 for costs in COSTS_S]

PROCESSORS = tuple(SiteSpec(f"p{n}", 1) for n in (1, 2, 3))


def joined(bandwidth_bytes_per_s: float) -> Catalog:
    names = [site.name for site in PROCESSORS]
    return Catalog(
        PROCESSORS,
        tuple(LinkSpec(a, b, bandwidth_bytes_per_s) for a in names for b in names if a != b),
    )


def published() -> Workflow:
    """The graph of Fig. 2, a byte for each unit of communication."""
    files = [File(f"{a}-{b}", size, producer=a - 1) for (a, b), size in COMMUNICATION.items()]
    edges = list(COMMUNICATION)
    tasks = [
        Task(
            f"n{n}",
            "x",
            "x",
            inputs=tuple(i for i, (_, b) in enumerate(edges) if b == n),
            outputs=tuple(i for i, (a, _) in enumerate(edges) if a == n),
            runtime_s=MEANS_S[n - 1],
        )
        for n in range(1, 11)
    ]
    parents = [tuple(a - 1 for a, b in edges if b == n) for n in range(1, 11)]
    return Workflow("topcuoglu", "topcuoglu", tasks, files, parents)


def ranks_and_order(workflow: Workflow, catalog: Catalog) -> tuple[list[float], list[int]]:
    """Upward ranks, and the order in which HEFT's tasks are placed when all are eligible."""
    state = simulate([workflow], Platform(catalog), ev.Settings(policy="heft"))
    order = state.workflows[0].order
    assert order is not None
    ranks_s = [-order[task] for task in range(len(workflow.tasks))]
    return ranks_s, sorted(range(len(ranks_s)), key=lambda task: (round(order[task], 6), task))


def test_heft_ranks_and_orders_as_published() -> None:
    """Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002: Table 2. n3 comes before n4 there, which
    has the same rank."""
    ranks_s, order = ranks_and_order(published(), joined(1.0))
    assert ranks_s == pytest.approx(RANKS_S, abs=0.001)
    assert [f"n{task + 1}" for task in order] == [
        "n1", "n3", "n4", "n2", "n5", "n6", "n9", "n7", "n8", "n10",
    ]  # fmt: skip


def test_heft_places_eligible_tasks_in_order_of_rank() -> None:
    log = MemoryLog()
    settings = ev.Settings(policy="heft", throttle="none")
    simulate([published()], Platform(joined(1.0)), settings, log=log)
    eligible = {0}
    placed: set[int] = set()
    done: set[int] = set()
    for event in log.events:
        if isinstance(event, ev.AttemptEnded):
            done.add(int(event.key.split(".")[2]))
            eligible |= {
                task for task, parents in enumerate(published().parents) if done >= set(parents)
            }
        elif isinstance(event, ev.AttemptPlaced):
            waiting = eligible - placed
            assert RANKS_S[event.task] == max(RANKS_S[task] for task in waiting)
            placed.add(event.task)
    assert len(placed) == 10


@pytest.mark.corpus
def test_heft_ranks_of_the_corpus_file() -> None:
    """Its run times are those of the first processor, and 125 bytes are one unit of communication.
    Its file from n3 to n7 has 2,500 bytes, 20 units where the paper has 23."""
    path = CORPUS / "dax" / "synthetic" / "HEFT_paper.xml"
    document = read_workflow(path, emulate=True)
    assert [task.runtime_s for task in document.tasks] == [costs[0] for costs in COSTS_S]
    tasks = [
        msgspec.structs.replace(task, runtime_s=mean_s)
        for task, mean_s in zip(document.tasks, MEANS_S, strict=True)
    ]
    workflow = msgspec.structs.replace(document, tasks=tasks)
    ranks_s, _ = ranks_and_order(workflow, joined(125.0))
    expected_s = list(RANKS_S)
    expected_s[2] -= 23 - 20
    assert ranks_s == pytest.approx(expected_s, abs=0.001)
