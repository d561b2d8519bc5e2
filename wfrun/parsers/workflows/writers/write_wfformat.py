"""Writes workflows as WfFormat JSON 1.5, such that reading them back gives an equal workflow.

Source: wfcommons-schema.json of WfCommons, version 1.5. The format describes executions. For a
workflow that has not run, the run times are the documented ones, the makespan is their sum (as on
one slot), and the time of execution is the start of the epoch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Resources, Task, Workflow
from wfrun.parsers.atomic import replacing

_FILE_NAME = re.compile(r"[0-9a-zA-Z_./:#-]+")
_TASK_ID = re.compile(r"[0-9a-zA-Z_.#-]+")
_NEVER = "1970-01-01T00:00:00Z"

Json = dict[str, Any]


def write_wfformat(workflow: Workflow, path: str | Path) -> None:
    """Write ``workflow`` to the file ``path``, which is replaced only when the document is
    complete.

    The format lacks much that the model and DAX have: standard streams, environment variables,
    optional files, replicas, executable inputs, requests other than cores, and names with
    characters outside its patterns. A workflow with any of these is refused rather than changed;
    the message names the first of them. These are not kept: ``source`` and ``warnings``, files that
    no task uses, and the distinction between declared edges and edges that files imply.

    Raises InvalidError for a refused workflow, and if ``path`` cannot be written.
    """
    for reason in _obstacles(workflow):
        raise InvalidError(
            f"WfFormat has no place for {reason}",
            source=str(path),
            hint="Write it as DAX, which can say that.",
        )
    with replacing(path) as stream:
        for part in _document(workflow):
            stream.write(part)


def _obstacles(workflow: Workflow) -> Iterator[str]:
    """Yield descriptions of what the format cannot express."""
    files, read = workflow.files, bytearray(len(workflow.files))
    for task in workflow.tasks:
        for index in task.inputs:
            read[index] = 1
    for name, count in Counter(file.name for file in files).items():
        if count > 1:
            yield f"{count} files that are called {name}"
    for index, file in enumerate(files):
        if not _FILE_NAME.fullmatch(file.name):
            yield f"a character of the file name {file.name!r}"
        if file.url is not None or file.executable:
            yield f"the place of file {file.name}, or that it is executable"
        if file.collect != (file.producer is not None and not read[index]):
            yield f"the mark whether file {file.name} is a final output"
    for task in workflow.tasks:
        yield from _task_obstacles(task)


def _task_obstacles(task: Task) -> Iterator[str]:
    if not _TASK_ID.fullmatch(task.id):
        yield f"a character of the task id {task.id!r}"
    if task.env or (task.stdin, task.stdout, task.stderr) != (None, None, None):
        yield f"the environment or a standard stream of task {task.id}"
    if task.optional:
        yield f"an optional file of task {task.id}"
    if task.resources != Resources(cores=task.resources.cores):
        yield f"the nodes, memory, GPUs, walltime or container that task {task.id} asks for"
    if not task.name or not task.executable or "" in task.arguments:
        yield f"an empty word in the command of task {task.id}"
    if any(word.startswith("-") and " " in word for word in task.arguments):
        yield f"the argument of task {task.id} that is an option with a space in it"
    if "\n" in task.executable:
        yield f"the line break in the executable of task {task.id}"
    if task.runtime_s is None and not _is_plain(task):
        yield f"the command of task {task.id}, whose run time is unknown"


def _is_plain(task: Task) -> bool:
    """Whether the task needs no entry in the document's execution: it has no arguments, one core,
    the default priority, and its name as executable."""
    command = (task.executable, task.arguments, task.resources.cores, task.priority)
    return command == (task.name, (), 1, 0)


def _document(workflow: Workflow) -> Iterator[str]:
    tasks = workflow.tasks
    children = workflow.children()

    def specification(index: int) -> Json:
        task = tasks[index]
        # Readers drop a number at the end of a name, unless a category is given.
        category = {"category": task.name} if task.name[-1] in "0123456789" else {}
        return {
            "name": task.name,
            **category,
            "id": task.id,
            "parents": [tasks[parent].id for parent in workflow.parents[index]],
            "children": [tasks[child].id for child in children[index]],
            "inputFiles": [workflow.files[file].name for file in task.inputs],
            "outputFiles": [workflow.files[file].name for file in task.outputs],
        }

    yield f'{{"name": {_text(workflow.name)}, "schemaVersion": "1.5", "workflow": {{\n'
    yield '"specification": {"tasks": [\n'
    yield from json_lines(specification, range(len(tasks)))
    yield '\n], "files": [\n'
    known = [index for index, file in enumerate(workflow.files) if file.size_bytes is not None]
    yield from json_lines(
        lambda index: {
            "id": workflow.files[index].name,
            "sizeInBytes": workflow.files[index].size_bytes,
        },
        known,
    )
    yield "\n]}"
    timed = [index for index, task in enumerate(tasks) if task.runtime_s is not None]
    if timed:
        makespan_s = sum(task.runtime_s or 0.0 for task in tasks)
        yield f',\n"execution": {{"makespanInSeconds": {makespan_s!r}, "executedAt": "{_NEVER}",'
        yield ' "tasks": [\n'
        yield from json_lines(lambda index: _execution(tasks[index]), timed)
        yield "\n]}"
    yield "}}\n"


def _execution(task: Task) -> Json:
    execution: Json = {
        "id": task.id,
        "runtimeInSeconds": task.runtime_s,
        "command": {"program": task.executable, "arguments": list(task.arguments)},
        "coreCount": task.resources.cores,
    }
    if task.priority:
        execution["priority"] = task.priority
    return execution


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def json_lines(
    record: Callable[[int], Json], indices: Iterable[int], encode: Callable[[Json], str] = _text
) -> Iterator[str]:
    """Yield the record of each index as an item of a JSON list, one record a line."""
    separator = ""
    for index in indices:
        yield separator + encode(record(index))
        separator = ",\n"
