"""The done tasks of a run and the places of their files, for a simulation of the rest of the
run."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine.core.state import RunState, TaskStatus, WorkflowState
from wfrun.engine.events import ReusedTasks
from wfrun.engine.model import ORIGIN, SiteSpec

Reused = Sequence[tuple[ReusedTasks, ...]]
"""The tasks of each workflow that are done before a simulation begins."""


def done_of(state: RunState, sites: Sequence[SiteSpec]) -> Reused:
    """The done tasks of a run that need not run again, with the locations of their files at
    ``sites`` and on this machine.

    A done task runs again if none of these locations has one of its outputs that is still needed.
    """
    numbers = {site.spec.name: number for number, site in enumerate(state.sites)}
    places = [
        (place, state.network.bit(numbers[spec.name]))
        for place, spec in enumerate(sites)
        if spec.name in numbers
    ]
    places.append((ORIGIN, state.network.bit(ORIGIN)))
    return [(_done(state, w, places),) for w in state.workflows]


def _done(state: RunState, w: WorkflowState, places: Sequence[tuple[int, int]]) -> ReusedTasks:
    here = 0
    for _, bit in places:
        here |= bit
    done = _kept(w, here)
    files = [
        (file, w.sizes[file], place)
        for file, present in enumerate(w.present)
        if present & here
        for place, bit in places
        if present & bit
    ]
    gone = [
        file
        for task in done
        for file in w.workflow.tasks[task].outputs
        if not w.present[file] & here
    ]
    return ReusedTasks(state.run_id, tuple(sorted(done)), tuple(files), tuple(gone))


def _kept(w: WorkflowState, here: int) -> set[int]:
    """The done tasks that need not run again, because all their needed outputs still exist. A task
    that runs again needs its inputs, so that its parents may have to run again, too. ``here`` is
    the bit mask of the places that count."""
    tasks, files = w.workflow.tasks, w.workflow.files
    done = {task for task, status in enumerate(w.status) if status == TaskStatus.DONE}
    written = [file for task in done for file in tasks[task].outputs]
    # Final outputs that an attempt did not write are lost nowhere.
    needed = [file for file in written if files[file].collect and w.present[file]]
    for task in range(len(tasks)):
        if task not in done:
            needed += tasks[task].inputs
    while needed:
        file = needed.pop()
        producer = files[file].producer
        if producer in done and not w.present[file] & here:
            done.remove(producer)
            needed += tasks[producer].inputs
    return done
