"""Why a simulated run did not finish."""

from __future__ import annotations

from wfrun.engine.core.state import RunState


def why_unfinished(state: RunState) -> str | None:
    """The number of tasks that a simulated run left undone, and the reason, in one line; None if no
    task is left undone."""
    left = state.tasks - state.done - state.unneeded
    if not left:
        return None
    failures = [failure for failure in state.recent_failures if failure.final]
    if state.end_reason:
        reason = state.end_reason
    elif failures:
        reason = f"{failures[0].task} at {failures[0].site}: {failures[0].message}"
    else:
        reason = "tasks failed"
    verb = "is" if left == 1 else "are"
    return " ".join(f"{left} of {state.tasks} tasks {verb} not done: {reason}".split())
