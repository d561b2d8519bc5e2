"""The stage *check* of a run: check documents against options and catalogs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.events import Settings
from wfrun.engine.explain.visible import name_line
from wfrun.engine.fitting.containers import container_fault
from wfrun.engine.fitting.fit import check_moldable, check_storage, fits, site_mask
from wfrun.engine.fitting.information import Knowledge
from wfrun.engine.model import Bag, Catalog, Resources, Task, Workflow
from wfrun.engine.protocols import Placement
from wfrun.parsers.read import ReadDocument
from wfrun.runners.run.prepare.deadlines import late_warning
from wfrun.runners.run.prepare.resolve import ResolvedDocument
from wfrun.runners.run.prepare.scavenging import check_bag

MAX_MISSING = 200
"""Maximum number of characters of a warning about missing files."""


class CheckedDocument(msgspec.Struct, frozen=True):
    """A document that can be run."""

    workflow: Workflow
    warnings: tuple[str, ...]


def check(
    found: ResolvedDocument,
    catalog: Catalog,
    settings: Settings,
    policy: type[Placement],
    *,
    as_jobs: bool,
    timed: bool,
    now_s: float | None,
) -> CheckedDocument:
    """Check the run times of a document, and that each task fits a site.

    ``as_jobs``: the tasks are parallel jobs of `wfrun jobs`, which `check_jobs` checks, too.
    ``timed``: each parallel job needs a run time. ``now_s``: see `late_warning`. Raises
    InvalidError if the document cannot be run, with the line if it is a bag or has parallel jobs.
    """
    read, workflow = found.read, found.workflow
    warnings = list(_check_runtimes(read, policy, settings))
    if found.fault is not None:
        warnings.append(f"{workflow.source}: {name_line(found.fault, MAX_MISSING)}")
    if as_jobs:
        from wfrun.runners.run.prepare.check_jobs import check_jobs, check_smallest

        check_jobs(read, settings, timed=timed)
        if settings.malleable:
            check_smallest(read, catalog)
    if settings.scavenge:
        check_bag(workflow, read.line("optional"))
    sized = settings.sizing is not None
    masks = _check_fits(read, workflow, catalog, sized=sized)
    if settings.place is not None and workflow.components:
        from wfrun.runners.run.prepare.check_jobs import check_claims

        check_claims(read, workflow, masks, catalog, settings)
    if workflow.moldable and not sized and not settings.malleable:
        warnings.append(_smallest(workflow))
    late = late_warning(workflow, catalog, now_s)
    if late is not None:
        line = read.line("optional")
        warnings.append(f"{workflow.source}{'' if line is None else f':{line}'}: {late}")
    return CheckedDocument(workflow, (*warnings, *_container_warnings(workflow, catalog)))


def _smallest(workflow: Workflow) -> str:
    """The warning that the moldable jobs of a run get their smallest sizes."""
    count = len(workflow.moldable)
    get = "job gets its smallest size" if count == 1 else "jobs get their smallest sizes"
    return f"{workflow.source}: {count} {get}; `wfrun jobs --size` chooses others"


def _container_warnings(workflow: Workflow, catalog: Catalog) -> list[str]:
    """Warnings for each container and each site that cannot run the container, and so gets no task
    that needs it."""
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


def _check_runtimes(
    read: ReadDocument, policy: type[Placement], settings: Settings
) -> Iterator[str]:
    """Yield the document's own warnings, and a warning if run times are unknown.

    Emulation and policies that plan with run times replace an unknown run time by a mean, or by 1 s
    if no run time is known. Raises InvalidError for a bag without an estimate if the policy plans
    with run times, and is ``ect`` or binds tasks late.
    """
    workflow = read.workflow
    source, bag, count = workflow.source, workflow.bag, len(workflow.tasks)
    for warning in workflow.warnings:
        yield warning if source in warning else f"{source}: {warning}"
    known = policy.information.task_runtime is Knowledge.KNOWN
    if bag is not None:
        unknown = count if bag.estimate is None else 0
    else:
        unknown = sum(1 for t in workflow.tasks if t.runtime_s is None)
    if not unknown or not (settings.emulate or known):
        return
    if bag is not None and not settings.emulate and (policy.binds_late or policy.name == "ect"):
        raise _no_estimate(read, bag, policy)
    user = "emulation" if settings.emulate else f"policy {settings.policy!r}"
    yield (
        f"{source}: {unknown} of {count} tasks have no run time; "
        f"{user} takes the mean of their kind, else of all, else 1 s"
    )


def _no_estimate(read: ReadDocument, bag: Bag, policy: type[Placement]) -> InvalidError:
    how = "Add estimate='90 s' (or a parameter, '{runtime}'), or take a"
    if read.format is not None:
        how = read.format.estimate_hint
    return InvalidError(
        f"the policy {policy.name!r} needs to know how long tasks take, and the bag "
        f"{bag.name!r} does not say",
        source=bag.source,
        line=read.line("estimate"),
        hint=f"{how} policy that needs none: `wfrun policies` lists them.",
    )


def _check_fits(
    read: ReadDocument, workflow: Workflow, catalog: Catalog, *, sized: bool
) -> dict[Resources, int]:
    """Raise InvalidError for a task that fits no site; the error of a bag or a parallel job has the
    line of the request. ``sized``: one size of a moldable job must fit, otherwise its smallest
    size.

    Returns, by resource request, the bit mask of the sites that it fits; empty for a bag, and
    without moldable jobs if ``sized``.
    """
    check_storage(workflow, catalog.sites)
    if workflow.bag is not None:
        _check_bag_fits(read, workflow.tasks[0], catalog)
        return {}
    moldable = workflow.moldable if sized else {}
    rigid = [t for n, t in enumerate(workflow.tasks) if n not in moldable]
    masks: dict[Resources, int] = {}
    for task in {task.resources: task for task in reversed(rigid)}.values():
        with _at_line_of(read, task):
            masks[task.resources] = site_mask(task, catalog.sites, workflow.source)
    for number in moldable:
        with _at_line_of(read, workflow.tasks[number]):
            check_moldable(workflow, number, catalog.sites)
    return masks


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
