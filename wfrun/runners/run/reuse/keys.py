"""Content keys of tasks. A content key is a digest of everything that determines what a task
computes: its command, environment, program and inputs.

The key of a task includes the keys of its predecessors, so that a changed task changes the keys of
all tasks that depend on it. Resources, priorities and run times are not included, because they do
not change the outputs.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from wfrun.engine.model import Catalog, Task, Workflow
from wfrun.engine.tasks.bag import BagFiles
from wfrun.runners.run.reuse.identities import Identifier, Record, identify_all

MAX_FILES = 200_000
"""Maximum number of initial inputs that are identified for a run. A task that reads an input beyond
this number is not reused."""
_CARRIED = ".wfrun-"
"""Prefix of the sandbox folders that hold programs of a document, which are sent to sites."""


def make_record(workflows: Sequence[Workflow], catalog: Catalog, identifier: Identifier) -> Record:
    """Identify all files that a run reads on the submit host. Raises InfeasibleError for a file
    that cannot be read."""
    paths = [path for w in workflows for path in _input_paths(w)][:MAX_FILES]
    programs: dict[str, str] = {}
    # At a cluster a program is looked up when its task starts, so only its name is known here.
    if all(site.access is None for site in catalog.sites):
        for workflow in workflows:
            for task in _distinct_programs(workflow):
                name = program_of(task)
                if name not in programs and (path := _found(task)) is not None:
                    programs[name] = path
    return Record(
        names=tuple(w.name for w in workflows),
        documents=identify_all(
            Identifier(), [os.path.abspath(w.source) for w in workflows], always=True
        ),
        files=identify_all(identifier, [*programs.values(), *paths]),
        programs=programs,
    )


def _input_paths(workflow: Workflow) -> Iterator[str]:
    """The paths of the initial inputs."""
    files = workflow.files
    count = files.input_count if isinstance(files, BagFiles) else len(files)
    for number in range(min(count, MAX_FILES) if workflow.bag is not None else count):
        file = files[number]
        if file.producer is None and file.url is not None:
            yield file.url


def _distinct_programs(workflow: Workflow) -> Iterable[Task]:
    """Tasks that together have all programs of a workflow."""
    if workflow.bag is not None and "{" not in workflow.bag.executable:
        return workflow.tasks[:1]
    return workflow.tasks


def program_of(task: Task) -> str:
    """Key of the program of a task: its name in the document, and the PATH in which it is looked
    up."""
    return f"{task.executable}\0{(task.env or {}).get('PATH', '')}"


def _found(task: Task) -> str | None:
    """The path of the program on this machine. None if the program is an input of the task, is
    inside the task's container, or is not found."""
    if task.executable.startswith("./") or task.resources.container is not None:
        return None
    if os.path.isabs(task.executable):
        return task.executable
    return shutil.which(task.executable, path=(task.env or {}).get("PATH"))


def task_keys(workflow: Workflow, record: Record, identifier: Identifier) -> list[bytes]:
    """The content key of each task. Equal tasks get different keys, by a number, because their
    results may differ, for example due to random numbers."""
    keys: list[bytes] = [b""] * len(workflow.tasks)
    contents = _Contents(workflow, record, identifier, keys)
    seen: Counter[bytes] = Counter()
    for number in _in_order(workflow):
        parents = sorted(keys[parent] for parent in workflow.parents[number])
        once = _digest((parents, contents.facts(workflow.tasks[number])))
        keys[number] = _digest((once, seen[once]))
        seen[once] += 1
    return keys


def _digest(value: object) -> bytes:
    return hashlib.blake2b(msgspec.msgpack.encode(value), digest_size=16).digest()


def _in_order(workflow: Workflow) -> Iterable[int]:
    """Numbers of the tasks, each after those of its predecessors."""
    if workflow.bag is not None:
        return range(len(workflow.tasks))
    waiting = [len(parents) for parents in workflow.parents]
    children = workflow.children()
    order = [task for task, count in enumerate(waiting) if not count]
    for task in order:  # grows while it is read
        for child in children[task]:
            waiting[child] -= 1
            if not waiting[child]:
                order.append(child)
    return order


class _Contents:
    """Collects what the keys of a workflow's tasks depend on, including the contents of files and
    programs."""

    def __init__(
        self, workflow: Workflow, record: Record, identifier: Identifier, keys: Sequence[bytes]
    ) -> None:
        self._workflow, self._record, self._keys = workflow, record, keys
        self._tokens = {
            path: identifier.token(path, identity) for path, identity in record.files.items()
        }
        self._unknown = secrets.token_bytes(16)
        """Token of inputs that were not identified. It equals no token of another run."""

    def facts(self, task: Task) -> tuple[object, ...]:
        """All that determines what a task computes, except its predecessors."""
        files = self._workflow.files
        inputs = {files[file].name: self._input(file) for file in task.inputs}
        program = self._program(task, inputs)
        # The name of a carried program is wfrun's own; its content is that of the program.
        carried = task.executable[2:] if task.executable.startswith(f"./{_CARRIED}") else None
        streams = [None if f is None else files[f].name
                   for f in (task.stdin, task.stdout, task.stderr)]  # fmt: skip
        container = task.resources.container
        return (
            program,
            task.arguments,
            sorted((task.env or {}).items()),
            sorted(item for item in inputs.items() if item[0] != carried),
            _container(task),
            [(files[file].name, file in task.optional) for file in task.outputs],
            streams,
            *(
                ()
                if container is None
                else (msgspec.structs.astuple(container), inputs.get(container.image, b""))
            ),
        )

    def _input(self, file: int) -> bytes:
        found = self._workflow.files[file]
        if found.producer is None:
            stated = self._unknown if found.sha256 is None else found.sha256.encode()
            return self._tokens.get(found.url or "", stated)
        place = self._workflow.tasks[found.producer].outputs.index(file)
        return self._keys[found.producer] + place.to_bytes(4, "big")

    def _program(self, task: Task, inputs: Mapping[str, bytes]) -> tuple[str, bytes]:
        """(name, token of the content) of the program of a task. The token is empty for a program
        that exists only at the sites, and for an input that the document itself names as the
        program: the inputs include its content."""
        name = task.executable
        base = os.path.basename(name)
        if name.startswith(f"./{_CARRIED}"):
            return base, inputs[name[2:]]
        path = self._record.programs.get(program_of(task))
        if path is None or path not in self._tokens:
            return name, b""
        return base, self._tokens[path]


def _container(task: Task) -> tuple[object, ...]:
    """Image, checksum and mounts of the container of a task; empty without a container. An image
    that is a file is also an input of the task."""
    container = task.resources.container
    return () if container is None else (container.shown, container.sha256, container.mounts)
