"""Moved jobs have the size of the offer for which they move, and a destination until they are there
or start."""

from __future__ import annotations

import pytest

from wfrun.engine import events as ev
from wfrun.engine.capabilities.reallocating import sizes
from wfrun.engine.capabilities.reallocating.reallocations import Reallocations
from wfrun.engine.core.actions import SubmitAttempts
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import WorkflowState
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import Moldable, Resources, SiteSpec, Task, Workflow

JOBS = 6
TIMES = {1: 4000.0, 2: 2000.0, 4: 1000.0}


def waiting_run() -> Core:
    """Moldable jobs with four processors each wait at the first of two sites, behind others' jobs
    for hours; the second has two processors."""
    asked = Resources(walltime_s=TIMES[1], parallel=True)
    tasks = [Task(f"j{n}", "j", "j", runtime_s=TIMES[1], resources=asked) for n in range(JOBS)]
    moldable = {n: Moldable(tuple(TIMES), tuple(TIMES.values()), 4) for n in range(JOBS)}
    jobs = Workflow("jobs", "jobs", tasks, [], [()] * JOBS, moldable=moldable)
    core = Core({"": jobs})
    settings = ev.Settings(policy="mst", sizing="exhaustive", reallocate="mct-reg")
    specs = SiteSpec("full", 4), SiteSpec("idle", 2)
    keys = [f"k.0.{n}.1" for n in range(JOBS)]
    core.replay(
        [
            ev.RunStarted(0.0, "k", settings, specs, (), 1, own_outputs=True),
            ev.WorkflowAdded(0.0, 0, "jobs", ""),
            *(ev.AttemptPlaced(0.0, key, 0, n, 0, size=4) for n, key in enumerate(keys)),
            ev.AttemptsSubmitted(0.0, 0, tuple(keys)),
            ev.SiteObserved(0.0, 0, (ev.BackgroundJob("o", 4, 0.0, 90_000.0),)),
        ]
    )
    return core


def moving_run() -> tuple[Core, tuple[tuple[str, int], ...]]:
    """A run whose waiting jobs are being moved, and the moves."""
    core = waiting_run()
    timer, at_s = next(iter(core.state.timers.items()))
    decided, _ = core.step(ev.TimerFired(at_s, timer))
    (moved,) = (event for event in decided if isinstance(event, ev.JobsReallocated))
    return core, moved.moves


def test_the_run_time_with_each_size_is_within_its_walltime() -> None:
    """Rounded up by one bit it would be killed, by simulated sites and emulated runs."""
    serial = [1000.0 + 37 * n for n in range(40)]
    walltimes = [tuple(s * (0.05 + 0.95 / size) for size in range(1, 33)) for s in serial]
    tasks = [Task(f"j{n}", "j", "j", runtime_s=times[0]) for n, times in enumerate(walltimes)]
    moldable = {n: Moldable(tuple(range(1, 33)), times) for n, times in enumerate(walltimes)}
    w = WorkflowState(0, Workflow("j", "j", tasks, [], [()] * 40, moldable=moldable), 1)
    for task, times in enumerate(walltimes):
        for size, walltime_s in enumerate(times, 1):
            w.asks[task] = Resources(cores=size)
            assert w.runtime_s(task) == walltime_s


def test_a_moved_job_is_submitted_with_the_size_of_its_offer_without_another_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plan of all queues for each of a thousand moved jobs would take an hour."""
    core, moves = moving_run()
    at_s = core.state.now_s
    assert len(moves) > 1
    monkeypatch.setattr(sizes, "SiteQueues", None)
    for number, (key, site) in enumerate(moves, 1):
        ended = ev.AttemptEnded(at_s + number, key, Outcome("cancelled"))
        decided, actions = core.step(ended)
        (placed,) = (event for event in decided if isinstance(event, ev.AttemptPlaced))
        assert (placed.site, placed.size) == (site, 2)
        assert any(isinstance(action, SubmitAttempts) for action in actions)


def test_a_job_that_starts_while_it_is_being_moved_has_no_destination_any_more() -> None:
    """If it ends early, its next attempt goes anywhere, and is no move."""
    core, moves = moving_run()
    key, site = moves[0]
    reallocations = core.state.get(Reallocations)
    w, task = core.state.workflows[0], core.state.attempts[key].task
    now_s = core.state.now_s
    assert reallocations.destination(w, task) == site
    core.step(ev.AttemptStarted(now_s + 1, key))
    assert reallocations.destination(w, task) is None
    core.step(ev.AttemptEnded(now_s + 2, key, Outcome("preempted")))
    core.step(ev.TimerFired(now_s + 9000, f"retry:0:{task}"))
    assert f"k.0.{task}.2" in core.state.attempts
    assert reallocations.moves == 0


def test_a_job_that_is_being_moved_keeps_its_destination_after_a_change() -> None:
    core, moves = moving_run()
    key, site = moves[0]
    state = core.state
    specs = *(each.spec for each in state.sites), SiteSpec("new", 4)
    core.apply_undecided(ev.RunChanged(state.now_s, state.settings, specs, ()))
    core.step(ev.RunResumed(state.now_s))
    reallocations, task = core.state.get(Reallocations), core.state.attempts[key].task
    assert reallocations.destination(core.state.workflows[0], task) == site
    core.step(ev.AttemptsFound(state.now_s, 0, (), tuple(core.state.attempts)))
    core.step(ev.AttemptEnded(state.now_s + 1, key, Outcome("cancelled")))
    assert core.state.attempts[f"k.0.{task}.2"].site == site
    assert reallocations.moves == 1
