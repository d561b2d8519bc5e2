"""Interpretation of file events: arrived, lost. Part of the interpreter of the log.

`wfrun.engine.files.copy_failures` interprets failed copies.

*Originals* are initial inputs that sites have already, at the paths that replica catalogs state,
outside of the run's stores. An original is a source of copies like any other, and policies see it
at its site. It is never changed or removed: a task at the same site reads a copy in the store,
which the site makes itself.
"""

from __future__ import annotations

from wfrun.engine import events as ev
from wfrun.engine.core.capability import Run
from wfrun.engine.core.state import Phase, RunState, WorkflowState
from wfrun.engine.files.copies import end_outdated, outdate_copies, request_output, start_copies
from wfrun.engine.files.copy_queue import Key
from wfrun.engine.model import ORIGIN, File
from wfrun.engine.tasks.attempts import open_attempts, ready, undispatch
from wfrun.engine.tasks.redo import tasks_to_redo, tasks_to_redo_for
from wfrun.engine.tasks.status import (
    DELAYED,
    DISPATCHED,
    ELIGIBLE,
    WAITING,
    make_eligible,
    reopen,
    set_status,
)

MAX_REMAKES = 3
"""Maximum number of times that a vanished file is made again after a start or resume of the run.
Otherwise a site that loses each file would repeat its task for ever."""


def transfer_ended(run: Run, event: ev.TransferEnded) -> None:
    """Note that a file has arrived at a place, and submit the attempts that miss no other input."""
    state = run.state
    queue = state.copy_queue
    file, source, destination = event.file, event.source, event.destination
    key = (event.workflow, file, destination)
    if queue.outdated:
        if end_outdated(run, event):
            return
    else:
        begun = queue.under_way.get(key)
        if begun is not None and begun[0] == source and begun[1] == event.avoided:
            del queue.under_way[key]
    w = state.workflows[event.workflow]
    copy = state.copies.pop(key, None)
    if key in queue.running and (
        copy is None or not copy.is_given_up(source, state.network.bit(source), event.avoided)
    ):
        queue.end(key)
    if w.sizes[file] < 0:
        w.sizes[file] = event.size_bytes
    bit = state.network.bits[destination]
    if not w.present[file] & bit:
        w.present[file] |= bit
        if event.method or event.fallback:
            _count_method(state, event)
        if destination != ORIGIN:
            _count_arrival(state, event)
        if state.own_outputs or state.network.learns:  # Simulated copies show nothing new.
            state.network.observe(event)
    elif w.originals and file in w.originals:
        w.originals[file] &= ~bit
    if event.digest is not None:
        w.digests.setdefault(file, event.digest)
    for waiting in copy.waiting if copy is not None else ():
        attempt = state.attempts.get(waiting)
        if attempt is not None:
            attempt.missing -= 1
            if attempt.missing == 0:
                ready(run, attempt)
    if queue.waiting:
        start_copies(run)


def _count_method(state: RunState, event: ev.TransferEnded) -> None:
    if event.method:
        state.transfer_methods[event.method] += 1
    if event.fallback and event.fallback not in state.fallbacks:
        state.fallbacks.append(event.fallback)


def _count_arrival(state: RunState, event: ev.TransferEnded) -> None:
    site = state.sites[event.destination]
    site.transfers_in += 1
    site.bytes_in += event.size_bytes
    if event.source != ORIGIN:
        state.transfers += 1
        state.moved_bytes += event.size_bytes


def files_discarded(run: Run, event: ev.FilesDiscarded) -> None:
    """Forget the places of files that are removed from a site.

    The decision is durable before the removal begins. After a crash between the two, files that no
    task reads are left at the site until the end of the run. In the other order, the next engine
    would count on files that are gone. A file that is left at no place is lost: if a task that read
    it must be repeated, its producer is repeated first.
    """
    others = ~run.state.network.bit(event.site)
    workflows, removed = run.state.workflows, run.hooks.file_removed
    for workflow, file in event.files:
        w = workflows[workflow]
        w.present[file] &= others
        if w.originals:
            keep_original(run.state, w, file, event.site)
        if not w.present[file]:
            if file in w.originals:
                restore_originals(run.state, w, file)
            else:
                w.lost.add(file)
        if removed:
            for call in removed:
                call(w, file, event.site)


def files_lost(run: Run, event: ev.FilesLost) -> None:
    """Forget files that vanished at a site. The attempts that missed them end after this event."""
    for workflow, file in event.files:
        w = run.state.workflows[workflow]
        if w.is_stored(file, event.site):
            remake(run, w, file, event.site)


