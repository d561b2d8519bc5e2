"""The one interpreter of the log: ``apply`` changes the state by one event.

Live runs, recovery, ``status`` and simulations all go through it. What an event makes necessary
(a copy to start, an attempt that is ready) goes to ``state.outbox``; deciding is the core's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from wfrun.engine import events as ev
from wfrun.engine import launchers, stragglers
from wfrun.engine.actions import CopyFile, FindAttempts, SetTimer
from wfrun.engine.attempts import (
    SUPERSEDED_S,
    attempt_ended,
    attempt_placed,
    attempt_started,
    attempts_found,
    attempts_submitted,
    enter,
    make_all_eligible,
    make_eligible,
    settle,
    withdraw,
)
from wfrun.engine.bag import BagFiles, tasks_of
from wfrun.engine.fit import classify
from wfrun.engine.health import forget, pause_over, trial_over, update
from wfrun.engine.information import Knowledge
from wfrun.engine.late import bound
from wfrun.engine.model import ORIGIN, Workflow
from wfrun.engine.network import Network
from wfrun.engine.policies import placement_class, placement_options
from wfrun.engine.predictors import JobClass
from wfrun.engine.queue_model import Expected, make_queue_model
from wfrun.engine.replicas import Replicas
from wfrun.engine.retry import forgive
from wfrun.engine.state import (
    SUPERSEDED,
    Phase,
    RunState,
    SiteState,
    TaskStatus,
    WorkflowState,
)
from wfrun.engine.transfers import collect_missing, lose_files, transfer_ended, transfer_failed
from wfrun.engine.usage import Usage
from wfrun.engine.view import View, expected_runtimes_s

PAUSE_PATIENCE_S = 60.0
"""A run with nothing else to do waits this long for a site that says it is out of order, before it
ends as failed."""

CLUSTER_PATIENCE_S = 3600.0
"""Likewise for a cluster: its connection may come back, or its user may log in again."""

_WAITING, _ELIGIBLE, _DISPATCHED, _DELAYED, _DONE, _FAILED, _BLOCKED = (int(s) for s in TaskStatus)


def apply(state: RunState, event: ev.Event) -> None:
    """Change ``state`` by one fact. Facts that are known already change nothing."""
    if event.at_s > state.now_s:
        state.now_s = event.at_s
    _APPLY[type(event)](state, event)


# Run and workflows


def _run_started(state: RunState, event: ev.RunStarted) -> None:
    state.run_id = event.run_id
    state.settings = event.settings
    state.expected = event.workflows
    state.started_s = event.at_s
    state.sites = [SiteState(spec) for spec in event.sites]
    state.links = event.links
    scale = event.settings.time_scale if event.settings.emulate else 1.0
    state.network = Network([s.name for s in event.sites], event.links, time_scale=scale)
    state.pools = [i for i, site in enumerate(state.sites) if site.pool is not None]
    policy = placement_class(event.settings.policy)
    for index in range(len(state.sites)):
        update(state, index)
    if event.settings.selection:
        everywhere = (1 << len(state.sites)) - 1
        state.queues = [sum(1 << s for s in sites) for sites in event.queues] or [everywhere]
        state.last_owners = [""] * len(state.queues)
    most = event.settings.replicas
    if most is None:
        most = max(policy.replicas, event.settings.replication == "stragglers")
    most = min(most, len(state.sites) - 1)  # a site has one attempt of a task
    if most > 0:
        cores = sum(site.spec.slots for site in state.sites)
        state.replicas = Replicas(most, event.settings.replica_share * cores)
    state.information = policy.information
    learns = Knowledge.HISTORICAL in msgspec.structs.astuple(policy.information)
    state.predicts = policy.information.task_runtime is Knowledge.HISTORICAL
    if state.pools or state.queues or policy.late or most > 0 or learns:
        bound(state, late=policy.late)
    unknown = Knowledge.UNKNOWN
    if unknown not in (policy.information.task_runtime, policy.information.status):
        for site in state.sites:
            site.queue_model = make_queue_model(site.spec.slots, backfills=site.spec.backfills)


def _workflow_added(state: RunState, event: ev.WorkflowAdded) -> None:
    workflow = state.documents[event.digest]
    w = WorkflowState(event.workflow, workflow, event.at_s)
    w.queue = event.queue
    origin = state.network.bit(ORIGIN)
    files = workflow.files
    if isinstance(files, BagFiles):
        w.present = [origin] * files.input_count + [0] * (len(files) - files.input_count)
    else:
        w.present = [origin if f.producer is None else 0 for f in files]
    placement = placement_class(state.settings.policy)
    if workflow.bag is not None and not state.bounded:
        bound(state, late=placement.late)
    classify(state, w)
    if state.information.task_runtime is Knowledge.KNOWN:
        w.runtimes_s = expected_runtimes_s(workflow)
    if state.pools:
        state.lengths.foresee(_longest_s(workflow))
    options = placement_options(placement, state.settings.policy_options)
    w.placement = placement(View(state, w, state.information), options)
    w.order = w.placement.order()
    state.workflows.append(w)
    if workflow.bag is not None:
        make_all_eligible(state, w)
    else:
        for task, waiting in enumerate(w.waiting):
            if waiting == 0:
                make_eligible(state, w, task)
    settle(w, event.at_s)


def _longest_s(workflow: Workflow) -> float:
    if workflow.bag is not None:
        return max(tasks_of(workflow).runtimes_s() or (0.0,))
    return max((t.runtime_s or 0.0 for t in workflow.tasks), default=0.0)


def _submission_ended(state: RunState, event: ev.SubmissionEnded) -> None:
    state.expected = len(state.workflows)


def _history_read(state: RunState, event: ev.HistoryRead) -> None:
    state.history = event.file
    state.predicts = True
    speeds = {site.spec.name: site.spec.speed_ratio for site in state.sites}
    for one in event.classes:
        kind = JobClass(one.owner, one.application, one.cores)
        if one.site in speeds:
            for runtime_s in one.runtimes_s:
                state.run_times.observe(kind, one.site, runtime_s, speeds[one.site])
    state.run_times.seen.clear()
    for owner, used_s in event.usage_s.items():
        state.usage[owner] = Usage(used_s)


def _run_resumed(state: RunState, event: ev.RunResumed) -> None:
    """A new engine: everything that was under way is asked for again, failed tasks get all
    their retries back."""
    dismissed = state.ended is not None
    state.draining = state.killed = state.stopping = False
    state.ended = state.end_reason = None
    state.uncollected.clear()
    lose_files(state, event.lost)
    for index, site in enumerate(state.sites):
        site.reported = None
        forget(state, index)
        state.timers.pop(_patience(index), None)
        update(state, index)
    for w in state.workflows:
        _revive(state, w)
    for index in state.pools:
        launchers.resumed(state, index, dismissed=dismissed)
    for (workflow, file, destination), copy in state.copies.items():
        state.outbox.append(CopyFile(workflow, file, copy.source, destination))
    for w in state.workflows:
        collect_missing(state, w)
    if SUPERSEDED in state.timers or (state.replicas is not None and state.replicas.superseded):
        state.timers[SUPERSEDED] = state.now_s + SUPERSEDED_S
    for timer, at_s in state.timers.items():
        state.outbox.append(SetTimer(timer, at_s))
    for index in range(len(state.sites)):
        keys = tuple(
            a.key
            for a in state.attempts.values()
            if a.site == index and a.phase is not Phase.STAGING
        )
        if keys:
            state.outbox.append(FindAttempts(index, keys))


def _revive(state: RunState, w: WorkflowState) -> None:
    forgive(state, w)
    for task, status in enumerate(w.status):
        if status == _FAILED:
            w.failed -= 1
            w.ended_s = None
            if w.waiting[task] == 0:
                make_eligible(state, w, task)
            else:
                w.status[task] = _WAITING
        elif status == _BLOCKED:
            w.blocked -= 1
            w.status[task] = _WAITING
    # Sites that a task was not to be tried at again are open to it again.
    w.eligible.clear()
    for task, status in enumerate(w.status):
        if status == _ELIGIBLE and w.serials[task]:  # The others of a bag are fresh.
            enter(w, task)
    if w.eligible.count:
        state.dirty.add(w.index)
        state.chance = True


def _run_ended(state: RunState, event: ev.RunEnded) -> None:
    state.ended = event.outcome
    state.end_reason = event.reason


def _cancel_asked(state: RunState, event: ev.CancelAsked) -> None:
    """Staging and queued attempts go back to the eligible set; running ones end, by themselves
    or killed."""
    state.draining = True
    state.killed = state.killed or event.mode == "kill"
    withdraw(state, running_too=state.killed)


# Sites and timers


def _site_observed(state: RunState, event: ev.SiteObserved) -> None:
    site = state.sites[event.site]
    now = {job.id: job for job in event.background}
    for job in site.background.values():
        if job.id not in now and job.started_s is not None:
            site.last2.observe(event.at_s - job.started_s)
    site.background = now
    if state.bounded:
        update(state, event.site)
    if site.queue_model is None:
        return
    accurate = state.information.background_runtime is Knowledge.KNOWN
    predicted = site.last2.predict()
    background = [
        Expected(
            job.cores,
            job.runtime_s if accurate and job.runtime_s is not None else predicted or 0.0,
            job.started_s,
        )
        for job in now.values()
    ]
    site.queue_model.observe(background, state.now_s)


def _site_paused(state: RunState, event: ev.SitePaused) -> None:
    site = state.sites[event.site]
    site.reported = event.reason
    update(state, event.site)
    timer = _patience(event.site)
    patience_s = PAUSE_PATIENCE_S if site.spec.access is None else CLUSTER_PATIENCE_S
    state.timers[timer] = event.at_s + patience_s
    state.outbox.append(SetTimer(timer, state.timers[timer]))


def _patience(site: int) -> str:
    return f"paused:{site}"


def _site_reopened(state: RunState, event: ev.SiteReopened) -> None:
    """The site says that it works: what was held against it is forgotten."""
    state.sites[event.site].reported = None
    forget(state, event.site)
    state.timers.pop(_patience(event.site), None)
    update(state, event.site)


def _site_counted(state: RunState, event: ev.SiteCounted) -> None:
    site = state.sites[event.site]
    site.connections += event.connections
    site.commands.update(event.commands)
    site.head_cpu_s += event.cpu_s


def _timer_fired(state: RunState, event: ev.TimerFired) -> None:
    due_s = state.timers.get(event.timer)
    if due_s is None or event.at_s < due_s:
        return  # it was called off, or set anew for later
    del state.timers[event.timer]
    kind, *numbers = event.timer.split(":")
    _FIRED[kind](state, *(int(n) for n in numbers))


def _superseded(state: RunState) -> None:
    """Nothing: the core sees that the time is over."""


def _retry(state: RunState, workflow: int, task: int) -> None:
    w = state.workflows[workflow]
    if w.status[task] == _DELAYED:
        w.delayed -= 1
        make_eligible(state, w, task)


def _copy_again(state: RunState, workflow: int, file: int, destination: int) -> None:
    copy = state.copies.get((workflow, file, destination))
    if copy is not None:
        state.outbox.append(CopyFile(workflow, file, copy.source, destination))


def _allocation_due(state: RunState, site: int) -> None:
    state.allocation_due = True


def _patience_over(state: RunState, site: int) -> None:
    """Nothing: the core sees that one timer less is left."""


_FIRED: dict[str, Callable[..., None]] = {
    "retry": _retry,
    "copy": _copy_again,
    "paused": _patience_over,
    "launchers": _allocation_due,
    "away": launchers.stayed_away,
    "breaker": pause_over,
    "trial": trial_over,
    "straggler": stragglers.look,
    "superseded": _superseded,
}

_APPLY: dict[type[ev.Event], Callable[[RunState, Any], None]] = {
    ev.RunStarted: _run_started,
    ev.WorkflowAdded: _workflow_added,
    ev.SubmissionEnded: _submission_ended,
    ev.HistoryRead: _history_read,
    ev.RunResumed: _run_resumed,
    ev.AttemptPlaced: attempt_placed,
    ev.AttemptsSubmitted: attempts_submitted,
    ev.AttemptStarted: attempt_started,
    ev.AttemptEnded: attempt_ended,
    ev.AttemptsFound: attempts_found,
    ev.AttemptsWithdrawn: launchers.attempts_withdrawn,
    ev.LaunchersAsked: launchers.launchers_asked,
    ev.LaunchersSubmitted: launchers.launchers_submitted,
    ev.LauncherStarted: launchers.launcher_started,
    ev.LauncherDraining: launchers.launcher_draining,
    ev.LaunchersStopped: launchers.launchers_stopped,
    ev.LauncherEnded: launchers.launcher_ended,
    ev.TransferEnded: transfer_ended,
    ev.TransferFailed: transfer_failed,
    ev.SiteObserved: _site_observed,
    ev.SitePaused: _site_paused,
    ev.SiteReopened: _site_reopened,
    ev.SiteCounted: _site_counted,
    ev.TimerFired: _timer_fired,
    ev.CancelAsked: _cancel_asked,
    ev.RunEnded: _run_ended,
}
