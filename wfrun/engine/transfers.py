"""What becomes of files: arrived, not arrived, lost.

A part of ``wfrun.engine.apply``.
"""

from __future__ import annotations

from wfrun.engine import events as ev
from wfrun.engine.actions import SetTimer
from wfrun.engine.attempts import close, collect, fail_one, make_eligible, ready, settle, take_back
from wfrun.engine.health import in_trouble
from wfrun.engine.model import ORIGIN
from wfrun.engine.records import Outcome
from wfrun.engine.redo import tasks_to_redo
from wfrun.engine.state import Phase, RunState, TaskStatus, WorkflowState

MAX_COPY_FAILURES = 3
"""A transient failure of a transfer is tried again this often; those from a site that says that it
is out of order do not count, as long as the run has patience with it."""

_WAITING, _ELIGIBLE = int(TaskStatus.WAITING), int(TaskStatus.ELIGIBLE)
_DELAYED = int(TaskStatus.DELAYED)


def transfer_ended(state: RunState, event: ev.TransferEnded) -> None:
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
                ready(state, attempt)


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


def transfer_failed(state: RunState, event: ev.TransferFailed) -> None:
    key = (event.workflow, event.file, event.destination)
    copy = state.copies.get(key)
    if copy is None:
        return
    waits = event.transient and _is_awaited(state, event.source)
    if not waits:
        copy.failures += 1
    if waits or (event.transient and copy.failures <= MAX_COPY_FAILURES):
        timer = f"copy:{event.workflow}:{event.file}:{event.destination}"
        at_s = state.now_s + state.settings.retry_delay_s * 2 ** max(0, copy.failures - 1)
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
    waiting = [state.attempts[k] for k in copy.waiting if k in state.attempts]
    for attempt in waiting:
        close(state, attempt)
    if event.transient and event.source == ORIGIN and waiting:
        # Nobody else can be to blame; between two sites it may be either.
        in_trouble(state, waiting[-1], outcome)
    for attempt in waiting:
        fail_one(state, w, attempt, outcome, own=not event.transient)
    settle(w, event.at_s)


def _is_awaited(state: RunState, site: int) -> bool:
    """Whether this site is out of reach for now, and the run has patience with it: what it alone
    holds is worth waiting for."""
    return site != ORIGIN and f"paused:{site}" in state.timers


def lose_files(state: RunState, lost: tuple[tuple[int, int, int], ...]) -> None:
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
            take_back(state, attempt)
    for workflow, files in gone.items():
        w = state.workflows[workflow]
        _redo(state, w, tasks_to_redo(w, files))


def _give_up_copy(state: RunState, key: tuple[int, int, int]) -> None:
    """The attempts that wait for it are withdrawn; their tasks wait for the file's producer."""
    for attempt_key in state.copies.pop(key).waiting:
        attempt = state.attempts.get(attempt_key)
        if attempt is not None:
            take_back(state, attempt)


def _redo(state: RunState, w: WorkflowState, tasks: set[int]) -> None:
    for task in sorted(tasks):
        w.status[task] = _WAITING
        w.done -= 1
        w.ended_s = None
        for child in w.children[task]:
            w.waiting[child] += 1
            if w.status[child] == _ELIGIBLE:
                w.status[child] = _WAITING
                w.eligible.remove(child, w.asked(child).cores)
            elif w.status[child] == _DELAYED:
                w.status[child] = _WAITING
                w.delayed -= 1
                state.timers.pop(f"retry:{w.index}:{child}", None)
    for task in sorted(tasks):
        if w.waiting[task] == 0:
            make_eligible(state, w, task)


def collect_missing(state: RunState, w: WorkflowState) -> None:
    """After a resume: final outputs whose collection was given up."""
    origin = state.network.bit(ORIGIN)
    for index, present in enumerate(w.present):
        if (
            present
            and not present & origin
            and w.workflow.files[index].collect
            and (w.index, index, ORIGIN) not in state.copies
        ):
            collect(state, w, index)
