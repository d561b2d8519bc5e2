"""From documents and options to a run that can start: everything that can be wrong with the
user's input is found here, before anything is started."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from wfrun.engine.capabilities.placements import expected_runtimes_s
from wfrun.engine.errors import InvalidError
from wfrun.engine.events import Settings
from wfrun.engine.fit import site_mask
from wfrun.engine.model import (
    Catalog,
    File,
    LinkSpec,
    SiteSpec,
    Task,
    Workflow,
)
from wfrun.engine.policies.placement import placement_class, placement_options
from wfrun.parsers.bags.commands import LineTemplate
from wfrun.parsers.workflows.read import read_workflows
from wfrun.runners.run.check_bags import (
    check_estimates,
    check_fits,
    check_template,
    with_selection,
)
from wfrun.runners.run.prepare_bag import local_path, scaled, with_files

SHOWN = 20
"""Of a long list of missing things, so many are named."""


class Plan(msgspec.Struct, frozen=True):
    """What is going to be run, checked."""

    workflows: list[Workflow]
    catalog: Catalog
    settings: Settings
    warnings: tuple[str, ...]


def this_machine() -> Catalog:
    """The catalog of a run without ``--sites``: one local site with all cores."""
    slots = len(os.sched_getaffinity(0))
    return Catalog((SiteSpec("local", slots=slots),))


def prepare(
    documents: Sequence[Path | Workflow],
    catalog: Catalog,
    settings: Settings,
    *,
    inputs: Path | None = None,
    at_sites: bool = False,
    template: LineTemplate | None = None,
) -> Plan:
    """Read and check. ``at_sites``: emulated tasks run at the catalog's clusters, not at stand-ins
    on this machine. ``template``: for tables and lists of commands. Raises InvalidError for the
    first document that is wrong, for all missing inputs and for all missing executables of a
    document together, for a task that fits no site, and for settings that don't go together."""
    policy = placement_class(settings.policy)
    placement_options(policy, settings.policy_options)
    if not documents:
        raise InvalidError("there is no workflow to run")
    if settings.emulate and not at_sites:
        catalog = msgspec.structs.replace(
            catalog, sites=tuple(map(_on_this_machine, catalog.sites))
        )
    workflows: list[Workflow] = []
    warnings: list[str] = []
    for workflow, folder in _read(documents, settings, template):
        source = workflow.source
        warnings += [w if source in w else f"{source}: {w}" for w in workflow.warnings]
        check_estimates(workflow, policy, settings)
        _warn_of_runtimes(workflow, settings, policy.information.task_runtime.value, warnings)
        places = [p for p in (inputs, folder) if p is not None]
        clusters = any(site.access is not None for site in catalog.sites)
        if workflow.bag is not None:
            workflow = (
                scaled(workflow, settings)
                if settings.emulate
                else with_files(workflow, places, folder, clusters=clusters)
            )
        elif settings.emulate:
            workflow = _scaled(workflow, settings)
        else:
            workflow = _with_inputs(workflow, places, folder)
            workflow = _with_executables(workflow, folder, clusters=clusters)
        _check_fits(workflow, catalog)
        workflows.append(workflow)
    settings = with_selection(settings, workflows, catalog)
    if settings.emulate:
        catalog = _scaled_links(catalog, settings.time_scale)
    return Plan(workflows, catalog, settings, tuple(warnings))


def _read(
    documents: Sequence[Path | Workflow], settings: Settings, template: LineTemplate | None
) -> Iterator[tuple[Workflow, Path]]:
    """All workflows and bags of the documents, with the folders that their files are in."""
    if template is not None:
        check_template(template, [d for d in documents if not isinstance(d, Workflow)])
    for document in documents:
        if isinstance(document, Workflow):
            yield document, Path()
            continue
        for workflow in read_workflows(document, emulate=settings.emulate, template=template):
            yield workflow, document.parent


def _check_fits(workflow: Workflow, catalog: Catalog) -> None:
    """Each task fits a site, and no output takes the place of another. The names of a bag's were
    checked when it was made."""
    if workflow.bag is not None:
        check_fits(workflow.bag, workflow.tasks[0], catalog)
        return
    _check_outputs(workflow)
    for task in {task.resources: task for task in reversed(workflow.tasks)}.values():
        site_mask(task, catalog.sites, workflow.source)


