"""Workflows that join a run under way."""

from __future__ import annotations

from tests.engine.explain.test_idleness import ALPHA, Run, tasks
from wfrun.engine import events as ev
from wfrun.engine.core.core import Core
from wfrun.engine.exchange import Outcome

DONE = Outcome("done", exit_code=0)


def added(number: int, request: str, at_s: float = 2.0) -> ev.WorkflowAdded:
    return ev.WorkflowAdded(at_s, number, "w", "w", request=request)


def end_all(run: Run) -> None:
    """End all attempts until nothing is under way."""
    while run.core.state.attempts:
        for key in list(run.core.state.attempts):
            run.step(ev.AttemptStarted(5.0, key))
            run.step(ev.AttemptEnded(6.0, key, DONE))


class Logged(Run):
    """A run with its log."""

    def step(self, event: ev.Event) -> None:
        decided, _ = self.core.step(event)
        self.log = [*getattr(self, "log", []), event, *decided]


def replayed(log: list[ev.Event], run: Run) -> Core:
    core = Core(run.core.state.documents)
    core.replay(log)
    return core


def test_a_run_ends_with_the_last_task_of_a_workflow_that_joined_it() -> None:
    run = Run(tasks(2), ALPHA)
    run.step(added(1, "one.0"))
    state = run.core.state
    assert state.tasks == 4
    end_all(run)
    assert state.ended == "done"
    assert state.done == 4


def test_a_request_counts_once() -> None:
    run = Run(tasks(2), ALPHA)
    run.step(added(1, "one.0"))
    run.step(added(2, "one.0"))
    assert [w.index for w in run.core.state.workflows] == [0, 1]


def test_a_request_after_the_end_changes_nothing_until_the_next_engine() -> None:
    run = Run(tasks(1), ALPHA)
    run.step(ev.CancelAsked(3.0, "kill"))
    run.step(ev.AttemptEnded(4.0, "r.0.0.1", Outcome("cancelled")))
    state = run.core.state
    assert state.ended == "cancelled"
    run.step(added(1, "one.0", 5.0))
    assert state.tasks == 1
    assert not state.requests
    run.step(ev.RunResumed(6.0, additions=1))
    run.step(added(1, "one.0", 6.0))
    end_all(run)
    assert state.ended == "done"
    assert state.done == 2


def test_a_resumed_run_does_not_end_before_the_workflows_that_follow() -> None:
    """The engine died after the last task had ended, before the end was in the log."""
    run = Logged(tasks(1), ALPHA)
    log = [*run.log, ev.AttemptStarted(5.0, "r.0.0.1"), ev.AttemptEnded(6.0, "r.0.0.1", DONE)]
    core = replayed(log, run)
    core.step(ev.RunResumed(7.0, additions=1))
    assert core.state.ended is None
    core.step(added(1, "one.0", 7.0))
    assert core.state.ended is None
    assert core.state.tasks == 2
    without = replayed(log, run)
    without.step(ev.RunResumed(7.0))
    assert without.state.ended == "done"


def test_a_replay_knows_the_workflows_that_joined() -> None:
    run = Logged(tasks(2), ALPHA)
    run.step(added(1, "one.0"))
    core = replayed(run.log, run)
    assert core.state.requests == {"one.0"}
    assert core.state.attempts.keys() == run.core.state.attempts.keys()
    assert core.state.is_complete
