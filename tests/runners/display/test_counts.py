"""Counts of a run as text."""

from __future__ import annotations

from tests.engine.reallocation.test_moved_sizes import waiting_run
from wfrun.engine import events as ev
from wfrun.runners.display.counts import retries_text


def test_a_cancelled_task_has_no_failed_attempt() -> None:
    core = waiting_run()
    core.step(ev.TaskCancelled(1.0, 0, 5))
    assert core.state.failed == 1
    assert retries_text(core.state) == ""
