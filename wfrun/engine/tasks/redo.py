"""Tasks that must be repeated because files that they wrote are lost."""

from __future__ import annotations

from wfrun.engine.core.state import TaskStatus, WorkflowState


def tasks_to_redo(w: WorkflowState) -> set[int]:
    """Return the done tasks that wrote a lost file that is still needed: as a final output, by a
    task that is not done, or by a task that must be repeated."""
    files, tasks, gone = w.workflow.files, w.workflow.tasks, w.lost
    needed = [file for file in gone if files[file].collect]
    for index, task in enumerate(tasks):
        if w.status[index] != TaskStatus.DONE:
            needed.extend(file for file in task.inputs if file in gone)
    return _with_producers(w, needed)


def tasks_to_redo_for(w: WorkflowState, file: int) -> set[int]:
    """The done tasks that must be repeated because one file exists nowhere; none if the file is not
    needed. Cost: the successors of its producer."""
    record = w.workflow.files[file]
    if file not in w.lost or record.producer is None:
        return set()
    tasks = w.workflow.tasks
    is_needed = record.collect or any(
        file in tasks[child].inputs and w.status[child] != TaskStatus.DONE
        for child in w.children[record.producer]
    )
    return _with_producers(w, [file]) if is_needed else set()


def _with_producers(w: WorkflowState, needed: list[int]) -> set[int]:
    """The done tasks that wrote the lost files ``needed``, and in turn the done tasks that wrote
    their lost inputs."""
    files, tasks, gone = w.workflow.files, w.workflow.tasks, w.lost
    redo: set[int] = set()
    while needed:
        producer = files[needed.pop()].producer
        if producer is None or producer in redo or w.status[producer] != TaskStatus.DONE:
            continue
        redo.add(producer)
        needed.extend(file for file in tasks[producer].inputs if file in gone)
    return redo
