"""Launchers beside sites without any, in virtual time, and launchers that nothing runs in."""

from __future__ import annotations

import pytest

from tests.runners.simulate.test_simulated_launchers import Run, site, tasks_of
from wfrun.engine import events as ev
from wfrun.engine.capabilities.launchers.launchers import pool_at
from wfrun.engine.core.actions import StopLaunchers
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import RunState
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import Resources, SiteSpec, Task, Workflow
from wfrun.engine.policies.placement import PLACEMENT, plans_again

DESK = SiteSpec("desk", 2)


def held_s(state: RunState, index: int) -> float:
    """Slot seconds that launchers of a site have taken from others."""
    pool = pool_at(state, index)
    assert pool is not None
    return sum(
        ((state.now_s if x.ended_s is None else x.ended_s) - x.started_s) * x.slots
        for x in [*pool.ended, *pool.launchers.values()]
        if x.started_s is not None
    )


@pytest.mark.cases
@pytest.mark.parametrize("policy", sorted(set(PLACEMENT) - {"single-cluster"}))
def test_a_site_without_launchers_leaves_work_for_them(policy: str) -> None:
    run = Run(tasks_of([10.0] * 400), [site("a"), DESK, site("b")], ev.Settings(policy))
    assert run.state.ended == "done"
    assert run.state.now_s < 400 * 10 / 34 * 1.05
    assert min(s.done for s in run.state.sites) >= 20
    moved = {key for e in run.of(ev.AttemptsWithdrawn) for key in e.keys}  # type: ignore[attr-defined]
    held_back = PLACEMENT[policy].binds_late or plans_again(ev.Settings(policy))
    waited = 0 if held_back else 2
    assert len(moved) == waited, "what waited at the desk when all else was done"


def test_what_the_desk_can_run_needs_no_launchers() -> None:
    run = Run(tasks_of([10.0] * 4), [site("a"), DESK], ev.Settings("file-aware"))
    assert [s.done for s in run.state.sites] == [0, 4]
    assert not run.of(ev.LaunchersAsked)


@pytest.mark.parametrize("beside", [DESK, site("b")])
def test_launchers_that_the_policy_has_no_use_for_are_let_go(beside: SiteSpec) -> None:
    """Single Cluster stays with the first site that it has placed a task at."""
    sites = [beside, site("a", idle_timeout_s=60.0)]
    run = Run(tasks_of([100.0] * 100), sites, ev.Settings("single-cluster"))
    assert [s.done for s in run.state.sites] == [100, 0]
    assert held_s(run.state, 1) <= 16 * 61


def test_work_goes_where_the_policy_had_not_wanted_it_once_its_own_choice_is_gone() -> None:
    sites = [DESK, site("a", idle_timeout_s=60.0)]
    core = Core({"d": tasks_of([100.0] * 10)})

    def step(event: ev.Event) -> list[ev.Event]:
        decided, _ = core.step(event)
        return decided

    step(ev.RunStarted(0.0, "r", ev.Settings("single-cluster"), tuple(sites), (), 1))
    asked = [e for e in step(ev.WorkflowAdded(0.0, 0, "w", "d")) if type(e) is ev.LaunchersAsked]
    keys = [request.key for e in asked for request in e.launchers]
    for key in keys:
        step(ev.LauncherStarted(1.0, 1, key, "n", 4, None, "tcp", 0.1))
    stopped = step(ev.TimerFired(61.0, "launchers:1"))
    assert [set(e.keys) for e in stopped if isinstance(e, ev.LaunchersStopped)] == [set(keys)]
    for key in keys:
        assert not step(ev.LauncherEnded(62.0, 1, key, "done", None))
    decided = step(ev.SitePaused(70.0, 0, "its disk is full"))
    assert ev.LaunchersAsked in {type(e) for e in decided}


def test_launchers_that_are_refused_together_are_one_incident() -> None:
    core = Core({"d": tasks_of([100.0] * 8)})
    core.step(ev.RunStarted(0.0, "r", ev.Settings("round-robin"), (site("a"),), (), 1))
    core.step(ev.WorkflowAdded(0.0, 0, "w", "d"))
    for number in (1, 2):
        core.step(ev.LauncherEnded(1.0, 0, f"r.L0.{number}", "refused", "no such queue"))
    pool = pool_at(core.state, 0)
    assert pool is not None
    assert pool.pauses == 1
    assert pool.paused_until_s == 61.0


def test_launchers_that_were_dismissed_with_the_run_hold_no_new_ones_back() -> None:
    core = Core({"d": tasks_of([100.0] * 40)})
    core.step(ev.RunStarted(0.0, "r", ev.Settings("round-robin"), (site("a"),), (), 1))
    core.step(ev.WorkflowAdded(0.0, 0, "w", "d"))
    core.step(ev.LauncherStarted(1.0, 0, "r.L0.1", "n", 4, None, "tcp", 0.1))
    core.step(ev.CancelAsked(2.0, "drain"))
    for key in list(core.state.attempts):
        decided, _ = core.step(ev.AttemptEnded(3.0, key, Outcome("cancelled")))
    assert core.state.ended == "cancelled"
    decided, actions = core.step(ev.RunResumed(10.0))
    before = ("r.L0.1", "r.L0.2", "r.L0.3")
    assert [a.keys for a in actions if isinstance(a, StopLaunchers)] == [before]
    (asked,) = [e for e in decided if isinstance(e, ev.LaunchersAsked)]
    assert [request.key for request in asked.launchers] == ["r.L0.4", "r.L0.5"]
    pool = pool_at(core.state, 0)
    assert pool is not None
    assert set(pool.launchers) == {"r.L0.1", "r.L0.4", "r.L0.5"}, "the first may still run"
    core.step(ev.LauncherEnded(11.0, 0, "r.L0.1", "done", None))
    assert pool.failures == 0


