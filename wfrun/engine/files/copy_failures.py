"""Treatment of failed copies: one table of rules, by cause. Part of the interpreter of the log.

A copy is tried again after a delay that doubles, or fails the attempts that wait for it. A file
that vanished at a site is forgotten there: it is copied from elsewhere, or its task runs again.
"""

from __future__ import annotations

from typing import NamedTuple

from wfrun.engine import events as ev
from wfrun.engine.core.capability import Run
from wfrun.engine.core.state import RunState, pause_timer
from wfrun.engine.exchange import Cause, CopyCause, Outcome
from wfrun.engine.files.copies import (
    drop_copy,
    end_outdated,
    is_wanted,
    request_again,
    start_copies,
)
from wfrun.engine.files.copy_queue import Copy, Key
from wfrun.engine.files.file_events import lose_file, remake
from wfrun.engine.model import ORIGIN, File
from wfrun.engine.tasks.attempts import close, fail_attempt
from wfrun.engine.tasks.status import DISPATCHED, settle


class Treatment(NamedTuple):
    """The rule for a copy after one cause of failure."""

    retries: int
    """Maximum number of retries. A transient failure is not counted if the source was paused at the
    start of the copy and has not been reopened: the source may hold the only copy of the file.
    After a reopening failures count, since each copy may break the connection."""
    factor: float = 1.0
    """Factor of the option `retry_delay_s` for the delay before the first retry. The delay doubles
    with each further retry."""
    max_delay_s: float = 60.0
    fails: Cause = "staging"
    """Cause with which the attempts that waited for the copy fail. ``disk-full`` pauses their
    site."""
    site_is_full: bool = False
    """Whether another site is tried immediately, rather than this copy again. Outputs are retried,
    since they have no other destination."""
    remakes: bool = False
    """Whether the file is forgotten at its source, and made again if no other place has it."""
    advice: str = ""


TREATMENTS: dict[CopyCause, Treatment] = {
    "disk-full": Treatment(3, 10.0, 120.0, "disk-full", True, advice="Make room there."),
    "quota": Treatment(
        3, 10.0, 120.0, "disk-full", True, advice="Remove files of yours there, or raise the quota."
    ),
    "permission": Treatment(0, advice="Check who may read and write there."),
    "connection": Treatment(5),
    # A network file system may show a new file late.
    "absent": Treatment(3, remakes=True, advice="Was it removed?"),
    "changed": Treatment(3, remakes=True, advice="Files of a run must not be edited."),
    "checksum": Treatment(3, advice="Look at the disk and the memory of both machines."),
    "stalled": Treatment(2),
    "unknown": Treatment(3),
}


def transfer_failed(run: Run, event: ev.TransferFailed) -> None:
    """Retry the copy after a delay, find the file elsewhere, or fail the attempts that wait for
    it."""
    if end_outdated(run, event):
        return
    key = (event.workflow, event.file, event.destination)
    copy = run.state.copies.get(key)
    bit = run.state.network.bit(event.source)
    if copy is not None and copy.is_given_up(event.source, bit, event.avoided):
        return  # It failed while it was cancelled.
    run.state.copy_queue.end(key)
    if copy is not None and copy.rank is None:  # Otherwise an earlier request for it has failed.
        _treat(run, key, copy, event)
    start_copies(run)


def _treat(run: Run, key: Key, copy: Copy, event: ev.TransferFailed) -> None:
    state, treatment = run.state, TREATMENTS[event.cause]
    w = state.workflows[event.workflow]
    if _is_retried(state, copy, event, treatment):
        delay_s = state.settings.retry_delay_s * treatment.factor * 2 ** max(0, copy.failures - 1)
        timer = f"copy:{event.workflow}:{event.file}:{event.destination}"
        run.set_timer(timer, state.now_s + min(delay_s, treatment.max_delay_s))
        return
    record = w.workflow.files[event.file]
    is_made = record.producer is not None
    is_site = event.source != ORIGIN
    is_gone = treatment.remakes and is_site
    bit = state.network.bit(event.source)
    others = w.present[event.file] & ~bit
    # A store has the file still, unless it vanished there: only this copy leaves the place.
    stays = is_site and not treatment.remakes and w.is_stored(event.file, event.source)
    if stays:
        others &= ~copy.slow
    if record.sources and others and not _blames_destination(event):
        _note_left(state, record, event)
        if stays:
            copy.slow |= bit
        else:
            lose_file(run, w, event.file, event.source)
        _copy_from_elsewhere(run, key, copy)
        return
    if is_gone and (is_made or others) and remake(run, w, event.file, event.source):
        _copy_from_elsewhere(run, key, copy)
        return
    _give_up(run, key, copy, event, is_gone=is_gone and is_made)


