"""The one interpreter of the log: ``apply`` changes the state by one event.

Live runs, recovery, ``status`` and simulations all go through it. What an event makes necessary
(a copy to start, an attempt that is ready) goes to ``state.outbox``; deciding is the core's.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from wfrun.engine import events as ev
from wfrun.engine.actions import CancelAttempts, CopyFile, FindAttempts, SetTimer, SubmitAttempts
from wfrun.engine.fit import classify
from wfrun.engine.information import Knowledge
from wfrun.engine.model import ORIGIN
from wfrun.engine.network import Network
from wfrun.engine.policies import placement_class, placement_options
from wfrun.engine.queue_model import Expected, QueueModel
from wfrun.engine.records import Outcome
from wfrun.engine.redo import tasks_to_redo
from wfrun.engine.state import (
    Attempt,
    Copy,
    Failure,
    Phase,
    RunState,
    SiteState,
    TaskStatus,
    WorkflowState,
)
from wfrun.engine.view import View, expected_runtimes_s, transfer_s

MAX_COPY_FAILURES = 3
"""A transient failure of a transfer is tried again this often."""

PAUSE_PATIENCE_S = 60.0
"""A run with nothing else to do waits this long for a paused site before it ends as failed."""

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
    state.network = Network([s.name for s in event.sites], event.links)
    state.open_sites = (1 << len(event.sites)) - 1
    state.information = placement_class(event.settings.policy).information
    if state.information.task_runtime is not Knowledge.UNKNOWN:
        for site in state.sites:
            site.queue_model = QueueModel(site.spec.slots)


def _workflow_added(state: RunState, event: ev.WorkflowAdded) -> None:
    workflow = state.documents[event.digest]
    w = WorkflowState(event.workflow, workflow, event.at_s)
    origin = state.network.bit(ORIGIN)
    w.present = [origin if f.producer is None else 0 for f in workflow.files]
    classify(state, w)
    if state.information.task_runtime is not Knowledge.UNKNOWN:
        w.runtimes_s = expected_runtimes_s(workflow)
    placement = placement_class(state.settings.policy)
    options = placement_options(placement, state.settings.policy_options)
    w.placement = placement(View(state, w, state.information), options)
    w.order = w.placement.order()
    state.workflows.append(w)
    for task, waiting in enumerate(w.waiting):
        if waiting == 0:
            _make_eligible(state, w, task)
    _settle(w, event.at_s)


def _run_resumed(state: RunState, event: ev.RunResumed) -> None:
    """A new engine: everything that was under way is asked for again, failed tasks get all
    their retries back."""
    state.draining = state.killed = state.stopping = False
    state.ended = state.end_reason = None
    state.uncollected.clear()
    _lose_files(state, event.lost)
    for index, site in enumerate(state.sites):
        site.available, site.pause_reason = True, None
        state.timers.pop(_patience(index), None)
    state.open_sites = (1 << len(state.sites)) - 1
    for w in state.workflows:
        _revive(state, w)
    for (workflow, file, destination), copy in state.copies.items():
        state.outbox.append(CopyFile(workflow, file, copy.source, destination))
    for w in state.workflows:
        _collect_missing(state, w)
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
    w.failures.clear()
    w.avoid.clear()
    for task, status in enumerate(w.status):
        if status == _FAILED:
            w.failed -= 1
            w.ended_s = None
            if w.waiting[task] == 0:
                _make_eligible(state, w, task)
            else:
                w.status[task] = _WAITING
        elif status == _BLOCKED:
            w.blocked -= 1
            w.status[task] = _WAITING
        elif status == _ELIGIBLE:
            state.dirty.add(w.index)


def _run_ended(state: RunState, event: ev.RunEnded) -> None:
    state.ended = event.outcome
    state.end_reason = event.reason


def _cancel_asked(state: RunState, event: ev.CancelAsked) -> None:
    """Staging and queued attempts go back to the eligible set; running ones end, by themselves
    or killed."""
    state.draining = True
    state.killed = state.killed or event.mode == "kill"
    _withdraw(state, running_too=state.killed)


def _withdraw(state: RunState, *, running_too: bool) -> None:
    for attempt in [a for a in state.attempts.values() if a.phase is Phase.STAGING]:
        _close(state, attempt)
        _make_eligible(state, state.workflows[attempt.workflow], attempt.task)
    if running_too:
        state.copies.clear()  # a resume collects what is missing
    else:
        state.copies = {k: c for k, c in state.copies.items() if k[2] == ORIGIN}
    for index in range(len(state.sites)):
        keys = tuple(a.key for a in state.attempts.values() if a.site == index)
        if keys:
            state.outbox.append(CancelAttempts(index, keys, queued_only=not running_too))


# Attempts


def _attempt_placed(state: RunState, event: ev.AttemptPlaced) -> None:
    w = state.workflows[event.workflow]
    task, site_index = event.task, event.site
    attempt = Attempt(event.key, event.workflow, task, site_index, event.at_s)
    w.status[task] = _DISPATCHED
    w.eligible_count -= 1
    w.attempts_of[task] += 1
    w.dispatched += 1
    state.attempts[event.key] = attempt
    site = state.sites[site_index]
    record = w.workflow.tasks[task]
    site.committed_cores += record.resources.cores
    site.phases[Phase.STAGING] += 1
    bit = 1 << site_index
    present = w.present
    for file in record.inputs:
        if not present[file] & bit and present[file]:
            _need(state, w, file, site_index, attempt)
    if site.queue_model is not None and w.runtimes_s is not None:
        site.queue_model.place(
            event.key,
            record.resources.cores,
            w.runtimes_s[task] / site.spec.speed_ratio,
            event.at_s,
            event.at_s + transfer_s(state, w, task, site_index),
        )
    w.placement.placed(task, site_index)
    if attempt.missing == 0:
        _ready(state, attempt)


def _need(state: RunState, w: WorkflowState, file: int, site: int, attempt: Attempt) -> None:
    """The attempt waits until the file has arrived; the copy is started once per site."""
    key = (w.index, file, site)
    copy = state.copies.get(key)
    if copy is None:
        source, _, _ = state.network.best_source(w.present[file], site)
        copy = state.copies[key] = Copy(source)
        state.outbox.append(CopyFile(w.index, file, source, site))
    copy.waiting.append(attempt.key)
    attempt.missing += 1


def _ready(state: RunState, attempt: Attempt) -> None:
    """All inputs are at the site."""
    attempt.ready_s = state.now_s
    state.workflows[attempt.workflow].staging_s += state.now_s - attempt.placed_s
    _move(state, attempt, Phase.SUBMITTING)
    state.outbox.append(
        SubmitAttempts(attempt.site, ((attempt.key, attempt.workflow, attempt.task),))
    )


def _move(state: RunState, attempt: Attempt, phase: Phase) -> None:
    phases = state.sites[attempt.site].phases
    phases[attempt.phase] -= 1
    phases[phase] += 1
    attempt.phase = phase


def _attempts_submitted(state: RunState, event: ev.AttemptsSubmitted) -> None:
    for key in event.keys:
        attempt = state.attempts.get(key)
        if attempt is not None and attempt.phase is Phase.SUBMITTING:
            _move(state, attempt, Phase.QUEUED)


def _attempt_started(state: RunState, event: ev.AttemptStarted) -> None:
    attempt = state.attempts.get(event.key)
    if attempt is None or attempt.phase is Phase.RUNNING:
        return
    _move(state, attempt, Phase.RUNNING)
    attempt.started_s = event.at_s
    if attempt.ready_s is not None:
        state.workflows[attempt.workflow].waiting_s += event.at_s - attempt.ready_s
    queue_model = state.sites[attempt.site].queue_model
    if queue_model is not None:
        queue_model.start(event.key, event.at_s)


def _attempts_found(state: RunState, event: ev.AttemptsFound) -> None:
    for key in event.absent:
        attempt = state.attempts.get(key)
        if attempt is not None and not _has_inputs(state, attempt):
            _take_back(state, attempt)
        elif attempt is not None:
            _move(state, attempt, Phase.SUBMITTING)
            attempt.started_s = None
            state.outbox.append(
                SubmitAttempts(attempt.site, ((key, attempt.workflow, attempt.task),))
            )
    for key in event.active:
        attempt = state.attempts.get(key)
        if attempt is not None and attempt.phase is Phase.SUBMITTING:
            _move(state, attempt, Phase.QUEUED)


def _has_inputs(state: RunState, attempt: Attempt) -> bool:
    """Whether the files that its site needs are still there, or were never written at all."""
    w = state.workflows[attempt.workflow]
    files = w.workflow.files
    for file in w.workflow.tasks[attempt.task].inputs:
        producer = files[file].producer
        if w.present[file]:
            if not w.present[file] >> attempt.site & 1:
                return False
        elif producer is not None and w.status[producer] != _DONE:
            return False
    return True


def _take_back(state: RunState, attempt: Attempt) -> None:
    """An attempt that was never started is no more; its task is to be placed anew."""
    _close(state, attempt)
    w = state.workflows[attempt.workflow]
    if w.waiting[attempt.task] == 0:
        _make_eligible(state, w, attempt.task)
    else:
        w.status[attempt.task] = _WAITING


def _attempt_ended(state: RunState, event: ev.AttemptEnded) -> None:
    attempt = state.attempts.get(event.key)
    if attempt is None:
        return  # known already: told twice, as after a crash
    _close(state, attempt)
    w = state.workflows[attempt.workflow]
    outcome = event.outcome
    if outcome.started_s is not None and outcome.ended_s is not None:
        cores = w.workflow.tasks[attempt.task].resources.cores
        state.sites[attempt.site].used_core_s += cores * (outcome.ended_s - outcome.started_s)
    if outcome.cause == "done":
        _succeed(state, w, attempt, outcome)
    elif outcome.cause == "cancelled" and (state.draining or state.stopping):
        _make_eligible(state, w, attempt.task)
    else:
        _fail(state, w, attempt, outcome)
    _settle(w, event.at_s)


def _close(state: RunState, attempt: Attempt) -> None:
    """The attempt is no longer dispatched."""
    del state.attempts[attempt.key]
    site = state.sites[attempt.site]
    w = state.workflows[attempt.workflow]
    site.committed_cores -= w.workflow.tasks[attempt.task].resources.cores
    site.phases[attempt.phase] -= 1
    w.dispatched -= 1
    state.dirty.add(attempt.workflow)
    if site.queue_model is not None:
        site.queue_model.end(attempt.key, state.now_s)


def _succeed(state: RunState, w: WorkflowState, attempt: Attempt, outcome: Outcome) -> None:
    state.sites[attempt.site].done += 1
    task = attempt.task
    w.status[task] = _DONE
    w.done += 1
    bit = 1 << attempt.site
    files = w.workflow.files
    for file, size in zip(w.workflow.tasks[task].outputs, outcome.sizes, strict=False):
        if size is None:
            if files[file].collect:
                w.to_collect -= 1
            continue
        w.present[file] = bit
        w.sizes[file] = size
        if files[file].collect and not state.killed:
            _collect(state, w, file)
    waiting = w.waiting
    for child in w.children[task]:
        waiting[child] -= 1
        if waiting[child] == 0 and w.status[child] == _WAITING:
            _make_eligible(state, w, child)


def _collect(state: RunState, w: WorkflowState, file: int) -> None:
    source, _, _ = state.network.best_source(w.present[file], ORIGIN)
    state.copies[(w.index, file, ORIGIN)] = Copy(source)
    state.outbox.append(CopyFile(w.index, file, source, ORIGIN))


def _collect_missing(state: RunState, w: WorkflowState) -> None:
    """After a resume: final outputs whose collection was given up."""
    origin = state.network.bit(ORIGIN)
    for index, file in enumerate(w.workflow.files):
        if (
            file.collect
            and w.present[index]
            and not w.present[index] & origin
            and (w.index, index, ORIGIN) not in state.copies
        ):
            _collect(state, w, index)


def _fail(state: RunState, w: WorkflowState, attempt: Attempt, outcome: Outcome) -> None:
    """Retry after a delay, at another site where there is one, or give up."""
    task, site = attempt.task, attempt.site
    state.sites[site].failed += 1
    failures = w.failures[task] = w.failures.get(task, 0) + 1
    avoid = w.avoid[task] = w.avoid.get(task, 0) | 1 << site
    settings = state.settings
    elsewhere = w.class_masks[w.resource_class[task]] & ~avoid
    retry = failures <= settings.retries and not state.stopping
    if outcome.cause == "start" and not elsewhere:
        retry = False  # it is nowhere; waiting does not bring it
    state.recent_failures.append(
        Failure(
            w.workflow.tasks[task].id,
            state.sites[site].spec.name,
            attempt.key,
            outcome.cause,
            outcome.message or "",
            not retry,
        )
    )
    if retry:
        state.retried += 1
        w.status[task] = _DELAYED
        w.delayed += 1
        timer = f"retry:{w.index}:{task}"
        at_s = state.now_s + settings.retry_delay_s * 2 ** (failures - 1)
        state.timers[timer] = at_s
        state.outbox.append(SetTimer(timer, at_s))
        return
    w.status[task] = _FAILED
    w.failed += 1
    _block_descendants(w, task)
    if settings.on_failure == "stop" and not state.stopping:
        state.stopping = True
        _withdraw(state, running_too=False)


def _block_descendants(w: WorkflowState, task: int) -> None:
    stack = [task]
    while stack:
        for child in w.children[stack.pop()]:
            if w.status[child] == _WAITING:
                w.status[child] = _BLOCKED
                w.blocked += 1
                stack.append(child)


def _make_eligible(state: RunState, w: WorkflowState, task: int) -> None:
    w.status[task] = _ELIGIBLE
    w.eligible_count += 1
    state.eligible_serial += 1
    w.serials[task] = state.eligible_serial
    order = -w.workflow.tasks[task].priority if w.order is None else w.order[task]
    heapq.heappush(w.eligible, (order, state.eligible_serial, task))
    state.dirty.add(w.index)


def _settle(w: WorkflowState, at_s: float) -> None:
    if w.done + w.failed + w.blocked == len(w.workflow.tasks):
        w.ended_s = at_s


# Transfers


def _transfer_ended(state: RunState, event: ev.TransferEnded) -> None:
    w = state.workflows[event.workflow]
    copy = state.copies.pop((event.workflow, event.file, event.destination), None)
    bit = state.network.bit(event.destination)
    if not w.present[event.file] & bit:
        w.present[event.file] |= bit
        _count_arrival(state, w, event)
    for key in copy.waiting if copy is not None else ():
        attempt = state.attempts.get(key)
        if attempt is not None:
            attempt.missing -= 1
            if attempt.missing == 0:
                _ready(state, attempt)


def _count_arrival(state: RunState, w: WorkflowState, event: ev.TransferEnded) -> None:
    if event.destination == ORIGIN:
        w.collected += 1
        return
    site = state.sites[event.destination]
    site.transfers_in += 1
    site.bytes_in += event.size_bytes
    if event.source != ORIGIN:
        state.transfers += 1
        state.moved_bytes += event.size_bytes


def _transfer_failed(state: RunState, event: ev.TransferFailed) -> None:
    key = (event.workflow, event.file, event.destination)
    copy = state.copies.get(key)
    if copy is None:
        return
    copy.failures += 1
    if event.transient and copy.failures <= MAX_COPY_FAILURES:
        timer = f"copy:{event.workflow}:{event.file}:{event.destination}"
        at_s = state.now_s + state.settings.retry_delay_s * 2 ** (copy.failures - 1)
        state.timers[timer] = at_s
        state.outbox.append(SetTimer(timer, at_s))
        return
    del state.copies[key]
    w = state.workflows[event.workflow]
    name = w.workflow.files[event.file].name
    if event.destination == ORIGIN:
        state.uncollected.append(f"{name}: {event.message}")
        return
    outcome = Outcome(cause="staging", message=f"input {name!r} did not arrive: {event.message}")
    for attempt_key in copy.waiting:
        attempt = state.attempts.get(attempt_key)
        if attempt is not None:
            _close(state, attempt)
            _fail(state, w, attempt, outcome)
    _settle(w, event.at_s)


def _lose_files(state: RunState, lost: tuple[tuple[int, int, int], ...]) -> None:
    """What is still needed and at no place any more is made again, by tasks that were done."""
    gone: dict[int, set[int]] = {}
    for workflow, file, site in lost:
        w = state.workflows[workflow]
        w.present[file] &= ~state.network.bit(site)
        if w.present[file] == 0:
            gone.setdefault(workflow, set()).add(file)
    for key, copy in list(state.copies.items()):
        present = state.workflows[key[0]].present[key[1]]
        if present == 0:
            _give_up_copy(state, key)
        elif not present & state.network.bit(copy.source):
            copy.source, _, _ = state.network.best_source(present, key[2])
    missing = set(lost)
    for attempt in [a for a in state.attempts.values() if a.phase is Phase.STAGING]:
        inputs = state.workflows[attempt.workflow].workflow.tasks[attempt.task].inputs
        if any((attempt.workflow, file, attempt.site) in missing for file in inputs):
            _take_back(state, attempt)
    for workflow, files in gone.items():
        w = state.workflows[workflow]
        _redo(state, w, tasks_to_redo(w, files))


def _give_up_copy(state: RunState, key: tuple[int, int, int]) -> None:
    """The attempts that wait for it are withdrawn; their tasks wait for the file's producer."""
    for attempt_key in state.copies.pop(key).waiting:
        attempt = state.attempts.get(attempt_key)
        if attempt is not None:
            _take_back(state, attempt)


