"""A real cluster whose queue is full, and the nodes on which its tasks run."""

from __future__ import annotations

from tests.integration.clusters import Grid
from tests.runners.harness import Job
from wfrun.engine import events as ev


def test_a_full_queue_says_so_and_tasks_name_their_nodes(grid: Grid) -> None:
    go = grid.record.with_suffix(".go")
    script = f"until test -e {go}; do sleep 0.2; done"
    grid.jobs = [Job(f"t{number}", script) for number in range(5)]
    engine = grid.start(grid.catalog("alpha", changes={"alpha": {"max_jobs": 2}}), held="none")
    reason = "alpha: job limit reached (2), 3 waiting for room"
    try:
        grid.wait(engine, lambda: reason in engine.told)
        wanted = (reason, " alpha  alpha1 ", "running, oldest first")
        grid.wait(
            engine,
            lambda: all(text in grid.user.wfrun("status", grid.run).out for text in wanted),
        )
    finally:
        go.touch()
    assert engine.done().status == 0, engine.told
    go.unlink()
    events = grid.events()
    limits = [e for e in events if isinstance(e, (ev.JobLimitReached, ev.JobLimitLifted))]
    assert isinstance(limits[0], ev.JobLimitReached)
    assert limits[0].jobs == 2
    assert isinstance(limits[-1], ev.JobLimitLifted)
    assert any(e.host == "alpha1" for e in events if isinstance(e, ev.AttemptStarted))
