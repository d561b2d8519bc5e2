"""Changes of the status of tasks: eligible, blocked, settled. Part of the interpreter of the
log."""

from __future__ import annotations

from wfrun.engine.core.capability import Run
from wfrun.engine.core.state import RunState, TaskStatus, WorkflowState
from wfrun.engine.tasks.eligible import FreshTasks, TaskClass

WAITING, ELIGIBLE, DISPATCHED, DELAYED, DONE, FAILED, BLOCKED, UNNEEDED = map(int, TaskStatus)

RAISED = float("-inf")
"""Order of tasks whose priority the user has raised."""


def set_status(state: RunState, w: WorkflowState, task: int, status: int) -> None:
    """Set the status of a task, and update the numbers of tasks by status."""
    statuses, counts = w.status, state.counts
    counts[statuses[task]] -= 1
    counts[status] += 1
    statuses[task] = status


def set_all(state: RunState, w: WorkflowState, tasks: range, before: int, status: int) -> None:
    """Set the status of consecutive tasks, whose status was ``before``, and update the numbers of
    tasks by status."""
    state.counts[before] -= len(tasks)
    state.counts[status] += len(tasks)
    w.status[tasks.start : tasks.stop] = bytes([status]) * len(tasks)


def make_eligible(run: Run, w: WorkflowState, task: int) -> None:
    """Make a task eligible, unless it must wait for a predecessor (again).

    A predecessor whose files were lost is repeated while its successors run, fail or wait for a
    retry, so a task that was eligible before may have to wait now.
    """
    state = run.state
    if w.waiting[task]:
        set_status(state, w, task, WAITING)
        if any(w.status[parent] in (FAILED, BLOCKED) for parent in w.workflow.parents[task]):
            block(state, w, task)
            settle(state, w, state.now_s)
        return
    set_status(state, w, task, ELIGIBLE)
    state.eligible_serial = serial = state.eligible_serial + 1
    w.serials[task] = serial
    w.eligible.add((order_of(w, task), serial, task, w.task_class(task)))
    run.placement_possible = True
    for call in run.hooks.eligible:
        call(w)


def make_all_eligible(run: Run, w: WorkflowState) -> None:
    """Make all tasks of a bag eligible. Has the effect of calling `make_eligible` for one after
    another."""
    state, count = run.state, len(w.status)
    if not count:
        return
    set_all(state, w, range(count), WAITING, ELIGIBLE)
    keys = float(-w.workflow.priority) if w.order is None else w.order
    first = state.eligible_serial + 1
    state.eligible_serial += count
    w.eligible.fill(FreshTasks(count, w.task_class(0), first, keys))
    run.placement_possible = True
    for call in run.hooks.eligible:
        call(w)


def enter(w: WorkflowState, task: int) -> None:
    """Add an eligible task to the eligible set, at the position of its last serial number."""
    w.eligible.add((order_of(w, task), w.serials[task], task, w.task_class(task)))


def order_of(w: WorkflowState, task: int) -> float:
    """Return the order of a task among the eligible tasks of its workflow; the smallest is placed
    first."""
    if w.raised and task in w.raised:
        return RAISED
    return -w.workflow.tasks[task].priority if w.order is None else w.order[task]


def requeue(state: RunState, w: WorkflowState, task: int) -> None:
    """Enter an eligible task into the eligible set again, behind tasks of the same order."""
    w.eligible.remove(task, w.task_class(task))
    state.eligible_serial += 1
    w.serials[task] = state.eligible_serial
    enter(w, task)


def reclassify(w: WorkflowState, task: int, before: TaskClass) -> None:
    """Move an eligible task from its class ``before`` to its present one, at the same position."""
    if not w.serials[task]:
        w.serials[task] = w.eligible.fresh_serial(task)
    w.eligible.move((order_of(w, task), w.serials[task], task, w.task_class(task)), before)


def block(state: RunState, w: WorkflowState, task: int) -> None:
    """Block a waiting task and all that depend on it, since a predecessor has failed."""
    set_status(state, w, task, BLOCKED)
    block_descendants(state, w, task)


def block_descendants(state: RunState, w: WorkflowState, task: int) -> None:
    """Block all tasks that depend on a failed task."""
    stack = [task]
    while stack:
        for child in w.children[stack.pop()]:
            if w.status[child] == WAITING:
                set_status(state, w, child, BLOCKED)
                stack.append(child)


def enter_eligible(w: WorkflowState) -> None:
    """Enter all eligible tasks that are not fresh into the eligible set, which has only fresh tasks
    before the call."""
    if w.count(TaskStatus.ELIGIBLE) > w.eligible.count:
        for task, status in enumerate(w.status):
            if (
                status == ELIGIBLE and w.serials[task]
            ):  # Tasks without a serial are fresh ones of a bag.
                enter(w, task)


def settle(state: RunState, w: WorkflowState, at_s: float) -> None:
    """Note the end of a workflow if nothing of it is left to do."""
    if (w.dispatched and not state.superseded) or w.eligible.count or w.ended_s is not None:
        return  # The usual case, without a look at all tasks.
    if w.done + w.failed + w.blocked + w.unneeded == len(w.status):
        w.ended_s = at_s
        state.open_workflows -= 1


def reopen(state: RunState, w: WorkflowState) -> None:
    """Note that a workflow has work to do again."""
    if w.ended_s is not None:
        w.ended_s = None
        state.open_workflows += 1
