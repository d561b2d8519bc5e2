"""A workflow ends with the event after which nothing of it can run."""

from __future__ import annotations

from tests.engine.test_defects_sites import Run, cluster
from tests.engine.test_policies import chain
from wfrun.engine import events as ev
from wfrun.engine.exchange import Outcome

FAILED = Outcome("exit", exit_code=1)


def test_a_task_that_is_blocked_by_the_timer_of_its_retry_ends_its_workflow() -> None:
    """The file of t0 is lost while t1 runs; t0 then fails for good, and t1 too: t1 cannot be tried
    again. A launcher that is kept while no work waits must not keep the run open."""
    workflow = chain((0, 1, 1), runtimes_s=[10.0, 10.0])
    run = Run([workflow], ev.Settings("round-robin", retries=1), (cluster("a", 8, min=1),))
    run.add(0)
    run.step(ev.LauncherStarted(1.0, 0, "r.L0.1", "n", 4, None, "tcp", 0.1))
    run.step(ev.AttemptStarted(1.0, "r.0.0.1", "r.L0.1"))
    run.end("r.0.0.1", 2.0, Outcome("done", sizes=(1,)))
    run.step(ev.AttemptStarted(2.0, "r.0.1.1", "r.L0.1"))
    run.step(ev.RunResumed(10.0, ((0, 0, 0),)))
    run.step(ev.LauncherStarted(10.0, 0, "r.L0.1", "n", 4, None, "tcp", 0.1))
    run.step(ev.AttemptStarted(11.0, "r.0.0.2", "r.L0.1"))
    run.end("r.0.0.2", 12.0, FAILED)
    run.step(ev.TimerFired(20.0, "retry:0:0"))
    run.end("r.0.0.3", 21.0, FAILED)
    run.end("r.0.1.1", 22.0, FAILED)
    run.step(ev.TimerFired(40.0, "retry:0:1"))
    w = run.core.state.workflows[0]
    assert (w.failed, w.blocked) == (1, 1)
    assert w.ended_s == 40.0
    run.step(ev.TimerFired(130.0, "away:0"))
    assert run.core.state.ended == "failed"