def test_launchers_of_a_slow_site_live_long_enough_for_the_longest_task() -> None:
    """Its length is known from its document alone, and holds for the reference processor."""
    core = Core({"d": tasks_of([1.0, 200.0], [(), (0,)])})
    slow = site("a", 4, speed=0.2, walltime_s=7200.0)
    core.step(ev.RunStarted(0.0, "r", ev.Settings("round-robin"), (slow,), (), 1))
    core.step(ev.WorkflowAdded(0.0, 0, "w", "d"))
    core.step(ev.LauncherStarted(1.0, 0, "r.L0.1", "n", 4, None, "tcp", 0.1))
    (key,) = core.state.attempts
    core.step(ev.AttemptEnded(6.0, key, Outcome("done", started_s=1.0, ended_s=6.0)))
    decided, _ = core.step(ev.LauncherEnded(7.0, 0, "r.L0.1", "lost", "its node failed"))
    (asked,) = [e for e in decided if isinstance(e, ev.LaunchersAsked)]
    assert asked.launchers[0].walltime_s >= 2 * 200 / 0.2


def test_slots_that_the_policy_leaves_alone_do_not_count_as_help() -> None:
    """Single Cluster stays where it is, also when another site has slots and its own has none."""
    core = Core({"d": tasks_of([1.0] * 40)})
    now_s = 0.0

    def step(event: ev.Event) -> list[ev.Event]:
        decided, _ = core.step(event)
        return decided

    sites = (site("a", 4), site("b", 4, min=1))
    step(ev.RunStarted(now_s, "r", ev.Settings("single-cluster"), sites, (), 1))
    step(ev.WorkflowAdded(now_s, 0, "w", "d"))
    step(ev.LauncherStarted(500.0, 0, "r.L0.1", "n", 4, None, "tcp", 0.1))
    step(ev.LauncherStarted(501.0, 1, "r.L1.1", "n", 4, None, "tcp", 0.1))
    outcome = Outcome("done", started_s=501.0, ended_s=502.0)
    for key in list(core.state.attempts):
        step(ev.AttemptStarted(501.0, key, "r.L0.1"))
        step(ev.AttemptEnded(502.0, key, outcome))
    assert {attempt.site for attempt in core.state.attempts.values()} == {0}
    decided = step(ev.LauncherEnded(503.0, 0, "r.L0.1", "walltime", None))
    assert [e.site for e in decided if isinstance(e, ev.LaunchersAsked)] == [0]


def test_a_run_does_not_wait_for_launchers_of_a_site_that_is_given_up() -> None:
    """They have ended long ago, perhaps, and nobody can be asked."""
    core = Core({"d": tasks_of([1.0] * 4)})
    core.step(ev.RunStarted(0.0, "r", ev.Settings("round-robin"), (site("a", 4),), (), 1))
    core.step(ev.WorkflowAdded(0.0, 0, "w", "d"))
    core.step(ev.SitePaused(5.0, 0, "it cannot be reached"))
    assert core.state.ended is None
    (due_s,) = (at_s for timer, at_s in core.state.timers.items() if timer.startswith("paused:"))
    decided, _ = core.step(ev.TimerFired(due_s, "paused:0"))
    (end,) = [e for e in decided if isinstance(e, ev.RunEnded)]
    assert end.outcome == "failed"
    assert "it cannot be reached" in (end.reason or "")


def test_slots_that_can_not_run_all_of_it_do_not_count_as_help() -> None:
    """A task that needs what only one site has does not wait until others have nothing to do."""
    tasks = [Task(f"t{n}", "t", "t", runtime_s=1.0) for n in range(40)]
    special = Task("g", "g", "g", resources=Resources(gpus=1), runtime_s=1.0)
    parents: list[tuple[int, ...]] = [()] * 40 + [(0,)]
    core = Core({"d": Workflow("w", "w.dax", [*tasks, special], [], parents)})

    def step(event: ev.Event) -> list[ev.Event]:
        decided, _ = core.step(event)
        return decided

    sites = (site("a", 4), site("b", 4, gpus=1))
    step(ev.RunStarted(0.0, "r", ev.Settings("round-robin"), sites, (), 1))
    step(ev.WorkflowAdded(0.0, 0, "w", "d"))
    for index in (0, 1):
        step(ev.LauncherStarted(500.0, index, f"r.L{index}.1", "n", 4, None, "tcp", 0.1))
    outcome = Outcome("done", started_s=500.0, ended_s=501.0)
    for attempt in [x for x in core.state.attempts.values() if x.site == 0]:
        step(ev.AttemptStarted(500.0, attempt.key, "r.L0.1"))
        step(ev.AttemptEnded(501.0, attempt.key, outcome))
    waiting = core.state.workflows[0].eligible.counts
    cores = [sum(k.cores * n for k, n in waiting.items() if k.mask >> s & 1) for s in (0, 1)]
    assert cores[0] < cores[1]
    decided = step(ev.LauncherEnded(503.0, 1, "r.L1.1", "walltime", None))
    assert [e.site for e in decided if isinstance(e, ev.LaunchersAsked)] == [1]
