"""States of the tasks of a run, as a graph shows them."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine.core.state import Phase, RunState, TaskStatus, WorkflowState

COLORS = {
    "failed": "#f5b7b1",
    "running": "#f9e79f",
    "at a site": "#aed6f1",
    "done": "#abebc6",
    "partly done": "#d5f5e3",
    "waiting": "#f2f3f4",
    "blocked": "#d7bde2",
    "not needed": "#e5e7e9",
}
"""Colour of a node by the state of its tasks, pale enough for black text. A node of several tasks
is ``failed``, ``running`` or ``at a site`` if one of its tasks is, in this order of precedence."""

TaskWords = Sequence[str]
"""The state of each task."""

_WORDS = {
    TaskStatus.WAITING: "waiting",
    TaskStatus.ELIGIBLE: "waiting",
    TaskStatus.DISPATCHED: "at a site",
    TaskStatus.DELAYED: "waiting",
    TaskStatus.DONE: "done",
    TaskStatus.FAILED: "failed",
    TaskStatus.BLOCKED: "blocked",
    TaskStatus.UNNEEDED: "not needed",
}


def task_words(state: RunState, w: WorkflowState) -> TaskWords:
    """The state of each task of a workflow of a run."""
    words = [_WORDS[TaskStatus(status)] for status in w.status]
    for attempt in state.attempts.values():
        is_running = attempt.workflow == w.index and attempt.phase is Phase.RUNNING
        if is_running and words[attempt.task] == "at a site":
            words[attempt.task] = "running"
    return words


def state_of(words: TaskWords, tasks: Sequence[int]) -> str:
    """The state of a node with these tasks."""
    found = {words[task] for task in tasks}
    for word in ("failed", "running", "at a site"):
        if word in found:
            return word
    if "done" in found and len(found) > 1:
        return "partly done"
    return next(word for word in COLORS if word in found)