def _warn_of_runtimes(
    workflow: Workflow, settings: Settings, knowledge: str, warnings: list[str]
) -> None:
    bag, count = workflow.bag, len(workflow.tasks)
    if bag is not None:
        unknown = count if bag.estimate is None else 0
    else:
        unknown = sum(1 for t in workflow.tasks if t.runtime_s is None)
    if unknown and (settings.emulate or knowledge == "K"):
        user = "emulation" if settings.emulate else f"policy {settings.policy!r}"
        warnings.append(
            f"{workflow.source}: {unknown} of {count} tasks have no run time; "
            f"{user} takes the mean of their kind, else of all, else 1 s"
        )


# Emulation


def _on_this_machine(site: SiteSpec) -> SiteSpec:
    """A cluster is emulated by a local site of its size."""
    if site.access is None:
        return site
    return msgspec.structs.replace(site, access=None, directory=None, kind="local")


def _scaled(workflow: Workflow, settings: Settings) -> Workflow:
    """Run times and sizes as they are going to be. Walltimes are left out: an emulated task takes
    its documented time."""
    runtimes_s = expected_runtimes_s(workflow)
    replace = msgspec.structs.replace
    unlimited = {t.resources: replace(t.resources, walltime_s=None) for t in workflow.tasks}
    return replace(
        workflow,
        tasks=[
            replace(
                task,
                runtime_s=runtime_s * settings.time_scale,
                resources=unlimited[task.resources],
            )
            for task, runtime_s in zip(workflow.tasks, runtimes_s, strict=True)
        ],
        files=[
            replace(f, size_bytes=round((f.size_bytes or 0) * settings.size_scale))
            for f in workflow.files
        ],
    )


def _scaled_links(catalog: Catalog, scale: float) -> Catalog:
    """Transfers shrink with the time scale, as run times do."""

    def scaled(link: LinkSpec) -> LinkSpec:
        bandwidth = link.bandwidth_bytes_per_s
        if bandwidth is not None:
            bandwidth = bandwidth / scale if scale > 0 else None
        return msgspec.structs.replace(
            link, bandwidth_bytes_per_s=bandwidth, latency_s=link.latency_s * scale
        )

    return msgspec.structs.replace(catalog, links=tuple(scaled(link) for link in catalog.links))


# Inputs


def _with_inputs(workflow: Workflow, places: Sequence[Path], folder: Path) -> Workflow:
    """Initial inputs get the absolute path where they were found and their true size. Optional
    ones that are absent are dropped from their tasks."""
    required, optional = _initial_inputs(workflow.tasks, workflow.files)
    files = list(workflow.files)
    missing = []
    for index in sorted(required | optional):
        file = files[index]
        found = _locate(file, places, folder)
        if found is not None:
            size_bytes = found.stat().st_size
            files[index] = msgspec.structs.replace(file, url=str(found), size_bytes=size_bytes)
            optional.discard(index)
        elif index in required:
            missing.append(file)
    if missing:
        raise InvalidError(
            f"{len(missing)} input files are missing: {_some(f.name for f in missing)}"
            if len(missing) > 1
            else f"the input file {missing[0].name!r} is missing",
            source=workflow.source,
            hint=f"looked for {_looked(missing[0])}in "
            + " and ".join(str(p.absolute()) for p in places)
            + "; --inputs DIR names another place, and --emulate needs no input files",
        )
    tasks = [_without_inputs(task, optional - required) for task in workflow.tasks]
    return msgspec.structs.replace(workflow, files=files, tasks=tasks)


def _looked(file: File) -> str:
    return f"{file.url} and " if file.url else ""


def _initial_inputs(tasks: Sequence[Task], files: Sequence[File]) -> tuple[set[int], set[int]]:
    """The files that tasks need and nobody writes: (required by some task, optional for some)."""
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
    return msgspec.structs.replace(task, inputs=tuple(i for i in task.inputs if i not in absent))


