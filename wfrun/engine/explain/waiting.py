"""Explanation why a task does not run, from the state of the run alone.

`wfrun.engine.explain.idleness` explains why a site has free cores.
"""

from __future__ import annotations

from collections.abc import Iterator

from wfrun.engine.capabilities.launchers.launchers import pool_at
from wfrun.engine.capabilities.placements import Placements
from wfrun.engine.capabilities.placing.auto_throttle import AutoThrottle
from wfrun.engine.capabilities.placing.in_order import InOrder
from wfrun.engine.capabilities.placing.selecting import Selecting
from wfrun.engine.core.capability import Run
from wfrun.engine.core.state import Attempt, Phase, RunState, TaskStatus, WorkflowState
from wfrun.engine.explain.idleness import explain_launchers
from wfrun.engine.explain.obstacles import Reason, site_obstacle
from wfrun.engine.explain.visible import name_line
from wfrun.engine.files.copy_queue import Copy
from wfrun.engine.fitting.sizes import size_text
from wfrun.engine.model import ORIGIN
from wfrun.engine.policies.placement.scores import Scores, scores_of
from wfrun.engine.tasks.attempts import open_attempts
from wfrun.engine.tasks.status import order_of

MAX_NAMED = 5
"""Maximum number of tasks, and of files, that reasons name."""

_UNFINISHED = (TaskStatus.WAITING, TaskStatus.ELIGIBLE, TaskStatus.DISPATCHED, TaskStatus.DELAYED)


def explain_task(run: Run, w: WorkflowState, task: int) -> list[Reason]:
    """The reasons why a task does not run now, the most general first, and the states of its open
    attempts. Empty for a task that is done or has failed. Cost: the tasks of its workflow, and the
    open attempts."""
    status = w.status[task]
    if status == TaskStatus.WAITING:
        return list(_predecessors(run.state, w, task))
    if status == TaskStatus.BLOCKED:
        return list(_blocked(w, task))
    if status == TaskStatus.DELAYED:
        at_s = run.state.timers.get(f"retry:{w.index}:{task}")
        failures = w.failures.get(task, 0) + w.setbacks.get(task, 0)
        times = f"{failures} time{'s' * (failures != 1)}"
        return [Reason("retry", f"it failed {times} and is tried again", until_s=at_s)]
    if status == TaskStatus.ELIGIBLE:
        return list(_unplaced(run, w, task))
    reasons: list[Reason] = []
    if status == TaskStatus.DISPATCHED:
        for attempt in open_attempts(run.state, w, task):
            reasons += _dispatched(run.state, w, attempt)
    return reasons


# Tasks that are not eligible


def _predecessors(state: RunState, w: WorkflowState, task: int) -> Iterator[Reason]:
    """Yield reasons: the predecessors that are not done. Predecessors that wait for predecessors
    themselves come last."""
    parents = [p for p in w.workflow.parents[task] if w.status[p] != TaskStatus.DONE]
    parents.sort(key=lambda p: w.status[p] == TaskStatus.WAITING)
    for parent in parents[:MAX_NAMED]:
        text, since_s = task_state(state, w, parent)
        yield Reason("predecessors", f"{_name(w, parent)} {text}", since_s=since_s)
    if len(parents) > MAX_NAMED:
        count = len(parents) - MAX_NAMED
        yield Reason("predecessors", f"{count} more of {len(parents)} that are not done")
    before = _unfinished_ancestors(w, task)
    if len(before) > len(parents):
        under_way = [t for t in before if w.status[t] != TaskStatus.WAITING]
        names = ", ".join(_name(w, t) for t in under_way[:MAX_NAMED])
        more = f" and {len(under_way) - MAX_NAMED} more" if len(under_way) > MAX_NAMED else ""
        yield Reason(
            "predecessors",
            f"{_tasks(len(before))} before it are not done; ready or under way: {names}{more}",
        )


def _unfinished_ancestors(w: WorkflowState, task: int) -> list[int]:
    """All ancestors of a task that are not done, but still can be."""
    seen, todo = {task}, [task]
    while todo:
        for parent in w.workflow.parents[todo.pop()]:
            if parent not in seen and w.status[parent] in _UNFINISHED:
                seen.add(parent)
                todo.append(parent)
    return sorted(seen - {task})


