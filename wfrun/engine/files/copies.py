"""Copies of files to sites: their requests, and when they start.

A copy is requested once for each file and destination, however many attempts wait for it. Large
copies wait for room at both of their ends (`wfrun.engine.files.copy_queue`). Part of the
interpreter of the log, so that real and simulated runs start the same copies.
"""

from __future__ import annotations

from wfrun.engine import events as ev
from wfrun.engine.core.actions import CancelCopy, CopyFile
from wfrun.engine.core.capability import Run
from wfrun.engine.core.state import Attempt, RunState, WorkflowState, pause_timer
from wfrun.engine.files.copy_queue import Copy, Key
from wfrun.engine.files.staging import transfer_s
from wfrun.engine.model import ORIGIN

SMALL_BYTES = 64 * 1024
"""Maximum size of a file that is copied without starting a program at a site, unless the catalog
says otherwise: the start would take longer than the copy."""
SHARED_BYTES = 1 << 20
"""Maximum size of a file that is sent in one message together with other files. The number of
copies of files up to this size is not limited."""


def request_inputs(run: Run, w: WorkflowState, attempt: Attempt, site: int) -> None:
    """Request copies of the inputs of an attempt that are not at its site. The attempt waits for
    the copies."""
    state = run.state
    present, originals = w.present, w.originals
    bit, rank_s = 1 << site, -1.0
    for file in w.workflow.tasks[attempt.task].inputs:
        # A file that is at no place is an optional one that its producer did not write.
        if present[file] & bit:
            if not originals or not originals.get(file, 0) & bit:
                continue
        elif not present[file]:
            continue
        key = (w.index, file, site)
        copy = state.copies.get(key)
        if copy is None:
            if rank_s < 0 and state.copy_queue.is_bounded:
                rank_s = state.now_s + transfer_s(state, w, attempt.task, site)
            copy = state.copies[key] = Copy()
            _enqueue(run, key, copy, rank_s)
        copy.waiting.append(attempt.key)
        attempt.missing += 1
    if attempt.missing and state.copy_queue.waiting:
        start_copies(run)


def request_output(run: Run, w: WorkflowState, file: int) -> None:
    """Request the copy of a final output to ORIGIN."""
    state = run.state
    key = w.index, file, ORIGIN
    copy = state.copies[key] = Copy()
    _enqueue(run, key, copy, state.now_s)
    if state.copy_queue.waiting:
        start_copies(run)


def request_again(run: Run, key: Key, copy: Copy) -> None:
    """Start a copy that does not run, or queue it behind the waiting copies if there is no room."""
    _enqueue(run, key, copy, run.state.now_s)
    if run.state.copy_queue.waiting:
        start_copies(run)


def restart_copies(run: Run) -> None:
    """Start again all copies that are still wanted, and drop the others. Called for a new engine:
    the copies ended with the previous engine."""
    state = run.state
    state.copy_queue.clear()
    # The timer of a retry would start its copy a second time.
    state.timers = {t: at_s for t, at_s in state.timers.items() if not t.startswith("copy:")}
    for key, copy in list(state.copies.items()):
        if is_wanted(state, key):
            _enqueue(run, key, copy, state.now_s)
        else:
            drop_copy(run, key)
    start_copies(run)


def copy_late(run: Run, event: ev.CopyLate) -> None:
    """Give up a late copy, and copy the file from another place or by another method if an attempt
    still waits for it. The new copy goes before the waiting copies."""
    key = event.workflow, event.file, event.destination
    copy = run.state.copies.get(key)
    if copy is None:
        return
    run.outbox.append(CancelCopy(*key[:2], event.source, key[2]))
    queue = run.state.copy_queue
    queue.end(key)
    queue.under_way.pop(key, None)
    queue.outdated.pop(key, None)
    if not is_wanted(run.state, key):
        drop_copy(run, key)
    else:
        if event.method:
            copy.avoid = (event.method,)
            _say_late(run.state, event)
        else:
            copy.slow |= run.state.network.bit(event.source)
        _enqueue(run, key, copy, 0.0)
    start_copies(run)


def is_wanted(state: RunState, key: Key) -> bool:
    """Whether an attempt still waits for a copy, or the copy collects a final output."""
    return key[2] == ORIGIN or any(a in state.attempts for a in state.copies[key].waiting)


def drop_copy(run: Run, key: Key) -> None:
    """Give up a copy that does not run and that nothing waits for. A later request makes a new
    copy."""
    del run.state.copies[key]
    for call in run.hooks.copy_dropped:
        call(key)


