"""Numbers of tasks by state. Attempts are counted separately, because a task has an attempt for
each retry and replica."""

from __future__ import annotations

from wfrun.engine.core.state import Attempt, Phase, RunState, TaskStatus
from wfrun.engine.model import ORIGIN

_WORDS = {Phase.RUNNING: "running", Phase.QUEUED: "queued", Phase.STAGING: "staging"}


def tasks_under_way(state: RunState) -> dict[str, int]:
    """Number of dispatched tasks by phase. A task with replicas counts in the phase of its furthest
    attempt."""
    if not state.max_replicas:  # each task has one attempt
        phases = [sum(site.phases[phase] for site in state.sites) for phase in Phase]
    else:
        furthest: dict[tuple[int, int], Attempt] = {}
        for attempt in state.attempts.values():
            if not attempt.superseded:
                task = attempt.workflow, attempt.task
                if task not in furthest or attempt.phase > furthest[task].phase:
                    furthest[task] = attempt
        phases = [0] * len(Phase)
        for attempt in furthest.values():
            phases[attempt.phase] += 1
    phases[Phase.QUEUED] += phases[Phase.SUBMITTING]
    return {word: phases[phase] for phase, word in _WORDS.items()}


def progress_line(state: RunState) -> str:
    """Numbers of tasks by state, and the number of failed attempts, on one line."""
    return task_counts(state) + retries_text(state)


def task_counts(state: RunState, *, is_over: bool = False) -> str:
    """Numbers of tasks by state. ``is_over``: no process drives the run, so that waiting tasks
    count as not run."""
    counts = tasks_under_way(state)
    waiting = state.counts[TaskStatus.WAITING] + state.counts[TaskStatus.ELIGIBLE]
    delayed = state.counts[TaskStatus.DELAYED]
    counts |= {
        "waiting to retry": 0 if is_over else delayed,
        "waiting": 0 if is_over else waiting,
        "failed": state.failed,
        "blocked": state.blocked,
        "not needed": state.unneeded,
        "not run": waiting + delayed if is_over else 0,
    }
    parts = [f"{count} {word}" for word, count in counts.items() if count]
    if state.reused:
        parts.insert(0, f"{state.reused} of {state.tasks} reused")
    if not is_over and (text := fetching_text(state)):
        parts.append(text)
    return ", ".join([f"{state.done}/{state.tasks} tasks done", *parts])


def fetching_text(state: RunState) -> str:
    """Text about the outputs of the run that still have to be fetched to this machine: their
    number, or the progress once all tasks are done. Empty if none is missing."""
    missing = sum(destination == ORIGIN for _, _, destination in state.copies)
    if not missing:
        return ""
    if state.done < state.tasks:
        return f"{counted(missing, 'output')} to fetch"
    outputs = sum(w.to_collect for w in state.workflows)
    return f"fetching outputs: {outputs - missing - len(state.uncollected)} of {outputs}"


def retries_text(state: RunState) -> str:
    """The number of failed attempts as a text that follows the numbers of tasks. Empty if no
    attempt failed, or if their number equals that of failed tasks."""
    attempts = failed_attempts(state)
    return "" if attempts in (0, state.failed) else f"; {counted(attempts, 'failed attempt')}"


def failed_attempts(state: RunState) -> int:
    """Number of attempts that have failed."""
    return sum(site.failed for site in state.sites)


def counted(count: int, word: str) -> str:
    """A number with its noun: ``1 task``, ``2 tasks``."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
