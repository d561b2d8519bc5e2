"""Which tasks have to be done again when files of theirs are gone."""

from __future__ import annotations

from wfrun.engine.state import TaskStatus, WorkflowState


def tasks_to_redo(w: WorkflowState) -> set[int]:
    """The tasks that wrote a file which is lost, now or by an earlier resume, and still needed: as
    a final output, by a task that is not done, or by one that has to be done again."""
    files, tasks, gone = w.workflow.files, w.workflow.tasks, w.lost
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
