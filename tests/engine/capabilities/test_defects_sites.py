"""Regression tests of the core: late binding, wide tasks, launchers."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import pytest
from msgspec.structs import replace

from tests.engine.capabilities.test_defects import placed
from tests.engine.policies.test_policies import bag, sites
from wfrun.engine import events as ev
from wfrun.engine.capabilities.launchers.demand import FIRST_DECLINE_S, MAX_DECLINE_S, Demand
from wfrun.engine.capabilities.launchers.launchers import Launchers
from wfrun.engine.core import actions as act
from wfrun.engine.core.core import Core
from wfrun.engine.exchange import Outcome
from wfrun.engine.fitting.information import Information
from wfrun.engine.model import Access, Catalog, File, LauncherSpec, SiteSpec, Task, Workflow
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.policies.placement.base import BasePlacement
from wfrun.testing.fake_sites import Behaviour, LauncherPlan
from wfrun.testing.fake_world import FakeWorld


class Run:
    """A core that a test steps by hand, with its log."""

    def __init__(
        self, workflows: Iterable[Workflow], settings: ev.Settings, specs: tuple[SiteSpec, ...]
    ) -> None:
        self.documents = {str(n): w for n, w in enumerate(workflows)}
        self.core = Core(self.documents)
        self.log: list[ev.Event] = []
        self.actions: list[act.Action] = []
        self.step(ev.RunStarted(0.0, "r", settings, specs, (), len(self.documents)))

    def step(self, event: ev.Event) -> list[ev.Event]:
        """Step an event; returns the decisions."""
        decided, actions = self.core.step(event)
        self.log += [event, *decided]
        self.actions += actions
        return decided

    def add(self, workflow: int, at_s: float = 0.0) -> list[ev.Event]:
        return self.step(ev.WorkflowAdded(at_s, workflow, "w", str(workflow)))

    def end(self, key: str, at_s: float, outcome: Outcome | None = None) -> list[ev.Event]:
        return self.step(ev.AttemptEnded(at_s, key, outcome or Outcome("done")))

    def replayed(self) -> Core:
        core = Core(self.documents)
        core.replay(self.log)
        return core


def cluster(name: str, slots: int, **spec: object) -> SiteSpec:
    """A site with launchers of 4 cores."""
    launchers = LauncherSpec(**{"cores": 4, "max": slots // 4, **spec})  # type: ignore[arg-type]
    access = Access(("head",), dispatch="launchers", launchers=launchers)
    return SiteSpec(name, slots, kind="slurm", access=access)


# Late binding

SELECTIONS = pytest.mark.parametrize("selection", ["", "s-t"])


@SELECTIONS
@pytest.mark.parametrize("policy", ["fpf", "rr", "fplt", "stfr"])
def test_a_task_goes_where_enough_slots_are_idle(policy: str, selection: str) -> None:
    """Two sites of 6 slots take one task of 4 cores each, and the third task waits."""
    settings = ev.Settings(policy, selection=selection, replicas=0)
    run = Run([bag(3, cores=4)], settings, sites((6, 1.0), (6, 1.0)).sites)
    found = [e.site for e in run.add(0) if isinstance(e, ev.AttemptPlaced)]
    assert sorted(found) == [0, 1]


def stream(selection: str, count: int = 20) -> tuple[Run, list[str]]:
    """One site of 6 slots, which three tasks of 2 cores fill. One of 4 cores waits, and then one of
    2 cores arrives as each ends. Returns the attempts in the order of their placements."""
    workflows = [bag(3, cores=2), bag(1, cores=4), *(bag(1, cores=2) for _ in range(count))]
    run = Run(workflows, ev.Settings("fpf", selection=selection), sites((6, 1.0)).sites)
    order = placed(run.add(0))
    run.add(1)
    for number in range(count):
        order += placed(run.add(2 + number, float(number)))
        order += placed(run.end(order[number], number + 0.5))
    return run, order


@SELECTIONS
def test_a_wide_task_does_not_starve_behind_narrow_ones(selection: str) -> None:
    """The narrow task that fits beside the reservation overtakes it, no other one does."""
    _, order = stream(selection)
    assert order[:5] == ["r.0.0.1", "r.0.1.1", "r.0.2.1", "r.2.0.1", "r.1.0.1"]


@SELECTIONS
def test_a_reservation_is_in_the_log_and_survives_a_replay(selection: str) -> None:
    run, order = stream(selection, count=2)
    assert [(e.workflow, e.task, e.site) for e in run.log if isinstance(e, ev.CoresReserved)] == [
        (1, 0, 0)
    ]
    again = run.replayed()
    for number in (2, 3):
        event = ev.AttemptEnded(9.0 + number, order[number], Outcome("done"))
        assert again.step(event)[0] == run.step(event)
    assert "r.1.0.1" in placed(run.log)


@SELECTIONS
def test_narrow_tasks_use_the_cores_that_a_reservation_leaves(selection: str) -> None:
    workflows = [bag(2, cores=4), bag(1, cores=2)]
    run = Run(workflows, ev.Settings("fpf", selection=selection), sites((6, 1.0)).sites)
    assert placed(run.add(0)) == ["r.0.0.1"]
    assert placed(run.add(1)) == ["r.1.0.1"]


@pytest.mark.parametrize("policy", ["fpf", "rr", "fplt", "stfr"])
@SELECTIONS
def test_a_load_of_others_on_all_slots_does_not_end_a_run(policy: str, selection: str) -> None:
    run = Run([bag(2, cores=2)], ev.Settings(policy, selection=selection), sites((4, 1.0)).sites)
    jobs = tuple(ev.BackgroundJob(str(n), 1, 0.0) for n in range(4))
    run.step(ev.SiteObserved(0.0, 0, jobs))
    run.add(0)
    assert run.core.state.ended is None
    for number in (1, 2):
        (key,) = run.core.state.attempts
        run.end(key, 10.0 * number)
    assert run.core.state.ended == "done"


# Withdrawals


def test_no_more_is_withdrawn_than_others_have_idle_cores_for() -> None:
    """40 attempts wait at a site that has lost its launchers. Eight end at the other site, one
    after another, and no withdrawal is answered meanwhile."""
    specs = (cluster("a", 40, backlog=10), cluster("b", 8))
    run = Run([bag(48, 1000.0)], ev.Settings("round-robin"), specs)
    run.add(0)
    for number in range(10):
        run.step(ev.LauncherStarted(1.0, 0, f"r.L0.{number + 1}", "n", 4, None, "tcp", 0.1))
    waiting = tuple(run.core.state.attempts)
    assert len(waiting) == 40
    run.step(ev.AttemptsSubmitted(1.0, 0, waiting))
    for number in range(10):
        run.step(ev.LauncherEnded(2.0, 0, f"r.L0.{number + 1}", "node", "its node failed"))
    decided = [
        event
        for number in (1, 2)
        for event in run.step(
            ev.LauncherStarted(3.0, 1, f"r.L1.{number}", "n", 4, None, "tcp", 0.1)
        )
    ]
    running = placed(decided)
    assert len(running) == 8
    run.step(ev.AttemptsSubmitted(3.0, 1, tuple(running)))
    for number, key in enumerate(running):
        run.step(ev.AttemptStarted(3.0, key, f"r.L1.{1 + number // 4}"))
    for number, key in enumerate(running):
        run.end(key, 100.0 + number)
    withdrawn = [e for e in run.log if isinstance(e, ev.AttemptsWithdrawn)]
    assert {event.site for event in withdrawn} == {0}
    assert sum(len(event.keys) for event in withdrawn) == 8


# Replicas and launchers


def asked_s(replicas: int) -> float:
    """The walltime of the launcher that is asked for in the place of a dead one, while four tasks
    of 1000 s run in it, and perhaps have replicas elsewhere."""
    specs = (cluster("a", 4, walltime_s=1e5), cluster("b", 4, walltime_s=1e5))
    run = Run([bag(8, 1000.0)], ev.Settings("wqr", replicas=replicas), specs)
    run.add(0)
    first = placed(run.step(ev.LauncherStarted(0.0, 0, "r.L0.1", "n", 4, None, "tcp", 0.1)))
    for key in first:
        run.step(ev.AttemptStarted(0.0, key, "r.L0.1"))
    outcome = Outcome("done", started_s=0.0, ended_s=1000.0)
    second = [key for ended in first for key in placed(run.end(ended, 1000.0, outcome))]
    assert len(second) == 4
    for key in second:
        run.step(ev.AttemptStarted(1000.0, key, "r.L0.1"))
    others = placed(run.step(ev.LauncherStarted(1001.0, 1, "r.L1.1", "n", 4, None, "tcp", 0.1)))
    assert len(others) == 4 * replicas
    run.step(ev.AttemptsSubmitted(1001.0, 1, tuple(others)))
    for key in others:
        run.step(ev.AttemptStarted(1001.0, key, "r.L1.1"))
    decided = run.step(ev.LauncherEnded(1002.0, 0, "r.L0.1", "node", "its node failed"))
    (asked,) = [e for e in decided if isinstance(e, ev.LaunchersAsked)]
    return asked.launchers[0].walltime_s


def test_launchers_are_asked_for_as_long_in_a_run_with_replicas() -> None:
    assert asked_s(replicas=1) >= asked_s(replicas=0) == 4000.0


# Sites that a policy declines


class Shy(BasePlacement):
    """A policy that leaves all tasks unplaced until it is willing."""

    name = "shy"
    information = Information()
    summary = "declines at first"
    willing = False

    def place(self, task: int) -> int | None:
        return self.view.candidates(task)[0] if self.willing else None


def test_a_site_that_a_policy_declined_once_gets_launchers_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PLACEMENT, "shy", Shy)
    run = Run([bag(4)], ev.Settings("shy"), (cluster("a", 4), cluster("b", 4)))
    run.add(0)
    run.step(ev.LauncherStarted(1.0, 0, "r.L0.1", "n", 4, None, "tcp", 0.1))
    assert not run.core.state.attempts
    run.step(ev.LauncherEnded(1.0, 0, "r.L0.1", "node", "its node failed"))
    again = run.replayed()
    for core in (run.core, again):
        assert _asked(core.step(ev.TimerFired(30.0, "launchers:0"))[0]) == []
    monkeypatch.setattr(Shy, "willing", True)
    for core in (run.core, again):
        assert _asked(core.step(ev.TimerFired(61.0, "launchers:0"))[0]) == [0]
    assert act.SetTimer("launchers:0", 61.0) in run.actions
    assert [e.sites for e in run.log if isinstance(e, ev.SitesDeclined)] == [(0,)]


def test_a_replayed_core_asks_policies_again_that_had_declined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It asked them only once a placement was possible that had not been before."""
    monkeypatch.setitem(PLACEMENT, "shy", Shy)
    run = Run([bag(2)], ev.Settings("shy"), (cluster("a", 4), cluster("b", 4)))
    run.add(0)
    run.step(ev.LauncherStarted(1.0, 0, "r.L0.1", "n", 4, None, "tcp", 0.1))
    assert not run.core.state.attempts
    again = run.replayed()
    monkeypatch.setattr(Shy, "willing", True)
    for core in (run.core, again):
        decided, _ = core.step(ev.JobLimitLifted(2.0, 1))
        assert [e.task for e in decided if isinstance(e, ev.AttemptPlaced)] == [0, 1]


