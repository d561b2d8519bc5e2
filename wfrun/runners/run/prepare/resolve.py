"""The stage *resolve* of a run: find the files and programs that a document names, or scale the
document for emulation."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from wfrun.engine.errors import InvalidError
from wfrun.engine.events import Settings
from wfrun.engine.model import Catalog, File, Task, Workflow
from wfrun.parsers.input_catalog.entries import InputCatalog
from wfrun.parsers.read import ReadDocument
from wfrun.runners.run.files.images import with_images
from wfrun.runners.run.files.input_places import InputPlaces
from wfrun.runners.run.files.located import (
    find_locked,
    in_path,
    is_inside,
    is_program,
    locked_program,
    some,
)
from wfrun.runners.run.prepare.prepare_bag import with_files
from wfrun.runners.run.prepare.scaling import scaled


class ResolvedDocument(msgspec.Struct, frozen=True):
    """A document whose files and programs are found."""

    read: ReadDocument
    """The document as it is written, with the run times that it states."""
    workflow: Workflow
    fault: str | None = None
    """Message about missing files, if the run does not need files; the workflow is then as written.
    None: no file is missing."""


def resolve(
    read: ReadDocument,
    catalog: Catalog,
    settings: Settings,
    inputs: Path | None,
    input_catalog: InputCatalog | None = None,
    *,
    needs_files: bool = True,
) -> ResolvedDocument:
    """Find the input files and programs of a document, or scale the document for emulation.
    ``inputs`` is searched before the document's folder.

    Raises InvalidError if files are missing, or outputs cannot be kept in one folder. If
    ``needs_files`` is False, returns the error's message as ``fault`` instead.
    """
    try:
        return ResolvedDocument(read, _found(read, catalog, settings, inputs, input_catalog))
    except InvalidError as error:
        if needs_files:
            raise
        return ResolvedDocument(read, read.workflow, error.message)


def _found(
    read: ReadDocument,
    catalog: Catalog,
    settings: Settings,
    inputs: Path | None,
    input_catalog: InputCatalog | None,
) -> Workflow:
    workflow, folder = read.workflow, read.folder
    if workflow.bag is None and (read.format is None or read.format.holds == "workflow"):
        _check_outputs(workflow)  # The outputs of each parallel job have a folder of their own.
    if settings.emulate:
        return scaled(workflow, settings)
    places = [place for place in (inputs, folder) if place is not None]
    remote_sites = any(site.access is not None for site in catalog.sites)
    # A site that sets up an environment may have programs that this process does not see.
    at_sites = remote_sites or any(site.environment is not None for site in catalog.sites)
    if workflow.bag is not None:
        return with_files(read, places, at_sites=at_sites, remote_sites=remote_sites)
    found = InputPlaces(places, folder, catalog, settings, input_catalog)
    workflow = _with_inputs(workflow, found)
    workflow = _with_executables(workflow, folder, at_sites=at_sites)
    return with_images(workflow, places, remote_sites=remote_sites)


def _check_outputs(workflow: Workflow) -> None:
    """Raise InvalidError if a final output has the name of a folder that contains another final
    output.

    All final outputs are collected into one folder, where one of the two would replace the other.
    """
    names = {file.url or file.name: file for file in workflow.files if file.collect}
    for name, file in names.items():
        for end in (index for index, letter in enumerate(name) if letter == "/"):
            folder = names.get(name[:end])
            if folder is None:
                continue
            assert folder.producer is not None
            assert file.producer is not None
            raise InvalidError(
                f"{name[:end]!r} is an output of task {workflow.tasks[folder.producer].id} and "
                f"also the folder of {name!r}, an output of task "
                f"{workflow.tasks[file.producer].id}",
                source=workflow.source,
                hint="the two cannot be kept in one place: rename one of them",
            )


def _with_inputs(workflow: Workflow, places: InputPlaces) -> Workflow:
    """Set the locations of initial inputs, and the actual sizes of inputs on this machine.

    Optional inputs that are absent are removed from their tasks. Raises one InvalidError for all
    required inputs that are missing, and for required inputs at URLs that may not be fetched.
    """
    required, optional = _initial_inputs(workflow.tasks, workflow.files)
    files = list(workflow.files)
    for index in sorted(required | optional):
        found = places.locate(files[index], required=index in required)
        if found is not None:
            files[index] = found
            optional.discard(index)
    places.check(workflow.source)
    tasks = [_without_inputs(task, optional - required) for task in workflow.tasks]
    return replace(workflow, files=files, tasks=tasks)


def _initial_inputs(tasks: Sequence[Task], files: Sequence[File]) -> tuple[set[int], set[int]]:
    """The files that no task writes: (files required by some task, files optional for some
    task)."""
    required: set[int] = set()
    optional: set[int] = set()
    for task in tasks:
        for index in task.inputs:
            if files[index].producer is None:
                (optional if index in task.optional else required).add(index)
    return required, optional


def _without_inputs(task: Task, absent: set[int]) -> Task:
    if not absent or absent.isdisjoint(task.inputs):
        return task
    return replace(task, inputs=tuple(i for i in task.inputs if i not in absent))


def _with_executables(workflow: Workflow, folder: Path, *, at_sites: bool) -> Workflow:
    """Make relative paths of executables absolute. Raises one InvalidError for all missing
    executables.

    If ``at_sites`` is set or a task has a container, its executable is looked up at the site when
    the task starts. But an executable that belongs to the document (see `_is_own`) becomes an
    input.
    """
    resolved: dict[tuple[str, str | None, bool], str | None] = {}
    missing: dict[str, list[Task]] = {}
    carried: dict[str, int] = {}
    files = list(workflow.files)
    tasks = []
    for task in workflow.tasks:
        path = (task.env or {}).get("PATH")
        elsewhere = at_sites or task.resources.container is not None
        key = (task.executable, path, elsewhere)
        if key not in resolved:
            resolved[key] = _resolve(task.executable, path, folder, elsewhere=elsewhere)
        executable = resolved[key]
        if executable is None:
            missing.setdefault(task.executable, []).append(task)
        elif elsewhere and os.path.isabs(executable) and _is_own(task.executable, folder):
            task = _carry(task, executable, carried, files)
        elif executable != task.executable:
            task = replace(task, executable=executable)
        tasks.append(task)
    if missing:
        raise _missing_executables(missing, workflow.source, folder)
    return replace(workflow, tasks=tasks, files=files)


def _missing_executables(missing: dict[str, list[Task]], source: str, folder: Path) -> InvalidError:
    for name, users in missing.items():
        path = (users[0].env or {}).get("PATH")
        locked = find_locked([folder / name] if "/" in name else in_path(name, path))
        if locked is not None:
            return locked_program(locked.absolute(), source)
    lines = [
        f"{name} (task {users[0].id}" + (f" and {len(users) - 1} more)" if users[1:] else ")")
        for name, users in missing.items()
    ]
    return InvalidError(
        f"{len(lines)} executables are not found: {some(lines)}"
        if len(lines) > 1
        else f"the executable {lines[0]} is not found",
        source=source,
        hint="install it, name its path in the document's transformation catalog, or run "
        "with --emulate to replace each task by one that takes its run time",
    )


def _carry(task: Task, executable: str, carried: dict[str, int], files: list[File]) -> Task:
    """Add the program to the inputs of a task, in a folder of its own in the sandbox."""
    if executable not in carried:
        carried[executable] = len(files)
        name = f".wfrun-{len(carried)}/{os.path.basename(executable)}"
        size_bytes = os.stat(executable).st_size
        files.append(File(name, size_bytes, url=executable, executable=True))
    file = carried[executable]
    return replace(task, executable=f"./{files[file].name}", inputs=(*task.inputs, file))


def _resolve(executable: str, path: str | None, folder: Path, *, elsewhere: bool) -> str | None:
    """The executable as the task's argv[0]; None if there is no such program."""
    if executable.startswith("./"):
        return executable  # one of the task's inputs
    if elsewhere and not _is_own(executable, folder):
        return executable
    if "/" not in executable:
        return executable if shutil.which(executable, path=path) else None
    absolute = (folder / executable).absolute()
    return str(absolute) if is_program(absolute) else None


def _is_own(executable: str, folder: Path) -> bool:
    """Whether a program belongs to the document: its path is relative and has a slash, or is
    absolute and inside the document's folder."""
    return is_inside(executable, folder) if os.path.isabs(executable) else "/" in executable