def _note_left(state: RunState, file: File, event: ev.TransferFailed) -> None:
    """Add a message for displays that inputs missing at a place are copied from elsewhere, once for
    each place."""
    is_here = event.source == ORIGIN
    place = "origin" if is_here else state.sites[event.source].spec.name
    begin = f"{place}: inputs are copied from elsewhere, because"
    if not any(said.startswith(begin) for said in state.fallbacks):
        state.fallbacks.append(f"{begin} {file.name!r} is not: {' '.join(event.message.split())}")


def _copy_from_elsewhere(run: Run, key: Key, copy: Copy) -> None:
    """Start a copy again from another place that has the file, after its source was forgotten."""
    if key in run.state.copies:
        copy.failures = 0
        request_again(run, key, copy)


def _is_retried(
    state: RunState, copy: Copy, event: ev.TransferFailed, treatment: Treatment
) -> bool:
    """Count the failure of a copy. Returns whether the copy is tried again."""
    if event.cause in ("unknown", "connection", "stalled") and event.transient:
        if copy.awaits_source and pause_timer(event.source) in state.timers:
            return True
    elif event.cause == "unknown" and not event.transient:
        return False
    if treatment.site_is_full and event.destination != ORIGIN:
        return False
    if treatment.remakes and event.source == ORIGIN:
        return False
    copy.failures += 1
    return copy.failures <= treatment.retries


def _give_up(run: Run, key: Key, copy: Copy, event: ev.TransferFailed, *, is_gone: bool) -> None:
    """Fail the attempts that wait for a copy, or note that an output was not collected."""
    state, treatment = run.state, TREATMENTS[event.cause]
    del state.copies[key]
    w = state.workflows[event.workflow]
    name = w.workflow.files[event.file].name
    reason = event.message
    if is_gone:
        site = state.sites[event.source].spec.name
        times = w.remakes[event.file]
        reason = f"it vanished at {site} and was made again {times} times: {reason}"
    if treatment.advice and "\n" not in reason:  # Otherwise it has advice of its own.
        reason += f"\n  {treatment.advice}"
    if event.destination == ORIGIN:
        state.uncollected.append(f"{name}: {reason}")
        return
    where = state.sites[event.destination].spec.name
    outcome = Outcome(
        treatment.fails, message=f"input {name!r} did not arrive at {where}: {reason}"
    )
    waiting = [state.attempts[k] for k in copy.waiting if k in state.attempts]
    for attempt in waiting:
        close(run, attempt)
    if waiting and _blames_destination(event):
        for call in run.hooks.undelivered:
            call(waiting[-1], outcome)
    # A task fails once, also if several of its attempts waited; that of its first one counts.
    for attempt in sorted(waiting, key=lambda attempt: attempt.is_replica):
        own = not event.transient and not _blames_destination(event)
        if w.status[attempt.task] == DISPATCHED:
            fail_attempt(run, w, attempt, outcome, own=own, final=is_gone)
    settle(state, w, event.at_s)


def _blames_destination(event: ev.TransferFailed) -> bool:
    """Return whether the destination is at fault. A lost connection is the fault of the destination
    if the source is ORIGIN; between two sites, either site may have lost it."""
    if event.cause in ("absent", "changed") or event.end == "source":
        return False
    if event.cause in ("disk-full", "quota", "permission"):
        return True
    return event.transient and event.source == ORIGIN


def copy_again(run: Run, workflow: int, file: int, destination: int) -> None:
    """Start a failed copy again. Called by its timer."""
    key = workflow, file, destination
    copy = run.state.copies.get(key)
    if copy is None:
        return
    if is_wanted(run.state, key):
        request_again(run, key, copy)
    else:
        drop_copy(run, key)