def _asked(events: Iterable[ev.Event]) -> list[int]:
    return [event.site for event in events if isinstance(event, ev.LaunchersAsked)]


class OneLauncher(Behaviour):
    """The first launcher dies after 5 s, and the queue refuses all others."""

    def launcher(self, key: str) -> LauncherPlan:
        return LauncherPlan(dies_s=5.0) if key.endswith(".1") else LauncherPlan(refused="refused")


@pytest.mark.parametrize("staging_s", [10.0, 10_000.0])
def test_what_waits_at_a_site_that_gets_no_more_launchers_is_taken_back(staging_s: float) -> None:
    """It would wait for ever, for a launcher or first for its input."""
    task = Task("t0", "x", "x", inputs=(0,), runtime_s=1.0)
    world = FakeWorld(
        [Workflow("w", "w.dax", [task], [File("a", 1)], [()])],
        Catalog((cluster("alpha", 4),)),
        ev.Settings("round-robin"),
        behaviour=OneLauncher(),
        stalled_s=lambda _: staging_s,
    )
    assert world.run() == "failed"
    assert "no more are requested" in str(world.core.state.end_reason)


def test_a_run_ends_with_its_last_launcher_if_no_other_will_start() -> None:
    """The core would look at the launcher again when it had been idle for long, but it ends
    before."""
    tasks = [Task(f"t{n}", "x", "x", outputs=(n,)) for n in range(2)]
    files = [File(f"f{n}", 6, producer=n) for n in range(2)]
    workflow = Workflow("w", "w.dax", tasks, files, [()] * 2)
    settings = ev.Settings("round-robin", keep="all")
    run = Run([workflow], settings, (replace(cluster("a", 4), storage_bytes=10),))
    run.add(0)
    run.step(ev.LauncherStarted(1.0, 0, "r.L0.1", "n", 4, None, "tcp", 0.1))
    run.step(ev.AttemptStarted(1.0, "r.0.0.1", "r.L0.1"))
    run.end("r.0.0.1", 2.0, Outcome("done", sizes=(6,)))
    again = run.replayed()
    ended = ev.LauncherEnded(3.0, 0, "r.L0.1", "done")
    (end,) = run.step(ended)
    assert isinstance(end, ev.RunEnded)
    assert again.step(ended)[0] == [end]


