"""Interpretation of file events: arrived, not arrived, lost. Part of the interpreter of the log."""

from __future__ import annotations

from wfrun.engine import events as ev
from wfrun.engine.attempts import close, fail_attempt, ready, undispatch
from wfrun.engine.capability import Run
from wfrun.engine.copies import request_again, request_output, start_copies
from wfrun.engine.copy_queue import Copy, Key
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import ORIGIN
from wfrun.engine.redo import tasks_to_redo
from wfrun.engine.state import Phase, RunState, WorkflowState
from wfrun.engine.tasks import (
    DELAYED,
    ELIGIBLE,
    WAITING,
    make_eligible,
    reopen,
    set_status,
    settle,
)

MAX_COPY_RETRIES = 3
"""Maximum number of retries of a transfer after transient failures. A failure whose source is
paused does not count while the run waits for that site, which may hold the only copy."""


def transfer_ended(run: Run, event: ev.TransferEnded) -> None:
    """Note where the file is, and submit the attempts that miss no other input."""
    state = run.state
    w = state.workflows[event.workflow]
    key = (event.workflow, event.file, event.destination)
    copy = state.copies.pop(key, None)
    state.copy_queue.end(key)
    bit = state.network.bit(event.destination)
    if not w.present[event.file] & bit:
        w.present[event.file] |= bit
        _count_arrival(state, w, event)
        state.network.observe(event)
    if event.digest is not None:
        w.digests.setdefault(event.file, event.digest)
    for waiting in copy.waiting if copy is not None else ():
        attempt = state.attempts.get(waiting)
        if attempt is not None:
            attempt.missing -= 1
            if attempt.missing == 0:
                ready(run, attempt)
    start_copies(run)


def _count_arrival(state: RunState, w: WorkflowState, event: ev.TransferEnded) -> None:
    if event.method:
        state.transfer_methods[event.method] += 1
    if event.fallback and event.fallback not in state.fallbacks:
        state.fallbacks.append(event.fallback)
    if event.destination == ORIGIN:
        return
    site = state.sites[event.destination]
    site.transfers_in += 1
    site.bytes_in += event.size_bytes
    if event.source != ORIGIN:
        state.transfers += 1
        state.moved_bytes += event.size_bytes


def transfer_failed(run: Run, event: ev.TransferFailed) -> None:
    """Retry the copy after a delay, or fail the attempts that wait for it."""
    key = (event.workflow, event.file, event.destination)
    copy = run.state.copies.get(key)
    run.state.copy_queue.end(key)
    if copy is not None and copy.rank is None:  # Otherwise an earlier request for it has failed.
        _fail_copy(run, key, copy, event)
    start_copies(run)


def _fail_copy(run: Run, key: Key, copy: Copy, event: ev.TransferFailed) -> None:
    state = run.state
    waits = event.transient and _is_awaited(state, event.source)
    if not waits:
        copy.failures += 1
    if waits or (event.transient and copy.failures <= MAX_COPY_RETRIES):
        delay_s = state.settings.retry_delay_s * 2 ** max(0, copy.failures - 1)
        timer = f"copy:{event.workflow}:{event.file}:{event.destination}"
        run.set_timer(timer, state.now_s + delay_s)
        return
    del state.copies[key]
    w = state.workflows[event.workflow]
    name = w.workflow.files[event.file].name
    if event.destination == ORIGIN:
        state.uncollected.append(f"{name}: {event.message}")
        return
    outcome = Outcome(cause="staging", message=f"input {name!r} did not arrive: {event.message}")
    waiting = [state.attempts[k] for k in copy.waiting if k in state.attempts]
    for attempt in waiting:
        close(run, attempt)
    if event.transient and event.source == ORIGIN and waiting:
        # Of ORIGIN and the destination only the latter can be at fault; between two sites either
        # can.
        for call in run.hooks.undelivered:
            call(waiting[-1], outcome)
    for attempt in waiting:
        fail_attempt(run, w, attempt, outcome, own=not event.transient)
    settle(state, w, event.at_s)


