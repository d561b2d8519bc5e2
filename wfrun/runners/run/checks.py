"""Checks of options, and of documents together with options and catalogs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from wfrun.engine.containers import container_fault
from wfrun.engine.errors import InvalidError
from wfrun.engine.events import Settings
from wfrun.engine.fit import check_moldable, check_storage, fits, site_mask
from wfrun.engine.model import Catalog, Resources, Task, Workflow
from wfrun.engine.policies.selection import selection_class
from wfrun.parsers.bags.line_template import LineTemplate
from wfrun.parsers.formats import may_be_commands, may_be_table
from wfrun.parsers.read import ReadDocument
from wfrun.parsers.yaml_document import read_yaml


def check_template(template: LineTemplate, paths: Sequence[Path]) -> None:
    """Raise InvalidError for a template that applies to none of the documents."""
    if template.command is not None:
        if not any(map(may_be_table, paths)):
            raise InvalidError(
                "--command is for the rows of tables, and no document is one",
                hint="The command of a YAML document stands in it. The names of tables end with "
                ".csv, .tsv or .txt.",
            )
    elif not any(map(may_be_commands, paths)):
        raise InvalidError(
            "--input, --output, --stdout and --estimate are for the rows of tables and for lists "
            "of commands, and no document is one",
            hint="In a YAML document they are keys. Tables need --command; the names of lists of "
            "commands end with .txt.",
        )


def container_warnings(workflow: Workflow, catalog: Catalog) -> list[str]:
    """Warnings for sites that cannot run the containers of a workflow, which others can."""
    tasks = workflow.tasks if workflow.bag is None else workflow.tasks[:1]
    containers = dict.fromkeys(task.resources.container for task in tasks)
    return [
        f"{workflow.source}: site {site.name} gets no task in the container {container.shown}: "
        f"{fault}"
        for container in containers
        if container is not None
        for site in catalog.sites
        if (fault := container_fault(container, site.environment))
    ]


def check_fits(
    read: ReadDocument, workflow: Workflow, catalog: Catalog, *, sized: bool = False
) -> None:
    """Raise InvalidError for a task that fits no site; of a bag or a parallel job, with the line of
    the request. ``sized``: moldable jobs may have any of their sizes, otherwise the smallest."""
    check_storage(workflow, catalog.sites)
    if workflow.bag is not None:
        _check_bag_fits(read, workflow.tasks[0], catalog)
        return
    moldable = workflow.moldable if sized else {}
    rigid = [t for n, t in enumerate(workflow.tasks) if n not in moldable]
    for task in {task.resources: task for task in reversed(rigid)}.values():
        with _at_line_of(read, task):
            site_mask(task, catalog.sites, workflow.source)
    for number in moldable:
        with _at_line_of(read, workflow.tasks[number]):
            check_moldable(workflow, number, catalog.sites)


@contextmanager
def _at_line_of(read: ReadDocument, task: Task) -> Iterator[None]:
    """Add the line of a parallel job to the error of a check."""
    try:
        yield
    except InvalidError as error:
        line = read.line(task.id)
        raise InvalidError(error.message, source=error.source, line=line, hint=error.hint) from None


def _check_bag_fits(read: ReadDocument, task: Task, catalog: Catalog) -> None:
    source = read.workflow.source
    try:
        site_mask(task, catalog.sites, source)
    except InvalidError as error:
        asked = task.resources
        alone = {
            "nodes": Resources(asked.nodes, nodes=asked.nodes),
            "cores": Resources(asked.cores, nodes=asked.nodes),
            "memory": Resources(memory_bytes=asked.memory_bytes),
            "gpus": Resources(gpus=asked.gpus),
            "walltime": Resources(walltime_s=asked.walltime_s),
            "container": Resources(container=asked.container),
        }
        blamed = [k for k, r in alone.items() if not any(fits(r, s) for s in catalog.sites)]
        asks = [key for key, request in alone.items() if request != Resources()]
        line = read.line((blamed or asks or ["command"])[0])
        raise InvalidError(error.message, source=source, line=line, hint=error.hint) from error


def with_selection(settings: Settings, workflows: Sequence[Workflow], catalog: Catalog) -> Settings:
    """Select bags one after another unless the settings name a selection policy.

    Raises InvalidError for an unknown selection policy, and for more replicas than cores.
    """
    if settings.selection:
        _check_selection(settings.selection)
    elif any(workflow.bag is not None for workflow in workflows):
        settings = msgspec.structs.replace(settings, selection="s-bot")
    if settings.replicas:
        _check_replicas(settings.replicas, workflows[0].source, catalog)
    return settings


def _check_selection(name: str) -> None:
    try:
        selection_class(name)
    except InvalidError as error:
        raise InvalidError(error.message, source="--selection", hint=error.hint) from error


def _check_replicas(replicas: int, document: str, catalog: Catalog) -> None:
    """Raise InvalidError for more replicas of a task than cores could run beside it."""
    cores = sum(site.slots for site in catalog.sites)
    if replicas < cores:
        return
    path = Path(catalog.source) if catalog.source is not None else None
    raise InvalidError(
        f"--replicas is {replicas}, but the sites have {cores} core{'s' * (cores != 1)} in all",
        source=document if path is None else str(path),
        line=read_yaml(path).line("sites") if path is not None and path.is_file() else None,
        hint=f"A task and its replicas hold at least a core each: at most {cores - 1} replicas.",
    )
