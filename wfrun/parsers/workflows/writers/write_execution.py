"""Writes executions of workflows as WfFormat JSON 1.5: the graph, and the measurements of each
task.

Source: wfcommons-schema.json of WfCommons, version 1.5. The format has patterns for ids of tasks
and files. Characters that do not match are replaced, and the changes are reported. A task without a
measurement has no entry in the execution. Its command and cores are in its specification, where our
readers and the schema accept them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from wfrun.engine.model import Resources, Task, Workflow
from wfrun.parsers.atomic import replacing
from wfrun.parsers.workflows.writers.write_wfformat import Json, json_lines

_NOT_OF_FILES = re.compile(r"[^0-9a-zA-Z_./:#-]")
_NOT_OF_TASKS = re.compile(r"[^0-9a-zA-Z_.#-]")


class TaskExecution(msgspec.Struct, frozen=True, gc=False):
    """The measurements of a task that is done."""

    runtime_s: float
    started_s: float
    """Seconds since the epoch."""
    machine: str
    cores: int
    cpu_s: float | None = None
    memory_bytes: int | None = None
    """Maximum resident set size."""


class Execution(msgspec.Struct, frozen=True):
    """The measurements of a workflow."""

    description: str
    system: str
    """Version of wfrun."""
    created_s: float
    """End of the run, or time of its latest event, in seconds since the epoch."""
    started_s: float
    makespan_s: float
    tasks: Mapping[int, TaskExecution]
    """Measurements by task; tasks that are not done are absent."""
    sizes: Sequence[int]
    """Size of each file in bytes; -1: unknown."""


def write_execution(workflow: Workflow, execution: Execution, path: Path) -> list[str]:
    """Write an execution to the file ``path``, which is replaced only when the document is
    complete. Return the facts for which the format has no place, with counts.

    Raises InvalidError when ``path`` cannot be written.
    """
    writer = _Writer(workflow, execution)
    with replacing(path) as stream:
        for part in writer.document():
            stream.write(part)
    return [f"{what}: {count:,}" for what, count in writer.losses.items()]


class _Writer:
    def __init__(self, workflow: Workflow, execution: Execution) -> None:
        self._workflow, self._execution = workflow, execution
        self.losses: Counter[str] = Counter()
        tasks, files = workflow.tasks, workflow.files
        self._ids = self._distinct([task.id for task in tasks], _NOT_OF_TASKS, "task ids")
        names = [file.name for file in files]
        self._files = self._distinct(names, _NOT_OF_FILES, "names of files")

    def _distinct(self, names: Sequence[str], wrong: re.Pattern[str], what: str) -> list[str]:
        """The names with each forbidden character replaced, made distinct by a number at the end.
        The first occurrence of a name without such characters stays unchanged."""
        allowed = {name for name in names if name and not wrong.search(name)}
        left = set(allowed)
        numbers: Counter[str] = Counter()
        found = []
        for name in names:
            new = name
            if name in left:
                left.remove(name)
            else:
                base = new = wrong.sub("_", name) or "_"
                while new in numbers or new in allowed:
                    numbers[base] += 1
                    new = f"{base}#{numbers[base] + 1}"
                numbers[new] += 0
                self.losses[f"{what} changed: the format forbids a character, or they repeat"] += 1
            found.append(new)
        return found

    def document(self) -> Iterator[str]:
        """Yield the document in parts."""
        workflow, execution = self._workflow, self._execution
        head = {
            "name": workflow.name or "workflow",
            "description": execution.description,
            "createdAt": _date(execution.created_s),
            "schemaVersion": "1.5",
            "runtimeSystem": {"name": "wfrun", "version": execution.system},
        }
        yield f'{_text(head)[:-1]}, "workflow": {{\n"specification": {{"tasks": [\n'
        children = self._children()
        yield from _lines(lambda index: self._specified(index, children), range(len(self._ids)))
        yield '\n], "files": [\n'
        sizes = execution.sizes
        known = (index for index in range(len(self._files)) if sizes[index] >= 0)
        yield from _lines(
            lambda index: {"id": self._files[index], "sizeInBytes": sizes[index]}, known
        )
        yield "\n]}"
        if execution.tasks:
            yield from self._executed()
        yield "}}\n"

    def _children(self) -> Callable[[int], Sequence[int]]:
        if self._workflow.bag is not None:
            return lambda index: ()
        return self._workflow.children().__getitem__

    def _specified(self, index: int, children: Callable[[int], Sequence[int]]) -> Json:
        task, ids = self._workflow.tasks[index], self._ids
        name = task.name or task.executable or "task"
        record: Json = {"name": name, "id": ids[index]}
        # Readers drop a number at the end of a name without a category.
        if name[-1] in "0123456789":
            record["category"] = name
        if index not in self._execution.tasks:
            record |= self._command(task)
        record["parents"] = [ids[parent] for parent in self._workflow.parents[index]]
        record["children"] = [ids[child] for child in children(index)]
        record["inputFiles"] = [self._files[file] for file in task.inputs]
        record["outputFiles"] = [self._files[file] for file in task.outputs]
        self._note(task)
        return record

    def _command(self, task: Task) -> Json:
        """The command and the requested cores of a task."""
        command: Json = {"program": task.executable or task.name or "task"}
        command["arguments"] = [word for word in task.arguments if word]
        return {"command": command, "coreCount": task.resources.cores}

    def _note(self, task: Task) -> None:
        """Count the facts about a task for which the format has no place."""
        if task.env:
            self.losses["tasks with environment variables, which are left out"] += 1
        if (task.stdin, task.stdout, task.stderr) != (None, None, None):
            self.losses["tasks whose standard streams are files, which is not said"] += 1
        if task.optional:
            self.losses["tasks with optional files, which are said to be required"] += 1
        if task.resources != Resources(cores=task.resources.cores):
            self.losses["tasks that ask for more than cores, which is left out"] += 1
        if "" in task.arguments:
            self.losses["tasks with an empty argument, which is left out"] += 1
        if any(word.startswith("-") and " " in word for word in task.arguments):
            self.losses["tasks with an option with a space in it, which readers may split"] += 1

    def _executed(self) -> Iterator[str]:
        execution = self._execution
        head = {
            "makespanInSeconds": execution.makespan_s,
            "executedAt": _date(execution.started_s),
        }
        yield f',\n"execution": {_text(head)[:-1]}, "tasks": [\n'
        yield from _lines(self._measured, sorted(execution.tasks))
        yield '\n], "machines": [\n'
        machines = list(dict.fromkeys(task.machine for task in execution.tasks.values()))
        yield from _lines(lambda number: {"nodeName": machines[number]}, range(len(machines)))
        yield "\n]}"

    def _measured(self, index: int) -> Json:
        measured = self._execution.tasks[index]
        record: Json = {
            "id": self._ids[index],
            "runtimeInSeconds": measured.runtime_s,
            "executedAt": _date(measured.started_s),
            **self._command(self._workflow.tasks[index]),
            "coreCount": measured.cores,
            "machines": [measured.machine],
        }
        if measured.cpu_s is not None and measured.runtime_s > 0:
            record["avgCPU"] = round(100 * measured.cpu_s / measured.runtime_s, 3)
        if measured.memory_bytes is not None:
            record["memoryInBytes"] = measured.memory_bytes
        if self._workflow.tasks[index].priority:
            record["priority"] = self._workflow.tasks[index].priority
        return record


def _date(at_s: float) -> str:
    """The time in ISO 8601, UTC. Times outside 1970 to 9999 are clamped."""
    at_s = min(max(at_s, 0.0), 253402300799.0)
    moment = datetime.fromtimestamp(at_s, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _lines(record: Callable[[int], Json], indices: Iterable[int]) -> Iterator[str]:
    return json_lines(record, indices, _text)


def _text(value: Any) -> str:
    """JSON in ASCII, since names may have bytes that are not text."""
    return json.dumps(value)