def _is_awaited(state: RunState, site: int) -> bool:
    """Whether a site is paused and the run still waits for it: it may hold the only copy of a
    file."""
    return site != ORIGIN and f"paused:{site}" in state.timers


def copy_again(run: Run, workflow: int, file: int, destination: int) -> None:
    """Start a failed copy again. Called by its timer."""
    key = workflow, file, destination
    copy = run.state.copies.get(key)
    if copy is None:
        return
    if destination == ORIGIN or any(waiting in run.state.attempts for waiting in copy.waiting):
        request_again(run, key, copy)
    else:
        del run.state.copies[key]
        for dropped in run.hooks.copy_dropped:
            dropped(key)


def files_discarded(run: Run, event: ev.FilesDiscarded) -> None:
    """Forget the places of files that are removed from a site.

    The decision is durable before the removal begins. After a crash between the two, files are left
    at the site that no task reads until the end of the run; in the other order, the next engine
    would count on files that are gone. One that is at no place any more is lost: if a task that
    read it must be repeated, its producer is repeated first.
    """
    bit = run.state.network.bit(event.site)
    for workflow, file in event.files:
        w = run.state.workflows[workflow]
        w.present[file] &= ~bit
        if not w.present[file]:
            w.lost.add(file)
        for call in run.hooks.file_removed:
            call(w, file, event.site)


def lose_files(run: Run, lost: tuple[tuple[int, int, int], ...]) -> None:
    """Forget the places of lost files, and repeat the tasks that wrote a file which is needed and
    exists nowhere."""
    state = run.state
    affected: dict[int, WorkflowState] = {}
    for workflow, file, site in lost:
        w = state.workflows[workflow]
        w.present[file] &= ~state.network.bit(site)
        for call in run.hooks.file_removed:
            call(w, file, site)
        if w.present[file] == 0:
            w.lost.add(file)
            affected[workflow] = w
    # Copies from a lost place fail, and start again from another one.
    for key in list(state.copies):
        if state.workflows[key[0]].present[key[1]] == 0:
            _give_up_copy(run, key)
    # Attempts in staging counted on inputs that are no longer at their sites.
    missing = set(lost)
    for attempt in [a for a in state.attempts.values() if a.phase is Phase.STAGING]:
        inputs = state.workflows[attempt.workflow].workflow.tasks[attempt.task].inputs
        if any((attempt.workflow, file, attempt.site) in missing for file in inputs):
            undispatch(run, attempt)
    for w in affected.values():
        _redo(run, w, tasks_to_redo(w))


def _give_up_copy(run: Run, key: Key) -> None:
    """Give up a copy and the attempts that wait for it. Their tasks wait for the producer of the
    file."""
    for attempt_key in run.state.copies.pop(key).waiting:
        attempt = run.state.attempts.get(attempt_key)
        if attempt is not None:
            undispatch(run, attempt)


def _redo(run: Run, w: WorkflowState, tasks: set[int]) -> None:
    """Let tasks run again, and let their successors wait for them."""
    state = run.state
    for task in sorted(tasks):
        set_status(state, w, task, WAITING)
        reopen(state, w)
        for redone in run.hooks.redone:
            redone(w, task)
        for child in w.children[task]:
            w.waiting[child] += 1
            if w.status[child] == ELIGIBLE:
                set_status(state, w, child, WAITING)
                w.eligible.remove(child, w.task_class(child))
                for call in run.hooks.eligible:
                    call(w)
            elif w.status[child] == DELAYED:
                set_status(state, w, child, WAITING)
                state.timers.pop(f"retry:{w.index}:{child}", None)
    for task in sorted(tasks):
        if w.waiting[task] == 0:
            make_eligible(run, w, task)


def collect_missing(run: Run, w: WorkflowState) -> None:
    """Collect final outputs whose collection had failed. Called after a resume."""
    origin = run.state.network.bit(ORIGIN)
    for index, present in enumerate(w.present):
        if (
            present
            and not present & origin
            and w.workflow.files[index].collect
            and (w.index, index, ORIGIN) not in run.state.copies
        ):
            request_output(run, w, index)
