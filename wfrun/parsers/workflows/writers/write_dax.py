"""Writes workflows as DAX 3.6, such that reading them back gives an equal workflow.

Source: dax-3.6.xsd of Pegasus. Beyond the schema, jobs have the attribute ``runtime`` (seconds on
the reference processor), as the published synthetic workflows have. Resource requests are profiles
(Pegasus 4.9 user guide, "Configuration"): ``pegasus`` cores, nodes, memory in MB, gpus, priority
and maxwalltime in minutes.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from wfrun.engine.errors import InvalidError
from wfrun.engine.fitting.containers import Container
from wfrun.engine.model import File, InputSource, Task, Workflow
from wfrun.parsers.atomic import replacing

_HEAD = """\
<?xml version="1.0" encoding="UTF-8"?>
<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="3.6" name={name}>
"""
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MEBIBYTE = 2**20


def write_dax(workflow: Workflow, path: str | Path) -> None:
    """Write ``workflow`` to the file ``path``, which is replaced only when the document is
    complete.

    These are not kept: ``source`` and ``warnings``, checksums of inputs, files that no task uses,
    and the distinction between declared edges and edges that files imply. Raises InvalidError for
    values that a DAX cannot express, such as control characters or a relative path of an
    executable, and if ``path`` cannot be written.
    """
    with replacing(path) as stream:
        for part in _parts(workflow, str(path)):
            if _UNWRITABLE.search(part):
                raise _unsayable(str(path), f"there is a control character in {part.strip()!r}")
            stream.write(part)


def _parts(workflow: Workflow, path: str) -> Iterator[str]:
    yield _HEAD.format(name=quoteattr(workflow.name))
    for file in workflow.files:
        if file.url is not None and file.producer is None:
            pfns = "".join(map(_pfn, file.sources or (InputSource(file.url),)))
            yield f"  <file name={quoteattr(file.name)}>{pfns}</file>\n"
    versions, entries = _transformations(workflow, path)
    yield from entries
    uses = _Uses(workflow)
    for task in workflow.tasks:
        yield _job(workflow, task, versions.get((task.name, task.executable)), uses, path)
    for task, parents in zip(workflow.tasks, workflow.parents, strict=True):
        if parents:
            refs = "".join(
                f"<parent ref={quoteattr(workflow.tasks[parent].id)}/>" for parent in parents
            )
            yield f"  <child ref={quoteattr(task.id)}>{refs}</child>\n"
    yield "</adag>\n"


def _pfn(source: InputSource) -> str:
    site = f" site={quoteattr(source.site)}" if source.site else ""
    return f"<pfn url={quoteattr(source.url)}{site}/>"


def _transformations(workflow: Workflow, path: str) -> tuple[dict[tuple[str, str], str], list[str]]:
    """The version attribute by (name, executable), and the entries of the transformation catalog.
    The attribute is empty for a name that has a single executable.

    A name whose single executable is the name itself gets no entry.
    """
    executables: dict[str, dict[str, None]] = {}
    for task in workflow.tasks:
        if not _brings_executable(workflow, task):
            executables.setdefault(task.name, {})[task.executable] = None
    versions: dict[tuple[str, str], str] = {}
    entries: list[str] = []
    for name, places in executables.items():
        if list(places) == [name]:
            continue
        for number, place in enumerate(places, 1):
            if "/" in place and not place.startswith("/"):
                message = f"the path of the executable {place} is relative"
                raise _unsayable(path, message, "Make it absolute, or an input of its task.")
            version = "" if len(places) == 1 else f' version="{number}"'
            versions[name, place] = version
            pfn = f"<pfn url={quoteattr(place)}/>"
            entries.append(f"  <executable name={quoteattr(name)}{version}>{pfn}</executable>\n")
    return versions, entries


def _brings_executable(workflow: Workflow, task: Task) -> bool:
    """Whether an input of the task is its program: an executable with the transformation's name."""
    return task.executable == f"./{task.name}" and any(
        workflow.files[index].executable and workflow.files[index].name == task.name
        for index in task.inputs
    )