def _blocked(w: WorkflowState, task: int) -> Iterator[Reason]:
    """Yield a reason for each failed ancestor of a task."""
    seen, todo, failed = {task}, [task], []
    while todo:
        for parent in w.workflow.parents[todo.pop()]:
            if parent in seen:
                continue
            seen.add(parent)
            if w.status[parent] == TaskStatus.FAILED:
                failed.append(parent)
            elif w.status[parent] == TaskStatus.BLOCKED:
                todo.append(parent)
    for parent in sorted(failed)[:MAX_NAMED]:
        yield Reason("blocked", f"{_name(w, parent)} before it has failed")
    if len(failed) > MAX_NAMED:
        yield Reason("blocked", f"{_tasks(len(failed) - MAX_NAMED)} more before it have failed")


def task_state(state: RunState, w: WorkflowState, task: int) -> tuple[str, float | None]:
    """Return the state of a task, as text that follows its name in a sentence, and the time in
    seconds at which the state began, or None if unknown."""
    status = w.status[task]
    if status == TaskStatus.DISPATCHED:
        attempts = open_attempts(state, w, task)
        if attempts:
            first = max(attempts, key=lambda attempt: attempt.phase)
            site = state.sites[first.site].spec.name
            if first.phase is Phase.RUNNING:
                return f"runs at {site}", first.started_s
            if first.phase is Phase.STAGING:
                return f"waits at {site} for its inputs", first.placed_s
            return f"waits in the queue of {site}", first.ready_s
    words = {
        TaskStatus.WAITING: "waits for predecessors",
        TaskStatus.ELIGIBLE: "waits for a site",
        TaskStatus.DISPATCHED: "is being cancelled",
        TaskStatus.DELAYED: "waits to retry",
        TaskStatus.DONE: "is done",
        TaskStatus.FAILED: "was cancelled by the user" if task in w.cancelled else "has failed",
        TaskStatus.BLOCKED: "is blocked: a task before it has failed",
        TaskStatus.UNNEEDED: "was not needed",
    }
    return words[TaskStatus(status)], None


# Eligible tasks


def _unplaced(run: Run, w: WorkflowState, task: int) -> Iterator[Reason]:
    """The reasons why an eligible task is not placed."""
    state = run.state
    if not state.is_placing:
        yield Reason("stopping", "the run starts no further task")
        return
    if state.throttle is not None and w.dispatched >= state.throttle:
        what = f"{_tasks(w.dispatched)} of {name_line(w.workflow.name)} dispatched"
        yield Reason("throttle", f"throttle ({state.throttle}) reached: {what}")
    sites = [site for site in range(len(state.sites)) if not state.left >> site & 1]
    obstacles = [found for site in sites if (found := site_obstacle(run, w, task, site))]
    if len(obstacles) < len(sites):
        yield from _passed_over(run, w, task)
    yield from obstacles


def _passed_over(run: Run, w: WorkflowState, task: int) -> Iterator[Reason]:
    """The reasons why a task is not placed although sites could take it."""
    state = run.state
    selecting = state.find(Selecting)
    if selecting is not None and w.index in selecting.managers[w.queue].waiting:
        text = f"selection policy {state.settings.selection} has not selected its bag yet"
        yield Reason("selection", text)
    ahead = _tasks_ahead(w, task)
    if ahead:
        yield Reason("order", f"{_tasks(ahead)} of {name_line(w.workflow.name)} go first")
    candidates = run.candidates(w, task, w.workflow.tasks[task].resources.cores)
    auto = state.find(AutoThrottle)
    if auto is not None and not candidates & auto.soon:
        yield Reason("throttle", f"{auto.name} holds it back until a site could start it soon")
    scores = present_scores(run, w, task)
    in_order = state.find(InOrder)
    if scores is not None and scores.best is None:
        text = f"policy {state.settings.policy} leaves it unplaced: {scores.note}"
        yield Reason("policy", text)
    elif any(placing is not None and placing.is_held(w) for placing in (in_order, selecting)):
        policy = state.settings.policy
        text = f"policy {policy} left it unplaced, and is asked again after the next event"
        yield Reason("policy", text)
    elif scores is not None and auto is not None and not auto.soon >> (scores.best or 0) & 1:
        name = state.sites[scores.best or 0].spec.name
        yield Reason("policy", f"policy {state.settings.policy} prefers to wait for {name}")


def present_scores(run: Run, w: WorkflowState, task: int) -> Scores | None:
    """Return the scores of the sites that may get a task now; None if no site may get it, or if the
    policy has no scores."""
    if not run.candidates(w, task, w.workflow.tasks[task].resources.cores):
        return None
    return scores_of(run.state.get(Placements).by_workflow[w.index], task)


