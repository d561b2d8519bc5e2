"""Counts of a run as text."""

from __future__ import annotations

from tests.engine.reallocation.test_moved_sizes import waiting_run
from wfrun.engine import events as ev
from wfrun.engine.core.core import Core
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import ORIGIN, File, SiteSpec, Task, Workflow
from wfrun.runners.display.counts import retries_text, task_counts
from wfrun.runners.inspect.live.progress import LineProgress


def test_a_cancelled_task_has_no_failed_attempt() -> None:
    core = waiting_run()
    core.step(ev.TaskCancelled(1.0, 0, 5))
    assert core.state.failed == 1
    assert retries_text(core.state) == ""


def test_a_run_that_has_run_all_tasks_says_how_many_outputs_are_fetched() -> None:
    """Instead of a rate of tasks that falls to nothing."""
    files = [File(f"o{n}", collect=True, producer=n // 2) for n in range(4)]
    tasks = [Task(f"t{n}", "x", "x", outputs=(2 * n, 2 * n + 1)) for n in range(2)]
    core = Core({"w": Workflow("w", "w.dax", tasks, files, [()] * 2)})
    core.step(ev.RunStarted(0.0, "r", ev.Settings("round-robin"), (SiteSpec("s", 2),), (), 1))
    core.step(ev.WorkflowAdded(0.0, 0, "w", "w"))
    state = core.state
    first, second = list(state.attempts)
    core.step(ev.AttemptEnded(1.0, first, Outcome("done", sizes=(1, 1))))
    core.step(ev.TransferEnded(1.5, 0, 0, 0, ORIGIN, 1, 0.1))
    assert task_counts(state) == "1/2 tasks done, 1 queued, 1 output to fetch"
    core.step(ev.AttemptEnded(2.0, second, Outcome("done", sizes=(1, 1))))
    assert task_counts(state) == "2/2 tasks done, fetching outputs: 1 of 4"
    assert LineProgress(state, "run").line() == "run: 2/2 tasks done, fetching outputs: 1 of 4"
    for number in (1, 2):
        core.step(ev.TransferEnded(3.0, 0, number, 0, ORIGIN, 1, 0.1))
    assert task_counts(state) == "2/2 tasks done, fetching outputs: 3 of 4"
    core.step(ev.TransferEnded(4.0, 0, 3, 0, ORIGIN, 1, 0.1))
    assert state.ended == "done"
    assert task_counts(state) == "2/2 tasks done"
