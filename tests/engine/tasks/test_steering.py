"""Requests of the user to a run: paused sites, raised priorities, cancelled tasks."""

from __future__ import annotations

import pytest

from tests.engine.explain.test_idleness import ALPHA, BETA, Run, tasks
from tests.engine.tasks.test_bags import one_bag
from wfrun.engine import events as ev
from wfrun.engine.core.actions import Action, CancelAttempts
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import TaskStatus
from wfrun.engine.exchange import Outcome
from wfrun.engine.explain.obstacles import site_obstacle
from wfrun.engine.model import SiteSpec

DONE, EXIT = Outcome("done", exit_code=0), Outcome("exit", exit_code=1)
ONE = SiteSpec("one", 1)


def status(run: Run, task: int) -> TaskStatus:
    return TaskStatus(run.core.state.workflows[0].status[task])


def placed(run: Run) -> list[str]:
    """The tasks in the order of their placement."""
    return [key.split(".")[2] for _, key in run.submitted]


def end(run: Run, key: str, outcome: Outcome = DONE) -> None:
    run.step(ev.AttemptStarted(5.0, key))
    run.step(ev.AttemptEnded(6.0, key, outcome))


def finish(run: Run) -> None:
    """End all attempts, also those that follow, until the run is over."""
    while run.core.state.ended is None:
        for key in list(run.core.state.attempts):
            end(run, key)


def actions_of(run: Run, event: ev.Event) -> list[Action]:
    return run.core.step(event)[1]


# Paused sites


def test_a_paused_site_gets_nothing_and_its_running_tasks_go_on() -> None:
    run = Run(tasks(20), ALPHA, BETA, throttle=4)
    run.start(0)
    before = len(run.core.state.attempts)
    waiting = [key for site, key in run.submitted if site == 1]
    cancelled = actions_of(run, ev.SiteHeld(3.0, 1))
    assert CancelAttempts(1, tuple(waiting), queued_only=True) in cancelled
    running = [key for site, key in run.submitted if site == 0]
    assert len(run.core.state.attempts) == before  # until the site answers
    for key in waiting:
        run.step(ev.AttemptEnded(4.0, key, Outcome("cancelled")))
    del run.submitted[:]
    for key in running:
        end(run, key)
    assert run.submitted
    assert {site for site, _ in run.submitted} == {0}
    assert run.reason(1).text == "paused by the user"
    obstacle = site_obstacle(run.core.run, run.core.state.workflows[0], 19, 1)
    assert obstacle is not None
    assert obstacle.text == "paused by the user"
    run.step(ev.SiteFreed(7.0, 1))
    finish(run)
    assert run.core.state.ended == "done"
    assert {site for site, _ in run.submitted} == {0, 1}


def test_a_run_waits_for_the_user_while_its_only_site_is_paused() -> None:
    run = Run(tasks(2), ONE)
    run.step(ev.SiteHeld(2.0, 0))
    run.step(ev.AttemptEnded(3.0, "r.0.0.1", Outcome("cancelled")))
    run.step(ev.AttemptEnded(3.0, "r.0.1.1", Outcome("cancelled")))
    assert not run.core.state.attempts
    assert run.core.state.ended is None
    run.step(ev.SiteFreed(4.0, 0))
    finish(run)
    assert run.core.state.ended == "done"


def test_a_pause_outlives_the_engine_a_report_of_the_site_and_a_change_of_the_run() -> None:
    run = Run(tasks(4), ALPHA, BETA)
    run.step(ev.SiteHeld(2.0, 1))
    run.step(ev.SitePaused(2.5, 1, "its disk is full"))
    run.step(ev.SiteReopened(2.6, 1))
    run.step(ev.RunResumed(3.0))
    state = run.core.state
    assert not state.sites[1].is_healthy
    run.core.apply_undecided(ev.RunChanged(4.0, state.settings, (ALPHA, BETA), ()))
    run.step(ev.RunResumed(4.0))
    assert state.sites[1].pause_text == "paused by the user"
    assert not state.sites[1].is_healthy
    run.step(ev.SiteFreed(5.0, 1))
    assert state.sites[1].is_healthy


def test_attempts_that_a_paused_site_has_lost_go_elsewhere_after_a_crash() -> None:
    run = Run(tasks(2), ALPHA, BETA)
    run.step(ev.SiteHeld(2.0, 1))
    run.step(ev.RunResumed(3.0))
    del run.submitted[:]
    run.step(ev.AttemptsFound(4.0, 1, ("r.0.1.1",), ()))
    assert run.submitted == [(0, "r.0.1.2")]


# Priorities


def test_a_raised_task_goes_first() -> None:
    run = Run(tasks(6), ONE, policy="file-aware", throttle=1)
    run.step(ev.PriorityRaised(2.0, 0, 4))
    finish(run)
    assert placed(run) == ["0", "4", "1", "2", "3", "5"]


