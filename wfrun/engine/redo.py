"""Which tasks have to be done again when files of theirs are gone."""

from __future__ import annotations

from collections.abc import Set

from wfrun.engine.state import TaskStatus, WorkflowState


def tasks_to_redo(w: WorkflowState, gone: Set[int]) -> set[int]:
    """The tasks that wrote a file of ``gone`` (files that are at no place any more) that is still
    needed: as a final output, by a task that is not done, or by one that has to be done again."""
    files, tasks = w.workflow.files, w.workflow.tasks
    needed = [file for file in gone if files[file].collect]
    for index, task in enumerate(tasks):
        if w.status[index] != TaskStatus.DONE:
            needed.extend(file for file in task.inputs if file in gone)
    redo: set[int] = set()
    while needed:
        producer = files[needed.pop()].producer
        if producer is None or producer in redo or w.status[producer] != TaskStatus.DONE:
            continue
        redo.add(producer)
        needed.extend(file for file in tasks[producer].inputs if file in gone)
    return redo