def test_a_decline_is_awaited_although_the_policy_took_back_an_earlier_one() -> None:
    run = Run([bag(1)], ev.Settings("round-robin"), (cluster("a", 4), cluster("b", 4)))
    run.add(0)
    demand = Demand(run.core.state)
    demand.decline(0, (0,))
    run.core.state.now_s = 10.0
    demand.decline(0, (1,))
    demand.accept(0, 0)
    assert demand.refresh() == 10.0 + FIRST_DECLINE_S


def test_a_decline_that_ends_after_one_of_the_maximum_period_is_awaited() -> None:
    """No timer was set for it, and the run could end before."""
    run = Run([bag(1)], ev.Settings("round-robin"), (cluster("a", 4), cluster("b", 4)))
    run.add(0)
    demand, state = Demand(run.core.state), run.core.state
    while demand.refresh() < inf or not state.now_s:
        demand.decline(0, (0,))
        state.now_s += 1.0
    state.now_s += MAX_DECLINE_S - 10.0
    demand.decline(0, (1,))
    until_s = state.now_s + FIRST_DECLINE_S
    assert demand.refresh() == until_s
    state.now_s += 20.0  # The decline of the maximum period is over, and nobody waited for it.
    assert demand.expired() == [(0, 0)]
    assert demand.refresh() == until_s