def _say_late(state: RunState, event: ev.CopyLate) -> None:
    """Add a message for displays, once for a pair of sites: a file goes by another method."""
    source, destination = (
        "origin" if place == ORIGIN else state.sites[place].spec.name
        for place in (event.source, event.destination)
    )
    line = (
        f"{source} to {destination}: a large file goes by {event.other}, "
        f"because {event.method} was much slower than expected"
    )
    if line not in state.fallbacks:
        state.fallbacks.append(line)


def outdate_copies(state: RunState, w: WorkflowState, file: int) -> None:
    """Mark the copies of a file under way as outdated, since the file was written again."""
    queue = state.copy_queue
    for place in range(ORIGIN, len(state.sites)):
        key = w.index, file, place
        if key in queue.under_way:
            queue.outdated[key] = queue.under_way[key]


def end_outdated(run: Run, event: ev.TransferEnded | ev.TransferFailed) -> bool:
    """Note that a copy has ended. Returns whether the copy is outdated: its file was written again
    in the meantime. An outdated copy does not count, and starts again if it is still wanted.

    If it counted, the file of the earlier attempt would be stored under the name of the new file,
    beside other outputs of the new attempt.
    """
    key, ended = (event.workflow, event.file, event.destination), (event.source, event.avoided)
    queue = run.state.copy_queue
    if (begun := queue.under_way.get(key)) and begun[:2] == ended:
        del queue.under_way[key]
    if not (queue.outdated and (begun := queue.outdated.get(key)) and begun[:2] == ended):
        return False
    del queue.outdated[key]
    queue.end(key)
    copy = run.state.copies.get(key)
    if copy is not None and is_wanted(run.state, key):
        request_again(run, key, copy)
        return True
    if copy is not None:  # The file may have been written at its destination.
        drop_copy(run, key)
    start_copies(run)
    return True


def source_reopened(run: Run, site: int) -> None:
    """Count failures of copies from a site from now on, since it is no longer paused."""
    for copy in run.state.copies.values():
        if copy.source == site:
            copy.awaits_source = False


def start_copies(run: Run) -> None:
    """Start the copies for which there is room. Cost per started copy: the number of links with
    waiting copies."""
    state, queue = run.state, run.state.copy_queue
    while (entry := queue.next()) is not None:
        rank, key = entry
        copy = state.copies.get(key)
        if copy is None or copy.rank != rank:
            continue  # It was given up.
        if not is_wanted(state, key):
            drop_copy(run, key)
            continue
        source = _nearest(state, key, copy)
        if source == copy.source:
            _start(run, key, copy)
        else:  # The nearest place has changed while it waited.
            copy.source = source
            queue.add(key, source, rank)


def _enqueue(run: Run, key: Key, copy: Copy, rank_s: float) -> None:
    """Queue a copy until there is room for it. A copy that needs no room starts immediately."""
    state, queue = run.state, run.state.copy_queue
    if queue.outdated and key in queue.outdated:
        copy.source = queue.outdated[key][0]  # Its end starts this one: both write the same file.
        return
    if queue.running and key in queue.running:
        copy.source, _ = queue.running[key]  # It was given up; its end serves this request.
        return
    copy.source = _nearest(state, key, copy)
    if queue.is_bounded and not 0 <= state.workflows[key[0]].sizes[key[1]] <= SHARED_BYTES:
        copy.rank = (rank_s, queue.take_serial())
        queue.add(key, copy.source, copy.rank)
    else:
        _begin(run, key, copy)


def _start(run: Run, key: Key, copy: Copy) -> None:
    run.state.copy_queue.begin(key, copy.source, key[2])
    _begin(run, key, copy)


def _begin(run: Run, key: Key, copy: Copy) -> None:
    if copy.rank is not None:
        copy.rank = None  # A resumed copy may have a rank from before its size was known.
    state, source, avoid = run.state, copy.source, copy.avoid
    timers = state.timers
    if timers or copy.awaits_source:
        copy.awaits_source = source != ORIGIN and pause_timer(source) in timers
    state.copy_queue.under_way[key] = source, avoid, state.now_s
    workflow, file, destination = key
    run.outbox.append(CopyFile(workflow, file, source, destination, avoid))
    for call in run.hooks.copy_started:
        call(key, source)


def _nearest(state: RunState, key: Key, copy: Copy) -> int:
    """Return the place that has the file and the fastest link to the destination. Places in
    ``copy.slow`` come last."""
    workflow, file, destination = key
    present = state.workflows[workflow].present[file]
    if copy.slow:
        present = present & ~copy.slow or present
    if destination != ORIGIN and present >> destination & 1:
        return destination  # It is at the site, outside of the store.
    network = state.network
    return (network.best[destination].get(present) or network.best_source(present, destination))[0]
