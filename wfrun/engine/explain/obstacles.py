"""Explanation why a site cannot get a task now, from the state of the run alone."""

from __future__ import annotations

from typing import Literal, NamedTuple

from wfrun.engine.capabilities.health import retry_timer
from wfrun.engine.capabilities.launchers.launchers import pool_at
from wfrun.engine.capabilities.placing.reservations import Reservations
from wfrun.engine.capabilities.reallocating.reallocations import Reallocations
from wfrun.engine.capabilities.reallocating.sizes import SizeChooser
from wfrun.engine.capabilities.storing.storage import Storage
from wfrun.engine.core.capability import Run
from wfrun.engine.core.state import RunState, TaskStatus, WorkflowState
from wfrun.engine.explain.idleness import explain_launchers
from wfrun.engine.explain.visible import name_line
from wfrun.engine.fitting.fit import misfit
from wfrun.engine.fitting.sizes import size_text

Kind = Literal[
    "predecessors", "blocked", "retry", "stopping", "throttle", "selection", "order", "policy",
    "misfit", "paused", "storage", "failed-there", "launchers", "room", "reservation", "prefetch",
    "inputs", "submission", "limit", "queue", "running",
]  # fmt: skip


class Reason(NamedTuple):
    """A reason why a task does not run, or the state of its attempt."""

    kind: Kind
    text: str
    """Reason as text for the user, without the name of ``site``."""
    site: int | None = None
    """The site that the reason concerns."""
    since_s: float | None = None
    """Time in seconds at which the wait began; None: unknown."""
    until_s: float | None = None
    """Expected end of the wait in seconds; None: unknown."""


def site_obstacle(run: Run, w: WorkflowState, task: int, index: int) -> Reason | None:
    """Return the reason why a site cannot get a task now, or None if it can."""
    state, site, bit = run.state, run.state.sites[index], 1 << index
    asked = w.asked(task)
    cores = w.workflow.tasks[task].resources.cores
    if not state.queue_sites(w) & bit:
        return Reason("misfit", "not a site of its resource manager", index)
    if not w.feasible_sites(task) & bit:
        refused = w.refused.get(task, 0) & bit
        return Reason("misfit", "it refused the task" if refused else misfit(asked, site.spec),
                      index)  # fmt: skip
    if not site.is_healthy:
        at_s = state.timers.get(retry_timer(index))
        return Reason("paused", site.pause_text, index, None, at_s)
    if w.barred.get(task, 0) & bit:
        return _no_storage(state, w, task, index)
    if not w.allowed_sites(task) & bit:
        return Reason("failed-there", "the task has failed there", index)
    openings = state.openings_for(cores)
    if not openings.open & bit:
        return _no_room(state, index, cores)
    reservations = state.get(Reservations)
    if not reservations.limit(cores, bit):
        own = reservations.at[index]
        other = name_line(state.workflows[own.workflow].workflow.tasks[own.task].id)
        return Reason("reservation", f"its cores are kept for task {other}, which is wider", index)
    if run.candidates(w, task, cores) & bit:
        return None
    if openings.prefetching & bit:
        text = "all cores busy, while another site has idle ones"
        return Reason("prefetch", text, index)
    if w.status[task] == TaskStatus.DISPATCHED:
        return Reason("room", "no idle cores, or an attempt of the task is there", index)
    storage = state.find(Storage)
    if storage is not None and not storage.with_room(w, task, bit):
        return _no_storage(state, w, task, index)
    return Reason("policy", _preferred(state, w, task), index)


def _preferred(state: RunState, w: WorkflowState, task: int) -> str:
    """Return as text why the policy is not offered a site although the site has room."""
    reallocations = state.find(Reallocations)
    target = None if reallocations is None else reallocations.destination(w, task)
    if target is not None:
        return f"the job is being moved to {state.sites[target].spec.name}"
    if state.find(SizeChooser) is not None:
        return "with each size the job would end later there"
    return "left out while other sites can take the task"


def _no_room(state: RunState, index: int, cores: int) -> Reason:
    site, pool = state.sites[index], pool_at(state, index)
    if pool is not None and not pool.live_slots:
        missing = explain_launchers(site, pool)
        if missing is not None:
            return Reason("launchers", missing.text, index, missing.since_s)
    free = max(0, site.slots_now - site.committed_cores)
    text = f"needs {cores} core{'s' * (cores != 1)}, {free} of {site.slots} free"
    if site.foreign_cores:
        text += f", other users hold or want {site.foreign_cores}"
    return Reason("room", text, index)


def _no_storage(state: RunState, w: WorkflowState, task: int, index: int) -> Reason:
    storage = state.get(Storage)
    needed = size_text(storage.needed_bytes(w, task, index))
    return Reason("storage", f"storage: {storage.describe(index)}, it needs {needed} more", index)