def test_a_raised_task_takes_its_predecessors_along() -> None:
    parents = [(), (), (), (1,), (3,)]
    run = Run(tasks(5, parents=parents), ONE, policy="file-aware", throttle=1)
    run.step(ev.PriorityRaised(2.0, 0, 4))
    finish(run)
    assert placed(run) == ["0", "1", "3", "4", "2"]


def test_a_raised_task_goes_first_after_a_crash_too() -> None:
    run = Run(one_bag(*[60.0] * 6), ONE, policy="file-aware", throttle=1)
    run.step(ev.PriorityRaised(2.0, 0, 5))
    run.step(ev.RunResumed(3.0))
    run.step(ev.AttemptsFound(3.0, 0, (), ("r.0.0.1",)))
    finish(run)
    assert placed(run) == ["0", "5", "1", "2", "3", "4"]


@pytest.mark.parametrize("selection", ["", "s-bot", "s-t", "s-u-prio"])
def test_a_raised_workflow_goes_before_the_others(selection: str) -> None:
    documents = {str(n): tasks(3) for n in range(3)}
    core = Core(documents)
    settings = ev.Settings("file-aware", throttle=1, selection=selection)
    order: list[str] = []

    def step(event: ev.Event) -> None:
        decided, _ = core.step(event)
        order.extend(str(e.workflow) for e in decided if isinstance(e, ev.AttemptPlaced))

    step(ev.RunStarted(1.0, "r", settings, (ONE,), (), 3, own_outputs=True))
    step(ev.SiteHeld(1.0, 0))
    for n in range(3):
        step(ev.WorkflowAdded(1.0, n, str(n), str(n)))
    step(ev.PriorityRaised(2.0, 1))
    step(ev.PriorityRaised(2.0, 2))
    step(ev.SiteFreed(3.0, 0))
    while core.state.ended is None:
        key = next(iter(core.state.attempts))
        step(ev.AttemptStarted(5.0, key))
        step(ev.AttemptEnded(6.0, key, DONE))
    first, second = order.index("2"), order.index("1")
    assert first < second < order.index("0")


# Cancelled tasks


def test_a_cancelled_task_fails_and_blocks_what_depends_on_it() -> None:
    run = Run(tasks(4, parents=[(), (0,), (1,), ()]), ALPHA)
    run.start(0)
    actions = actions_of(run, ev.TaskCancelled(3.0, 0, 0))
    assert CancelAttempts(0, ("r.0.0.1",)) in actions
    assert [status(run, n).name for n in range(3)] == ["FAILED", "BLOCKED", "BLOCKED"]
    run.step(ev.AttemptEnded(4.0, "r.0.3.1", DONE))
    assert run.reasons  # it has not ended: the attempt is being cancelled
    run.step(ev.AttemptEnded(5.0, "r.0.0.1", DONE))
    assert run.core.state.ended == "failed"
    assert run.core.state.end_reason is None
    assert status(run, 0) is TaskStatus.FAILED


def test_a_task_that_waits_to_retry_is_cancelled_with_its_timer() -> None:
    run = Run(tasks(1), ALPHA)
    end(run, "r.0.0.1", EXIT)
    assert status(run, 0) is TaskStatus.DELAYED
    run.step(ev.TaskCancelled(7.0, 0, 0))
    assert run.core.state.ended == "failed"


def test_a_cancelled_task_stays_cancelled_after_a_crash() -> None:
    run = Run(tasks(3, parents=[(), (0,), ()]), ONE, throttle=1)
    run.step(ev.TaskCancelled(2.0, 0, 0))
    run.step(ev.RunResumed(3.0))
    assert [status(run, n).name for n in range(2)] == ["FAILED", "BLOCKED"]
    run.step(ev.AttemptsFound(3.0, 0, ("r.0.0.1",), ()))
    assert placed(run) == ["0", "2"]


def test_a_cancelled_task_is_tried_again_when_a_failed_run_is_resumed() -> None:
    run = Run(tasks(2, parents=[(), (0,)]), ALPHA)
    run.step(ev.TaskCancelled(2.0, 0, 0))
    run.step(ev.AttemptEnded(3.0, "r.0.0.1", Outcome("cancelled")))
    assert run.core.state.ended == "failed"
    run.step(ev.RunResumed(4.0))
    assert status(run, 0) is TaskStatus.DISPATCHED
    finish(run)
    assert run.core.state.ended == "done"


def test_what_is_settled_is_not_cancelled() -> None:
    run = Run(tasks(2), ALPHA)
    end(run, "r.0.0.1")
    run.step(ev.TaskCancelled(7.0, 0, 0))
    assert status(run, 0) is TaskStatus.DONE