def _tasks_ahead(w: WorkflowState, task: int) -> int:
    """Return the number of eligible tasks of the workflow that are placed before ``task``."""
    serials, is_bag = w.serials, w.workflow.bag is not None

    def position(t: int) -> tuple[float, int, int]:
        # Serial numbers are 0 for the tasks of a bag that were never dispatched; these go first,
        # in their order.
        key = 0 if is_bag and w.order is None and t not in w.raised else order_of(w, t)
        return key, serials[t], t

    own = position(task)
    eligible = (t for t, status in enumerate(w.status) if status == TaskStatus.ELIGIBLE)
    return sum(1 for t in eligible if position(t) < own)


# Attempts


def _dispatched(state: RunState, w: WorkflowState, attempt: Attempt) -> Iterator[Reason]:
    """The reasons why an open attempt waits, or that it runs."""
    index, site = attempt.site, state.sites[attempt.site]
    if attempt.phase is Phase.STAGING:
        yield from _inputs(state, w, attempt)
        return
    if attempt.phase is Phase.RUNNING:
        where = f"runs on {name_line(attempt.host)}" if attempt.host else "runs"
        yield Reason("running", where, index, attempt.started_s)
        return
    pool = pool_at(state, index)
    missing = None if pool is None or pool.live_slots else explain_launchers(site, pool)
    if missing is not None:
        yield Reason("launchers", missing.text, index, missing.since_s)
    if attempt.phase is Phase.SUBMITTING and site.job_limit is not None:
        yield Reason("limit", f"job limit reached ({site.job_limit})", index, attempt.ready_s)
    elif attempt.phase is Phase.SUBMITTING:
        yield Reason("submission", "it is being submitted", index, attempt.ready_s)
    yield _queue_position(state, attempt)


def _queue_position(state: RunState, attempt: Attempt) -> Reason:
    """The position of an attempt among the waiting attempts at its site. The attempts are in the
    order in which their inputs arrived, which is the order of submission."""
    site = state.sites[attempt.site]
    waiting = [
        other
        for other in state.attempts.values()
        if other.site == attempt.site and other.phase in (Phase.QUEUED, Phase.SUBMITTING)
    ]
    waiting.sort(key=lambda other: other.ready_s or 0.0)
    position = 1 + next(i for i, other in enumerate(waiting) if other is attempt)
    text = f"{_tasks(site.phases[Phase.RUNNING])} running"
    if site.foreign_cores:
        text += f", other users hold or want {site.foreign_cores} cores"
    text += f"; number {position} of {len(waiting)} of this run in its queue"
    if pool_at(state, attempt.site) is None:  # the jobs of launchers are no tasks
        text += site.wait_text(site.phases[Phase.QUEUED])
    return Reason("queue", text, attempt.site)


def _inputs(state: RunState, w: WorkflowState, attempt: Attempt) -> Iterator[Reason]:
    """Yield a reason for each input of an attempt that is on its way."""
    keys = [(w.index, file, attempt.site) for file in w.workflow.tasks[attempt.task].inputs]
    coming = [(key, state.copies[key]) for key in keys if key in state.copies]
    for key, copy in coming[:MAX_NAMED]:
        yield _input(state, w, attempt, key, copy)
    if len(coming) > MAX_NAMED:
        count = len(coming) - MAX_NAMED
        size = sum(max(0, w.sizes[key[1]]) for key, _ in coming[MAX_NAMED:])
        text = f"{count} more files, {size_text(size)}"
        yield Reason("inputs", text, attempt.site, attempt.placed_s)


def _input(
    state: RunState, w: WorkflowState, attempt: Attempt, key: tuple[int, int, int], copy: Copy
) -> Reason:
    """The state of the copy of an input: what it waits for, or that it is under way."""
    size = w.sizes[key[1]]
    source = "here" if copy.source == ORIGIN else state.sites[copy.source].spec.name
    name = name_line(w.workflow.files[key[1]].name)
    what = f"{name} ({size_text(size) if size >= 0 else 'unknown size'}) from {source}"
    again_s = state.timers.get(f"copy:{key[0]}:{key[1]}:{key[2]}")
    if again_s is not None:
        text = f"{what}: copied again after {copy.failures} failure{'s' * (copy.failures != 1)}"
        return Reason("inputs", text, attempt.site, attempt.placed_s, again_s)
    if copy.rank is not None:
        text = f"{what}: waits for other large copies"
        return Reason("inputs", text, attempt.site, attempt.placed_s)
    begun = state.copy_queue.under_way.get(key)
    began_s = attempt.placed_s if begun is None else begun[2]
    return Reason("inputs", f"{what}: under way", attempt.site, began_s)


def _name(w: WorkflowState, task: int) -> str:
    return f"task {name_line(w.workflow.tasks[task].id)}"


def _tasks(count: int) -> str:
    return f"{count} task{'s' * (count != 1)}"