def _redo(state: RunState, w: WorkflowState, tasks: set[int]) -> None:
    for task in sorted(tasks):
        w.status[task] = _WAITING
        w.done -= 1
        w.ended_s = None
        for child in w.children[task]:
            w.waiting[child] += 1
            if w.status[child] == _ELIGIBLE:
                w.status[child] = _WAITING
                w.eligible_count -= 1
            elif w.status[child] == _DELAYED:
                w.status[child] = _WAITING
                w.delayed -= 1
                state.timers.pop(f"retry:{w.index}:{child}", None)
    for task in sorted(tasks):
        if w.waiting[task] == 0:
            _make_eligible(state, w, task)


# Sites and timers


def _site_observed(state: RunState, event: ev.SiteObserved) -> None:
    site = state.sites[event.site]
    now = {job.id: job for job in event.background}
    for job in site.background.values():
        if job.id not in now and job.started_s is not None:
            site.last2.observe(event.at_s - job.started_s)
    site.background = now
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
    site.available, site.pause_reason = False, event.reason
    state.open_sites &= ~(1 << event.site)
    timer = _patience(event.site)
    state.timers[timer] = event.at_s + PAUSE_PATIENCE_S
    state.outbox.append(SetTimer(timer, state.timers[timer]))


def _patience(site: int) -> str:
    return f"paused:{site}"


