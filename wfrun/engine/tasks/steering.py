"""Interpretation of the user's requests to a run: pause or free a site, raise a priority, cancel a
task. Part of the interpreter of the log."""

from __future__ import annotations

from wfrun.engine import events as ev
from wfrun.engine.core.capability import Run
from wfrun.engine.core.state import HELD, Condition, RunState, WorkflowState
from wfrun.engine.tasks.attempts import open_attempts, supersede, take_back
from wfrun.engine.tasks.status import (
    BLOCKED,
    DELAYED,
    DISPATCHED,
    DONE,
    ELIGIBLE,
    FAILED,
    UNNEEDED,
    block_descendants,
    requeue,
    set_status,
    settle,
)


def site_held(run: Run, event: ev.SiteHeld) -> None:
    """Close a site, and withdraw its attempts that have not started. Cost: the open attempts."""
    if HELD in run.state.sites[event.site].conditions:
        return
    take_back(run, event.site)
    run.set_condition(event.site, HELD, Condition("paused by the user", closes=True))


def site_freed(run: Run, event: ev.SiteFreed) -> None:
    """Open a site again, unless it has other problems."""
    if HELD in run.state.sites[event.site].conditions:
        run.set_condition(event.site, HELD, None)


def priority_raised(run: Run, event: ev.PriorityRaised) -> None:
    """Place a workflow before other workflows, or a task and its predecessors before the other
    tasks of its workflow. Cost: the predecessors."""
    state = run.state
    w = state.workflows[event.workflow]
    if event.task is None:
        state.raised[w.index] = min(state.raised.values(), default=0) - 1
    else:
        found = _with_ancestors(w, event.task)
        w.raised |= found
        for task in sorted(found):
            if w.status[task] == ELIGIBLE:
                requeue(state, w, task)
    _eligible_changed(run, w)


def _with_ancestors(w: WorkflowState, task: int) -> set[int]:
    """A task and its ancestors, without those that are done."""
    found: set[int] = set()
    stack = [task]
    while stack:
        one = stack.pop()
        if one not in found and w.status[one] != DONE:
            found.add(one)
            stack.extend(w.workflow.parents[one])
    return found


def _eligible_changed(run: Run, w: WorkflowState) -> None:
    run.placement_possible = True
    for call in run.hooks.eligible:
        call(w)


def task_cancelled(run: Run, event: ev.TaskCancelled) -> None:
    """Let a task fail, and cancel its attempts. A task that is done, has failed, is blocked or is
    unneeded stays as it is. Cost: the tasks that depend on it."""
    state = run.state
    w, task = state.workflows[event.workflow], event.task
    status = w.status[task]
    if status in (DONE, FAILED, BLOCKED, UNNEEDED):
        return
    attempts = list(open_attempts(state, w, task)) if status == DISPATCHED else []
    if status == ELIGIBLE:
        w.eligible.remove(task, w.task_class(task))
    elif status == DELAYED:
        state.timers.pop(f"retry:{w.index}:{task}", None)
    w.cancelled.add(task)
    set_status(state, w, task, FAILED)
    block_descendants(state, w, task)
    w.siblings.pop(task, None)
    for attempt in attempts:
        supersede(run, attempt)
    _eligible_changed(run, w)
    settle(state, w, event.at_s)


def forget_cancelled(state: RunState) -> None:
    """Forget which tasks were cancelled, so that they are tried again like failed tasks."""
    for w in state.workflows:
        w.cancelled.clear()
