"""WfFormat, the JSON of WfCommons: schema 1.0 to 1.5.

Source: wfcommons-schema.json 1.5, and the instances of WfCommons for the older versions. In the
older versions tasks are under ``jobs`` or ``tasks``, and names of keys have no units. Tasks refer
to each other by id; up to 1.4 also by name. From 1.5 on the specification describes a task, and the
execution has its run time and command.

The instances are traces of runs. The memory of a task was measured there, so it is no request;
``coreCount`` was requested. Absolute file names are mere identifiers; emulation drops their leading
slash. A task may have a ``container``, which the schema does not mention: an image, or a mapping as
in bags.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from wfrun.engine.model import Resources
from wfrun.parsers.containers import to_container
from wfrun.parsers.syntax.limits import cut
from wfrun.parsers.workflows.document import Document
from wfrun.parsers.workflows.draft import Draft, EdgeDraft, FileUse, TaskDraft

MAX_NUMBER = 10**300
"""Maximum number that is read: a floating point number can hold it."""
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBERED = re.compile(r"[_.-](?:ID)?\d+\Z")
Task = dict[str, Any]


def read_wfformat(document: Document, path: Path) -> Iterator[Draft]:
    """Read the document at ``path``.

    Raises InvalidError, with the line, for a document that is not JSON, is not a workflow, or is
    refused.
    """
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        document.refuse("not UTF-8 text", line, "Save the document as UTF-8.")
    yield from _WfFormatReader(document, text, _parse(document, text)).read()


def _parse(document: Document, text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        message = f"not valid JSON: {error.msg}, column {error.colno}"
        document.refuse(message, error.lineno, "Is the document complete?")
    except RecursionError:
        document.refuse("not a workflow: JSON that is nested too deeply", None)
    except ValueError as error:
        document.refuse(f"not valid JSON: {error}", None)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {repeated!r} is repeated in one object")
    return result


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def line_of(text: str, *path: str | int) -> int:
    """The line at which the part of a JSON text at this path of keys and indices starts.

    If the path leads to no part, it is the line of the last part that the path leads to.
    """
    decoder = json.JSONDecoder()
    position = _skip_space(text, 0)
    for step in path:
        found = _step(decoder, text, position, step)
        if found is None:
            break
        position = found
    return text.count("\n", 0, position) + 1


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def _step(decoder: json.JSONDecoder, text: str, position: int, step: str | int) -> int | None:
    """The position of the value of a key or an index in the container at ``position``; None if it
    is absent."""
    closing = {"{": "}", "[": "]"}.get(text[position])
    index = 0
    position = _skip_space(text, position + 1)
    while closing is not None and text[position] != closing:
        key: str | int = index
        if closing == "}":
            key, position = decoder.raw_decode(text, position)
            position = _skip_space(text, _skip_space(text, position) + 1)
        if key == step:
            return position
        _, position = decoder.raw_decode(text, position)
        position = _skip_space(text, position)
        if text[position] == ",":
            position = _skip_space(text, position + 1)
        index += 1
    return None


class _WfFormatReader:
    def __init__(self, document: Document, text: str, data: Any) -> None:
        self._document = document
        self._data = data
        self._text = text
        self._sizes: dict[str, int | None] = {}
        self._by_name: dict[str, str] = {}
        self._ids: set[str] = set()

    def read(self) -> Iterator[Draft]:
        """Yield all tasks of the document, then its edges."""
        workflow = self._data.get("workflow") if isinstance(self._data, dict) else None
        if not isinstance(workflow, dict):
            self._refuse('no object "workflow"')
        specification = workflow.get("specification")
        if specification is None:
            key = "tasks" if "tasks" in workflow else "jobs"
            tasks = self._tasks_in(workflow, key, ("workflow",))
            executed: dict[Any, Task] = {}
        else:
            if not isinstance(specification, dict):
                self._refuse('"specification" is not an object', "workflow", "specification")
            self._read_sizes(specification)
            executed = self._executed(workflow)
            tasks = self._tasks_in(specification, "tasks", ("workflow", "specification"))
        for number, task in enumerate(tasks):
            name = self._need(task, "name", number)
            self._ids.add(self._id(task, number))
            self._by_name.setdefault(name, self._id(task, number))
        for number, task in enumerate(tasks):
            yield self._task(task, executed.get(self._id(task, number), {}), number)
        for number, task in enumerate(tasks):
            yield from self._edges(task, number)
        name = self._data.get("name")
        if isinstance(name, str) and name:
            self._document.name = name

    def _refuse(self, message: str, *path: str | int) -> NoReturn:
        self._document.locate = int
        self._document.refuse(
            f"not a workflow in WfFormat: {message}",
            line_of(self._text, *path),
            "See https://github.com/wfcommons/WfFormat for what it consists of.",
        )

    def _enter(self, *path: str) -> None:
        """Let positions in the document be numbers of items of the list at ``path``. Places noted
        before keep their list. Lines are found when a message needs them."""
        self._document.locate = lambda number: line_of(self._text, *path, number)

    def _tasks_in(self, holder: Task, key: str, path: tuple[str, ...]) -> list[Task]:
        tasks = holder.get(key)
        if not isinstance(tasks, list):
            self._refuse(f'no list "{key}"', *path, key)
        for number, task in enumerate(tasks):
            if not isinstance(task, dict):
                self._refuse("a task is not an object", *path, key, number)
        self._enter(*path, key)
        return tasks

    def _executed(self, workflow: Task) -> dict[Any, Task]:
        """The execution of each task, by id."""
        execution = workflow.get("execution")
        if not isinstance(execution, dict) or "tasks" not in execution:
            return {}
        tasks = self._tasks_in(execution, "tasks", ("workflow", "execution"))
        return {str(task.get("id")): task for task in tasks}

    def _read_sizes(self, specification: Task) -> None:
        files = specification.get("files") or []
        if not isinstance(files, list):
            self._refuse('"files" is not a list', "workflow", "specification", "files")
        path = ("workflow", "specification", "files")
        self._enter(*path)
        for number, file in enumerate(files):
            if not isinstance(file, dict) or not isinstance(file.get("id"), str):
                self._refuse("a file is not an object with an id", *path, number)
            size = self._number(file, number, "sizeInBytes")
            if size is not None:
                self._sizes[file["id"]] = self._document.size(size, number)

    # Tasks.

    def _task(self, task: Task, executed: Task, number: int) -> TaskDraft:
        facts = {**task, **executed}
        kind = _kind(task)
        draft = TaskDraft(self._id(task, number), kind, kind, line=number)
        self._command(draft, facts, number)
        for key, uses in (("inputFiles", draft.inputs), ("outputFiles", draft.outputs)):
            for name in self._names(task, key, number):
                uses.append(FileUse(self._file(name, number), self._sizes.get(name)))
        self._files(task, draft, number)
        runtime = self._number(facts, number, "runtimeInSeconds", "runtime")
        if runtime is not None:
            draft.runtime_s = self._document.runtime(runtime, number)
        cores = self._number(facts, number, "coreCount", "cores")
        if cores is not None and cores > 1:
            draft.resources = Resources(cores=math.ceil(cores))
        container = facts.get("container")
        if container is not None:
            try:
                draft.container = to_container(container)
            except ValueError as error:
                self._document.refuse(f"container of task {draft.id}: {error}", number)
        draft.priority = round(self._number(facts, number, "priority") or 0)
        return draft

    def _command(self, draft: TaskDraft, facts: Task, number: int) -> None:
        """Read the program and its arguments. Without a program, or with a script as program, the
        task can only be emulated."""
        command = facts.get("command") or {}
        if not isinstance(command, dict):
            self._document.refuse(f"task {draft.id}: its command is not an object", number)
        program = command.get("program")
        arguments = command.get("arguments", facts.get("arguments")) or []
        if isinstance(arguments, str):
            arguments = [arguments]
        if not isinstance(arguments, list) or not isinstance(program, str | None):
            self._document.refuse(f"task {draft.id}: its command is not text", number)
        if program and "\n" in program:
            self._document.warn("script text is not run", number)
            return
        if program:
            draft.executable = program
        words: list[str] = []
        for argument in arguments:
            words += self._words(self._scalar(argument, draft, number), number)
        draft.arguments = tuple(words)

    def _words(self, argument: str, number: int) -> list[str]:
        """Split an option and its value, which WfBench writes as one argument."""
        if not argument.startswith("-") or " " not in argument:
            return [argument]
        try:
            words = shlex.split(argument)
        except ValueError:
            return [argument]
        self._document.warn("argument that holds several words, split as a shell does", number)
        return words

    def _files(self, task: Task, draft: TaskDraft, number: int) -> None:
        """Read the files of a task in the form used before 1.5, where each file states its link."""
        files = task.get("files") or []
        if not isinstance(files, list):
            self._document.refuse(f"task {draft.id}: files is not a list", number)
        for file in files:
            link = file.get("link") if isinstance(file, dict) else None
            name = file.get("name", file.get("id")) if isinstance(file, dict) else None
            if link not in ("input", "output") or not isinstance(name, str):
                message = f"task {draft.id}: a file without a name and a link input or output"
                self._document.refuse(message, number)
            size = self._number(file, number, "sizeInBytes", "size")
            size_bytes = None if size is None else self._document.size(size, number)
            uses = draft.inputs if link == "input" else draft.outputs
            uses.append(FileUse(self._file(name, number), size_bytes))

    def _file(self, name: str, number: int) -> str:
        if not name.startswith("/") or not self._document.emulate:
            return name
        self._document.warn("absolute file name, its leading slash dropped", number)
        return name.lstrip("/")

    def _edges(self, task: Task, number: int) -> Iterator[EdgeDraft]:
        """Yield the edges of a task: from its parents, and to its children. Older versions refer to
        tasks by name instead of id."""
        node = self._id(task, number)
        parents = [self._reference(name) for name in self._names(task, "parents", number)]
        yield EdgeDraft(node, parents, number)
        for child in self._names(task, "children", number):
            yield EdgeDraft(self._reference(child), [node], number)

    def _reference(self, name: str) -> str:
        return name if name in self._ids else self._by_name.get(name, name)

    # Parts of objects.

    def _id(self, task: Task, number: int) -> str:
        return self._need(task, "id" if task.get("id") is not None else "name", number)

    def _need(self, task: Task, key: str, number: int) -> str:
        value = task.get(key)
        if not isinstance(value, str) or not value:
            self._document.refuse(f"a task without {key}", number)
        return value

    def _names(self, task: Task, key: str, number: int) -> list[str]:
        names = task.get(key) or []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self._document.refuse(f"task {task['name']}: {key} is not a list of names", number)
        return names

    def _scalar(self, value: object, draft: TaskDraft, number: int) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self._document.refuse(f"task {draft.id}: an argument is not text", number)
        return str(value)

    def _number(self, holder: Task, number: int, *keys: str) -> float | None:
        """The number under the first of ``keys`` that is present."""
        for key in keys:
            value = holder.get(key)
            if value is None:
                continue
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not -MAX_NUMBER <= value <= MAX_NUMBER  # 1e400 is infinite
            ):
                self._document.refuse(f"{key} is {cut(repr(value))}, not a number", number)
            return value
        return None


def _kind(task: Task) -> str:
    """The transformation: the category, or the name without the number at its end."""
    category = task.get("category")
    if isinstance(category, str) and category:
        return category
    name: str = task["name"]
    return _NUMBERED.sub("", name) or name