def _site_reopened(state: RunState, event: ev.SiteReopened) -> None:
    site = state.sites[event.site]
    site.available, site.pause_reason = True, None
    state.open_sites |= 1 << event.site
    state.timers.pop(_patience(event.site), None)
    state.dirty.update(w.index for w in state.workflows if w.eligible_count)


def _timer_fired(state: RunState, event: ev.TimerFired) -> None:
    due_s = state.timers.get(event.timer)
    if due_s is None or event.at_s < due_s:
        return  # it was called off, or set anew for later
    del state.timers[event.timer]
    kind, *numbers = event.timer.split(":")
    if kind == "retry":
        w = state.workflows[int(numbers[0])]
        task = int(numbers[1])
        if w.status[task] == _DELAYED:
            w.delayed -= 1
            _make_eligible(state, w, task)
        return
    if kind != "copy":
        return  # the patience with a paused site is over; the core sees that no timer is left
    workflow, file, destination = (int(n) for n in numbers)
    copy = state.copies.get((workflow, file, destination))
    if copy is not None:
        state.outbox.append(CopyFile(workflow, file, copy.source, destination))


_APPLY: dict[type[ev.Event], Callable[[RunState, Any], None]] = {
    ev.RunStarted: _run_started,
    ev.WorkflowAdded: _workflow_added,
    ev.RunResumed: _run_resumed,
    ev.AttemptPlaced: _attempt_placed,
    ev.AttemptsSubmitted: _attempts_submitted,
    ev.AttemptStarted: _attempt_started,
    ev.AttemptEnded: _attempt_ended,
    ev.AttemptsFound: _attempts_found,
    ev.TransferEnded: _transfer_ended,
    ev.TransferFailed: _transfer_failed,
    ev.SiteObserved: _site_observed,
    ev.SitePaused: _site_paused,
    ev.SiteReopened: _site_reopened,
    ev.TimerFired: _timer_fired,
    ev.CancelAsked: _cancel_asked,
    ev.RunEnded: _run_ended,
}