class _Uses:
    """The ``<uses>`` elements. Those of inputs are cached, because many tasks may read one file."""

    def __init__(self, workflow: Workflow) -> None:
        self._files = workflow.files
        self._inputs: list[str | None] = [None] * len(workflow.files)

    def of(self, task: Task) -> list[str]:
        parts = []
        for index in task.inputs:
            if index in task.optional:
                parts.append(self._input(self._files[index], ' optional="true"'))
                continue
            part = self._inputs[index]
            if part is None:
                part = self._inputs[index] = self._input(self._files[index], "")
            parts.append(part)
        for index in task.outputs:
            file = self._files[index]
            optional = ' optional="true"' if index in task.optional else ""
            transfer = "true" if file.collect else "false"
            parts.append(
                f'    <uses name={quoteattr(file.name)} link="output"{optional}'
                f' transfer="{transfer}"{_size(file)}/>\n'
            )
        return parts

    def _input(self, file: File, optional: str) -> str:
        executable = ' executable="true"' if file.executable else ""
        name = quoteattr(file.name)
        return f'    <uses name={name} link="input"{optional}{_size(file)}{executable}/>\n'


def _size(file: File) -> str:
    return "" if file.size_bytes is None else f' size="{file.size_bytes}"'


def _job(workflow: Workflow, task: Task, version: str | None, uses: _Uses, path: str) -> str:
    runtime = "" if task.runtime_s is None else f' runtime="{task.runtime_s!r}"'
    head = f"  <job id={quoteattr(task.id)} name={quoteattr(task.name)}{version or ''}{runtime}>\n"
    parts = [head]
    if task.arguments:
        parts.append(_argument(workflow, task))
    parts += _profiles(task, path)
    for stream, index in (("stdin", task.stdin), ("stdout", task.stdout), ("stderr", task.stderr)):
        if index is not None:
            parts.append(f"    <{stream} name={quoteattr(workflow.files[index].name)}/>\n")
    parts += uses.of(task)
    parts.append("  </job>\n")
    return "".join(parts)


def _argument(workflow: Workflow, task: Task) -> str:
    """Quote words for a POSIX shell. A word that names a file of the task becomes a reference to
    it."""
    names = {workflow.files[index].name for index in (*task.inputs, *task.outputs)}
    words = [
        f"<file name={quoteattr(word)}/>"
        if word in names
        else escape(shlex.quote(word), {"\r": "&#13;"})
        for word in task.arguments
    ]
    return f"    <argument>{' '.join(words)}</argument>\n"


def _profiles(task: Task, path: str) -> Iterator[str]:
    for key, value in (task.env or {}).items():
        if key != key.strip() or value != value.strip():
            message = f"task {task.id}: white space around the environment variable {key}"
            raise _unsayable(path, message, "Remove it.")
        yield _profile("env", key, value)
    resources = task.resources
    if resources.cores != 1:
        yield _profile("pegasus", "cores", str(resources.cores))
    if resources.nodes != 1:
        yield _profile("pegasus", "nodes", str(resources.nodes))
    if resources.memory_bytes and resources.memory_bytes % _MEBIBYTE == 0:
        yield _profile("pegasus", "memory", str(resources.memory_bytes // _MEBIBYTE))
    elif resources.memory_bytes:
        megabytes = format(Decimal(resources.memory_bytes) / _MEBIBYTE, "f")
        yield _profile("condor", "request_memory", megabytes)
    if resources.gpus:
        yield _profile("pegasus", "gpus", str(resources.gpus))
    if resources.walltime_s is not None:
        yield _profile("pegasus", "maxwalltime", repr(_minutes(resources.walltime_s)))
    container = resources.container
    if container is not None:
        if container != Container(container.image):
            message = f"task {task.id}: a checksum or mounts of its container"
            raise _unsayable(path, message)
        yield _profile("condor", "container_image", container.image)
    if task.priority:
        yield _profile("pegasus", "priority", str(task.priority))


def _profile(namespace: str, key: str, value: str) -> str:
    text = escape(value, {"\r": "&#13;"})
    return f'    <profile namespace="{namespace}" key={quoteattr(key)}>{text}</profile>\n'


def _minutes(seconds: float) -> float:
    """A number of minutes for ``seconds``. Multiplied by 60 it gives exactly ``seconds`` if a
    floating point number can."""
    minutes = seconds / 60
    for guess in (minutes, math.nextafter(minutes, 0), math.nextafter(minutes, math.inf)):
        if guess * 60 == seconds:
            return guess
    return minutes


def _unsayable(path: str, message: str, hint: str | None = None) -> InvalidError:
    return InvalidError(f"cannot be written as DAX: {message}", source=path, hint=hint)
