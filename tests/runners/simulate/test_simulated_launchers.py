"""Launchers in virtual time: how many there are, where, for how long, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from wfrun.engine import events as ev
from wfrun.engine.capabilities.launchers.launchers import pool_at
from wfrun.engine.capabilities.launchers.pool import LauncherPhase
from wfrun.engine.core.actions import SetTimer
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import RunState
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import (
    Access,
    Catalog,
    LauncherSpec,
    Resources,
    SiteSpec,
    Task,
    Workflow,
)
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.runners.simulate.simulation import Platform, simulate
from wfrun.sites.simulated.model import SiteModel
from wfrun.sites.simulated.queues import SimulatedJob

LATENCY_S = 0.05


def site(name: str, slots: int = 16, speed: float = 1.0, **spec: object) -> SiteSpec:
    launchers = LauncherSpec(**{"cores": 4, "max": slots // 4, **spec})  # type: ignore[arg-type]
    access = Access(("head",), dispatch="launchers", launchers=launchers)
    return SiteSpec(name, slots, speed, kind="slurm", access=access)


def tasks_of(lengths_s: Sequence[float], parents: list[tuple[int, ...]] | None = None) -> Workflow:
    tasks = [Task(f"t{n}", "t", "t", runtime_s=s) for n, s in enumerate(lengths_s)]
    return Workflow("w", "w.dax", tasks, [], parents or [()] * len(tasks))


class Run:
    """One simulated run with its log."""

    def __init__(
        self,
        workflow: Workflow,
        sites: Sequence[SiteSpec],
        settings: ev.Settings | None = None,
        **world: object,
    ) -> None:
        self.log: list[ev.Event] = []
        self.workflow = workflow
        self.state: RunState = simulate(
            [workflow],
            Platform(Catalog(tuple(sites)), **world),  # type: ignore[arg-type]
            settings or ev.Settings("round-robin"),
            observers=[self.log.extend],
        )

    def of(self, kind: type[ev.Event]) -> list[ev.Event]:
        return [event for event in self.log if type(event) is kind]

    def causes(self) -> set[str]:
        return {e.outcome.cause for e in self.log if isinstance(e, ev.AttemptEnded)}


def test_a_sweep_takes_hardly_longer_than_it_has_to() -> None:
    for count in (32, 100, 4096):
        run = Run(tasks_of([1.0] * count), [site("a", 32)])
        assert run.state.ended == "done"
        assert run.state.now_s <= 1.01 * -(-count // 32) + 2 * LATENCY_S
        assert len(run.of(ev.LauncherStarted)) == 8


def test_tasks_hold_the_cores_of_their_launcher() -> None:
    run = Run(tasks_of([1.0] * 96), [site("a", 32)], model=SiteModel(hold_s=2.0))
    assert run.state.now_s == pytest.approx(3 * (1.0 + 2.0) - 2.0, abs=3 * LATENCY_S)


def test_the_site_whose_queue_moves_first_does_the_work() -> None:
    busy = {"a": [SimulatedJob(0.0, 1e4, 16, 1e4)]}
    run = Run(tasks_of([10.0] * 160), [site("a"), site("b")], background=busy)
    assert run.state.ended == "done"
    assert [s.done for s in run.state.sites] == [0, 160]
    assert run.state.now_s < 102


def test_what_waits_in_a_queue_is_cancelled_when_no_work_is_left_for_it() -> None:
    busy = {"a": [SimulatedJob(0.0, 1e4, 16, 1e4)]}
    # After 16 wide tasks one long one follows.
    workflow = tasks_of([10.0] * 16 + [5000.0], [()] * 16 + [tuple(range(16))])
    sites = [site("a", idle_timeout_s=60.0), site("b", idle_timeout_s=60.0, walltime_s=1e4)]
    run = Run(workflow, sites, background=busy)
    assert run.state.ended == "done"
    stopped = {key for e in run.log if isinstance(e, ev.LaunchersStopped) for key in e.keys}
    assert {key for key in stopped if ".L0." in key} == {"s.L0.1", "s.L0.2"}
    assert len([key for key in stopped if ".L1." in key]) == 3, "one is still of use"
    assert run.state.now_s == pytest.approx(5010.0, abs=1.0)


def test_as_many_as_are_always_wanted_are_kept() -> None:
    workflow = tasks_of([10.0] * 16 + [5000.0], [()] * 16 + [tuple(range(16))])
    run = Run(workflow, [site("b", idle_timeout_s=60.0, walltime_s=1e4, min=3)])
    stopped = {key for e in run.log if isinstance(e, ev.LaunchersStopped) for key in e.keys}
    assert len(stopped) == 1


def test_no_task_begins_that_cannot_end_in_time() -> None:
    run = Run(tasks_of([300.0] * 160), [site("a", walltime_s=1000.0)])
    assert run.state.ended == "done"
    assert run.causes() == {"done"}
    lasting = -(-160 // 16)
    assert run.state.now_s == pytest.approx(lasting // 3 * 1000 + 300 * (lasting % 3), rel=0.01)


def test_a_task_that_outlives_its_launcher_is_tried_again_at_no_cost_to_itself() -> None:
    run = Run(
        tasks_of([400.0]), [site("a", walltime_s=300.0)], ev.Settings("round-robin", retries=0)
    )
    assert run.causes() == {"expired"}
    assert run.state.ended == "failed"
    assert (
        "given up after 11 failures that were not its own" in run.state.recent_failures[-1].message
    )


def test_the_throttle_bounds_what_is_dispatched_and_so_what_is_asked_for() -> None:
    run = Run(tasks_of([10.0] * 100), [site("a")], ev.Settings("round-robin", throttle=5))
    assert run.state.ended == "done"
    assert len(run.of(ev.LauncherStarted)) == 2
    assert run.state.now_s == pytest.approx(200 + 20 * LATENCY_S, abs=0.5)


@pytest.mark.cases
@pytest.mark.parametrize("policy", sorted(PLACEMENT))
def test_every_policy_gets_through(policy: str) -> None:
    random = Random(policy)
    lengths_s = [random.uniform(1, 60) for _ in range(120)]
    parents = [tuple(sorted({random.randrange(n) for _ in range(min(n, 3))})) for n in range(120)]
    run = Run(tasks_of(lengths_s, parents), [site("a"), site("b", speed=1.5)], ev.Settings(policy))
    assert run.state.ended == "done"
    if policy == "single-cluster":
        assert sorted(s.done for s in run.state.sites) == [0, 120]


@pytest.mark.parametrize("seed", range(30))
def test_launchers_are_never_more_than_the_catalog_allows(seed: int) -> None:
    """And a replay of the log knows of the same ones."""
    random = Random(seed)
    sites = []
    for name in ("a", "b")[: random.choice((1, 2))]:
        cores, most = random.choice((1, 2, 8)), random.randint(1, 6)
        sites.append(
            site(
                name, slots=cores * most, cores=cores, max=most, min=random.randint(0, 1),
                backlog=random.randint(1, 3), idle_timeout_s=random.choice((5.0, 60.0)),
                walltime_s=random.choice((400.0, 3600.0)),
            )
        )  # fmt: skip
    count = random.randint(1, 150)
    parents = [
        tuple({random.randrange(n) for _ in range(random.randint(0, 2))}) if n else ()
        for n in range(count)
    ]
    lengths_s = [random.choice((0.01, 1.0, 30.0, 300.0)) for _ in range(count)]
    model = SiteModel(
        lrm=random.choice(("fcfs", "easy")), submit_s=random.choice((0.0, 2.0)),
        failure_rate=random.choice((0.0, 0.1)), outage_every_s=random.choice((0.0, 3000.0)),
        outage_s=50.0,
    )  # fmt: skip
    throttle = random.choice((None, 7))
    settings = ev.Settings("file-aware", throttle=throttle, retries=20, seed=seed)
    run = Run(tasks_of(lengths_s, parents), sites, settings, model=model)
    assert run.state.ended == "done", run.state.recent_failures
    open_: list[set[str]] = [set() for _ in sites]
    waiting: list[set[str]] = [set() for _ in sites]
    dispatched: set[str] = set()
    for event in run.log:
        if isinstance(event, ev.LaunchersAsked):
            spec = sites[event.site].access.launchers  # type: ignore[union-attr]
            assert spec is not None
            keys = {launcher.key for launcher in event.launchers}
            open_[event.site] |= keys
            waiting[event.site] |= keys
            assert len(open_[event.site]) <= spec.max
            assert len(waiting[event.site]) <= spec.backlog + spec.min
            assert all(spec.walltime_s >= x.walltime_s > 0 for x in event.launchers)
        elif isinstance(event, (ev.LauncherStarted, ev.LauncherEnded)):
            waiting[event.site].discard(event.key)
            if isinstance(event, ev.LauncherEnded):
                open_[event.site].discard(event.key)
        elif isinstance(event, ev.AttemptPlaced):
            dispatched.add(event.key)
            assert throttle is None or len(dispatched) <= throttle
        elif isinstance(event, ev.AttemptEnded):
            dispatched.discard(event.key)
    core = Core({"0": run.workflow})
    core.replay(run.log)
    for index, (again, live) in enumerate(zip(core.state.sites, run.state.sites, strict=True)):
        pool, lived = pool_at(core.state, index), pool_at(run.state, index)
        assert pool is not None
        assert lived is not None
        assert set(pool.launchers) == set(lived.launchers)
        assert pool.live_slots == lived.live_slots
        assert again.committed_cores == live.committed_cores == 0
        assert pool.busy_cores == lived.busy_cores == 0


def test_a_dead_site_holds_nothing_back() -> None:
    """Its launchers die in an outage; what waited there goes where there is room."""
    model = SiteModel(outage_every_s=40.0, outage_s=30.0)
    run = Run(tasks_of([5.0] * 400), [site("a"), site("b")], ev.Settings("round-robin", seed=3),
              model=model)  # fmt: skip
    assert run.state.ended == "done"
    assert run.of(ev.LauncherEnded)
    assert "lost" in run.causes()
    assert run.state.now_s < 400 * 5.0 / 16 * 1.5


def test_a_queue_that_refuses_is_left_alone_for_a_while_and_says_why() -> None:
    workflow = Workflow("w", "w.dax", [Task("t", "t", "t", resources=Resources(), runtime_s=1.0)],
                        [], [()])  # fmt: skip
    core = Core({"d": workflow})
    events: list[ev.Event] = [
        ev.RunStarted(0.0, "r", ev.Settings("round-robin"), (site("a"),), (), 1),
        ev.WorkflowAdded(0.0, 0, "w", "d"),
    ]
    asked = [e for event in events for e in core.step(event)[0]]
    assert [type(e) for e in asked] == [ev.LaunchersAsked]
    decided, actions = core.step(ev.LauncherEnded(1.0, 0, "r.L0.1", "refused", "no such queue"))
    assert decided == []
    pool = pool_at(core.state, 0)
    assert pool is not None
    assert not pool.launchers
    assert "no such queue" in (core.state.sites[0].pause_reason or "")
    assert not core.state.ended, "it is tried again"
    assert actions == [SetTimer("launchers:0", 61.0)]
    due_s = 61.0
    decided, _ = core.step(ev.TimerFired(due_s, "launchers:0"))
    assert [type(e) for e in decided] == [ev.LaunchersAsked]
    now_s, number = due_s, 2
    while not any(isinstance(event, ev.RunEnded) for event in decided):
        decided, actions = core.step(
            ev.LauncherEnded(now_s, 0, f"r.L0.{number}", "refused", "no such queue")
        )
        for action in actions:
            if isinstance(action, SetTimer):
                now_s, number = action.at_s, number + 1
                core.step(ev.TimerFired(now_s, action.timer))
    assert [type(event) for event in decided] == [ev.RunEnded]
    assert "no more are requested" in (core.state.end_reason or "")
    assert now_s > 3600


def test_what_waits_is_taken_back_for_a_site_that_idles() -> None:
    workflow = tasks_of([1000.0] * 8)
    core = Core({"d": workflow})
    sites = (site("a", 4), site("b", 8))
    now_s = 0.0

    def step(event: ev.Event) -> list[ev.Event]:
        return core.step(event)[0]

    step(ev.RunStarted(now_s, "r", ev.Settings("round-robin"), sites, (), 1))
    step(ev.WorkflowAdded(now_s, 0, "w", "d"))
    step(ev.LauncherStarted(now_s, 0, "r.L0.1", "n", 4, None, "tcp", 0.1))
    placed = list(core.state.attempts)
    assert len(placed) == 4
    step(ev.AttemptsSubmitted(now_s, 0, tuple(placed)))
    step(ev.LauncherEnded(5.0, 0, "r.L0.1", "lost", "its node failed"))
    decided = step(ev.LauncherStarted(6.0, 1, "r.L1.1", "n", 4, None, "tcp", 0.1))
    assert [e.site for e in decided if isinstance(e, ev.AttemptPlaced)] == [1] * 4
    decided = step(ev.LauncherStarted(7.0, 1, "r.L1.2", "n", 4, None, "tcp", 0.1))
    withdrawn = [e for e in decided if isinstance(e, ev.AttemptsWithdrawn)]
    assert [sorted(e.keys) for e in withdrawn] == [sorted(placed)]
    again = [step(ev.AttemptEnded(8.0, key, Outcome("cancelled"))) for key in placed]
    moved = [e for events in again for e in events if isinstance(e, ev.AttemptPlaced)]
    assert {e.site for e in moved} == {1}
    assert len(moved) == 4
    assert core.state.sites[0].failed == 0


def test_a_new_engine_looks_for_the_launchers_of_the_one_before() -> None:
    core = Core({"d": tasks_of([1000.0] * 8)})
    core.step(ev.RunStarted(0.0, "r", ev.Settings("round-robin"), (site("a", 8),), (), 1))
    core.step(ev.WorkflowAdded(0.0, 0, "w", "d"))
    core.step(ev.LauncherStarted(1.0, 0, "r.L0.1", "n", 4, None, "tcp", 0.1))
    _, actions = core.step(ev.RunResumed(50.0))
    kinds = [type(action).__name__ for action in actions]
    assert kinds.index("FindLaunchers") < kinds.index("FindAttempts")
    pool = pool_at(core.state, 0)
    assert pool is not None
    assert pool.launchers["r.L0.1"].phase is LauncherPhase.AWAY
    assert pool.live_slots == 0
    core.step(ev.LauncherStarted(52.0, 0, "r.L0.1", "n", 4, None, "tcp", 0.1))
    assert pool.live_slots == 4
    assert pool.launchers["r.L0.1"].started_s == 1.0


def test_a_launcher_that_stays_away_is_replaced() -> None:
    core = Core({"d": tasks_of([1000.0] * 8)})
    core.step(ev.RunStarted(0.0, "r", ev.Settings("round-robin"), (site("a", 8),), (), 1))
    core.step(ev.WorkflowAdded(0.0, 0, "w", "d"))
    for number in (1, 2):
        core.step(ev.LauncherStarted(1.0, 0, f"r.L0.{number}", "n", 4, None, "tcp", 0.1))
    core.step(ev.RunResumed(50.0))
    core.step(ev.LauncherStarted(52.0, 0, "r.L0.2", "n", 4, None, "tcp", 0.1))
    core.step(ev.LauncherEnded(53.0, 0, "r.L0.2", "lost", "its node failed"))
    pool = pool_at(core.state, 0)
    assert pool is not None
    due_s = core.state.timers["away:0"]
    assert pool.coming_slots == 8, "one is away, one was asked for in the place of the dead one"
    core.step(ev.TimerFired(due_s, "away:0"))
    assert pool.coming_slots == 4
    core.step(ev.LauncherStarted(due_s + 9, 0, "r.L0.1", "n", 4, None, "tcp", 0.1))
    assert pool.live_slots == 4


def test_what_a_launcher_turns_out_not_to_have_keeps_it_no_longer_busy() -> None:
    core = Core({"d": tasks_of([1000.0] * 4)})
    core.step(ev.RunStarted(0.0, "r", ev.Settings("round-robin"), (site("a", 4),), (), 1))
    core.step(ev.WorkflowAdded(0.0, 0, "w", "d"))
    core.step(ev.LauncherStarted(1.0, 0, "r.L0.1", "n", 4, None, "tcp", 0.1))
    keys = tuple(core.state.attempts)
    for key in keys:
        core.step(ev.AttemptStarted(2.0, key, "r.L0.1"))
    pool = pool_at(core.state, 0)
    assert pool is not None
    assert pool.busy_cores == 4
    core.step(ev.RunResumed(50.0))
    core.step(ev.AttemptsFound(51.0, 0, keys[:1], keys[1:]))
    assert pool.busy_cores == 3
    for key in keys:
        core.step(ev.AttemptStarted(52.0, key, "r.L0.1"))
    assert pool.busy_cores == 4
    for key in keys:
        core.step(ev.AttemptEnded(60.0, key, Outcome("done")))
    assert pool.busy_cores == 0


def test_slots_that_no_task_has_time_in_are_no_reason_to_wait() -> None:
    """The next launcher is in the queue before the last one has ended."""
    core = Core({"d": tasks_of([400.0] * 8, [()] * 4 + [(n,) for n in range(4)])})
    core.step(ev.RunStarted(0.0, "r", ev.Settings("round-robin"), (site("a", 16),), (), 1))
    core.step(ev.WorkflowAdded(0.0, 0, "w", "d"))
    core.step(ev.LauncherStarted(1.0, 0, "r.L0.1", "n", 4, 700.0, "tcp", 0.1))
    keys = list(core.state.attempts)
    for key in keys:
        core.step(ev.AttemptStarted(1.0, key, "r.L0.1"))
    asked: list[ev.Event] = []
    for key in keys:
        end = ev.AttemptEnded(401.0, key, Outcome("done", started_s=1.0, ended_s=401.0))
        asked += [e for e in core.step(end)[0] if isinstance(e, ev.LaunchersAsked)]
    assert len(core.state.attempts) == 4
    assert len(asked) == 1


def test_what_may_be_in_a_launcher_that_is_not_back_takes_no_room_from_the_others() -> None:
    core = Core({"d": tasks_of([1000.0] * 12)})
    core.step(ev.RunStarted(0.0, "r", ev.Settings("round-robin"), (site("a", 8),), (), 1))
    core.step(ev.WorkflowAdded(0.0, 0, "w", "d"))
    for number in (1, 2):
        core.step(ev.LauncherStarted(1.0, 0, f"r.L0.{number}", "n", 4, None, "tcp", 0.1))
    keys = tuple(core.state.attempts)
    assert len(keys) == 8
    core.step(ev.RunResumed(50.0))
    core.step(ev.LauncherStarted(51.0, 0, "r.L0.2", "n", 4, None, "tcp", 0.1))
    decided = []
    for key in keys[:4]:
        decided += core.step(ev.AttemptEnded(52.0, key, Outcome("done")))[0]
    decided += core.step(ev.AttemptsFound(53.0, 0, (), keys[4:]))[0]
    placed = [e for e in decided if isinstance(e, ev.AttemptPlaced)]
    assert len(placed) == 4
    for key in core.state.attempts:
        core.step(ev.AttemptStarted(54.0, key, "r.L0.2"))
    pool = pool_at(core.state, 0)
    assert pool is not None
    assert pool.unlocated_cores == 0
    for key in list(core.state.attempts):
        core.step(ev.AttemptEnded(60.0, key, Outcome("done")))
    assert pool.busy_cores == pool.closed_cores == pool.unlocated_cores == 0