def _locate(file: File, places: Sequence[Path], folder: Path) -> Path | None:
    """An initial input: where the document's catalog says, else by its name in ``places``."""
    candidates = [place / file.name for place in places]
    if file.url is not None:
        path = local_path(file.url)
        if path is not None:
            candidates.insert(0, folder / path)
    return next((c.absolute() for c in candidates if c.exists()), None)


# Outputs


def _check_outputs(workflow: Workflow) -> None:
    """Final outputs have to fit into one folder: the one that comes last would else replace the
    other."""
    names = {file.name: file for file in workflow.files if file.collect}
    for name, file in names.items():
        for end in (index for index, letter in enumerate(name) if letter == "/"):
            folder = names.get(name[:end])
            if folder is None:
                continue
            assert folder.producer is not None
            assert file.producer is not None
            raise InvalidError(
                f"{folder.name!r} is an output of task {workflow.tasks[folder.producer].id} and "
                f"also the folder of {name!r}, an output of task "
                f"{workflow.tasks[file.producer].id}",
                source=workflow.source,
                hint="the two can't be kept in one place: rename one of them",
            )


# Executables


def _with_executables(workflow: Workflow, folder: Path, *, clusters: bool) -> Workflow:
    """Relative paths become absolute, and every executable is there; InvalidError names those
    that are not.

    With clusters among the sites, programs are looked for there, when a task starts. A
    relative path, or one in the document's folder, is one of its own files: it comes along as an
    input.
    """
    resolved: dict[tuple[str, str | None], str | None] = {}
    missing: dict[str, list[Task]] = {}
    carried: dict[str, int] = {}
    files = list(workflow.files)
    tasks = []
    for task in workflow.tasks:
        path = (task.env or {}).get("PATH")
        key = (task.executable, path)
        if key not in resolved:
            resolved[key] = _resolve(task.executable, path, folder, clusters=clusters)
        executable = resolved[key]
        if executable is None:
            missing.setdefault(task.executable, []).append(task)
        elif clusters and os.path.isabs(executable) and _is_own(task.executable, folder):
            task = _carry(task, executable, carried, files)
        elif executable != task.executable:
            task = msgspec.structs.replace(task, executable=executable)
        tasks.append(task)
    if missing:
        lines = [
            f"{name} (task {users[0].id}" + (f" and {len(users) - 1} more)" if users[1:] else ")")
            for name, users in missing.items()
        ]
        raise InvalidError(
            f"{len(lines)} executables are not found: {_some(lines)}"
            if len(lines) > 1
            else f"the executable {lines[0]} is not found",
            source=workflow.source,
            hint="install it, name its path in the document's transformation catalog, or run "
            "with --emulate to replace each task by one that takes its run time",
        )
    return msgspec.structs.replace(workflow, tasks=tasks, files=files)


def _carry(task: Task, executable: str, carried: dict[str, int], files: list[File]) -> Task:
    """The task with its program as one more input, a file of its own folder in the sandbox."""
    if executable not in carried:
        carried[executable] = len(files)
        name = f".wfrun-{len(carried)}/{os.path.basename(executable)}"
        size_bytes = os.stat(executable).st_size
        files.append(File(name, size_bytes, url=executable, executable=True))
    file = carried[executable]
    return msgspec.structs.replace(
        task, executable=f"./{files[file].name}", inputs=(*task.inputs, file)
    )


def _resolve(executable: str, path: str | None, folder: Path, *, clusters: bool) -> str | None:
    """What to put into argv[0]; None where there is no such program."""
    if executable.startswith("./"):
        return executable  # comes with the task's inputs
    if clusters and not _is_own(executable, folder):
        return executable
    if "/" not in executable:
        return executable if shutil.which(executable, path=path) else None
    absolute = (folder / executable).absolute()
    return str(absolute) if os.access(absolute, os.X_OK) and absolute.is_file() else None


def _is_own(executable: str, folder: Path) -> bool:
    """Whether it is a file of the document's: a relative path, or one in the document's folder."""
    if os.path.isabs(executable):
        return Path(os.path.normpath(executable)).is_relative_to(folder.absolute())
    return "/" in executable


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more