def remake(run: Run, w: WorkflowState, file: int, site: int) -> bool:
    """Forget a file that vanished at a site, so that it is copied from another place, or its task
    runs again. Returns False, and forgets nothing, if the file was made again too often."""
    if not w.present[file] & ~run.state.network.bit(site):
        if w.remakes.get(file, 0) >= MAX_REMAKES:
            w.worn_out.add(file)
            return False
        w.remakes[file] = w.remakes.get(file, 0) + 1
    lose_file(run, w, file, site)
    return True


def lose_files(run: Run, lost: tuple[tuple[int, int, int], ...]) -> None:
    """Forget the places of lost files after a crash, and repeat the producer of each file that is
    needed and exists nowhere."""
    _forget_places(run, lost)
    for w in {workflow: run.state.workflows[workflow] for workflow, _, _ in lost}.values():
        _redo(run, w, tasks_to_redo(w))


def lose_file(run: Run, w: WorkflowState, file: int, site: int) -> None:
    """Forget a file at a site. If the file is needed and exists nowhere else, repeat its producer.
    Cost: the open attempts and copies, and the successors of the producer."""
    _forget_places(run, ((w.index, file, site),))
    _redo(run, w, tasks_to_redo_for(w, file))


def _forget_places(run: Run, lost: tuple[tuple[int, int, int], ...]) -> None:
    """Forget the places of lost files, and give up the copies and the attempts in staging that need
    the files there."""
    state = run.state
    for workflow, file, site in lost:
        w = state.workflows[workflow]
        is_original = site == ORIGIN or not w.is_stored(file, site)
        if not (is_original and file in w.originals):
            state.vanished[site] += 1
        w.present[file] &= ~state.network.bit(site)
        if file in w.originals:
            w.originals[file] &= ~state.network.bit(site)
            if not is_original:
                keep_original(state, w, file, site)
        for call in run.hooks.file_removed:
            call(w, file, site)
        if w.present[file] == 0 and file in w.originals:
            restore_originals(state, w, file)
        if w.present[file] == 0:
            w.lost.add(file)
            # One that still arrives is of an attempt that is repeated, and may not write it again.
            outdate_copies(state, w, file)
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


def _give_up_copy(run: Run, key: Key) -> None:
    """Give up a copy and the attempts that wait for it. Their tasks wait for the producer of the
    file."""
    for attempt_key in run.state.copies.pop(key).waiting:
        attempt = run.state.attempts.get(attempt_key)
        if attempt is not None:
            undispatch(run, attempt)


def _redo(run: Run, w: WorkflowState, tasks: set[int]) -> None:
    """Let tasks run again. Their successors wait for them, except attempts that were submitted.

    An attempt in staging is given up, since it relies on the earlier outputs. The task may write
    them again elsewhere, or write an optional output that the attempt did not request.
    """
    state = run.state
    for task in sorted(tasks):
        set_status(state, w, task, WAITING)
        state.redone += 1
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
            elif w.status[child] == DISPATCHED:
                for attempt in list(open_attempts(state, w, child)):
                    if attempt.phase is Phase.STAGING:
                        undispatch(run, attempt)
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


def sites_with(state: RunState, file: File) -> int:
    """The sites that have an initial input according to its replica catalog, as a mask."""
    names = {source.site for source in file.sources if source.site}
    if not names:
        return 0
    return sum(1 << index for index, site in enumerate(state.sites) if site.spec.name in names)


def add_originals(state: RunState, w: WorkflowState) -> None:
    """Note the places and checksums that replica catalogs state for the inputs of a workflow."""
    for index, file in enumerate(w.workflow.files):
        if file.sha256 is not None:
            w.digests[index] = file.sha256
        if file.sources and (mask := sites_with(state, file)):
            w.originals[index] = mask
            w.present[index] = mask if file.url is None else w.present[index] | mask


def keep_original(state: RunState, w: WorkflowState, file: int, site: int) -> None:
    """Use the original of a file again, at a site where the copy in the store was removed or has
    vanished. Does nothing if the site has no original."""
    bit = state.network.bit(site)
    if file in w.originals and sites_with(state, w.workflow.files[file]) & bit:
        w.originals[file] |= bit
        w.present[file] |= bit
        w.lost.discard(file)


def restore_originals(state: RunState, w: WorkflowState, file: int) -> None:
    """Use all originals of an input again. Called when the input is at no place, because copies
    from all originals have failed; a copy may succeed now. Without a place, the input would look
    like a file that no task wrote."""
    mask = sites_with(state, w.workflow.files[file]) & ~state.left
    w.originals[file] = mask
    w.present[file] = mask


def original_path(file: File, site: str) -> str:
    """The path of an initial input at a site that has it."""
    return next(source.url for source in file.sources if source.site == site)
