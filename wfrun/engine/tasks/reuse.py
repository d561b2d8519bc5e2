"""Reuse of tasks that earlier runs have done. Part of the interpreter of the log."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine.core.capability import Run
from wfrun.engine.core.state import WorkflowState
from wfrun.engine.events import ReusedTasks
from wfrun.engine.files.copies import request_output
from wfrun.engine.model import ORIGIN
from wfrun.engine.tasks.status import DONE, set_status


def take_over_tasks(run: Run, w: WorkflowState, reused: Sequence[ReusedTasks]) -> None:
    """Mark as done the tasks of a new workflow that earlier runs have done, and note where their
    outputs are. Final outputs that are only at a site are collected."""
    state = run.state
    origin = state.network.bit(ORIGIN)
    w.reused = reused
    for part in reused:
        state.reused += len(part.tasks)
        for file, size_bytes, place in part.files:
            w.present[file] |= state.network.bit(place)
            w.sizes[file] = size_bytes
        w.lost.update(part.lost)
        for task in part.tasks:
            set_status(state, w, task, DONE)
            for file in w.workflow.tasks[task].outputs:
                if w.workflow.files[file].collect:
                    _count_output(run, w, file, origin)
            for child in w.children[task]:
                w.waiting[child] -= 1


def _count_output(run: Run, w: WorkflowState, file: int, origin: int) -> None:
    if not w.present[file]:
        w.to_collect -= 1  # an optional one that was not written
    elif not w.present[file] & origin:
        request_output(run, w, file)