def test_a_pause_of_launchers_keeps_its_reason_while_a_launcher_still_works() -> None:
    """A task that ended in a launcher of before the pause removed the reason, not the pause."""
    run = Run([bag(3)], ev.Settings("round-robin"), (cluster("a", 8, max=2),))
    run.add(0)
    run.step(ev.LauncherStarted(1.0, 0, "r.L0.1", "n", 1, None, "tcp", 0.1))
    pool = run.core.state.find(Launchers)
    assert pool is not None
    run.step(ev.LauncherEnded(2.0, 0, "r.L0.2", "refused", "account 'astro' is expired"))
    reason = pool.pools[0].reason
    assert reason is not None
    assert "account 'astro' is expired" in reason
    run.end(next(iter(run.core.state.attempts)), 3.0)
    assert pool.pools[0].reason == reason
    after_s = pool.pools[0].paused_until_s + 1.0
    run.end(next(iter(run.core.state.attempts)), after_s)
    assert pool.pools[0].reason is None


def test_a_site_is_not_shown_as_paused_once_launchers_are_requested_again() -> None:
    """It was, until a task succeeded there."""
    run = Run([bag(3)], ev.Settings("round-robin"), (cluster("a", 4),))
    run.add(0)
    site = run.core.state.sites[0]
    run.step(ev.LauncherEnded(2.0, 0, "r.L0.1", "refused", "account 'astro' is expired"))
    assert "(no more for 1 min)" in site.pause_text
    run.step(ev.TimerFired(50.0, "launchers:0"))
    assert "(no more for 1 min)" in site.pause_text
    assert _asked(run.step(ev.TimerFired(62.0, "launchers:0"))) == [0]
    assert run.replayed().state.sites[0].pause_text == site.pause_text == ""
