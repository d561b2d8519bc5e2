"""The steps of `wfrun jobs --pack` before `prepare`: choose a size for each job, the order of the
jobs, and the site and the allocation in which they run.

The order is stored as priorities of the tasks. So the workflow contains the whole plan, and a
resume needs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from wfrun.engine.core.state import RunState
from wfrun.engine.errors import InvalidError
from wfrun.engine.jobs.packing import (
    PACKERS,
    Dual,
    PackedJob,
    PackedSchedule,
    Packing,
    dual_approximation,
    list_schedule,
    list_starts,
)
from wfrun.engine.jobs.sized import sized_words
from wfrun.engine.model import Access, Catalog, LauncherSpec, LinkSpec, SiteSpec, Workflow
from wfrun.parsers.read import ReadDocument

MIN_WALLTIME_S = 300.0
"""Minimum walltime of an allocation in seconds."""
WALLTIME_RATIO = 2.0
"""Ratio of the requested walltime of an allocation to its planned time, because jobs may run longer
than planned."""


class PackedPlan(NamedTuple):
    """A plan that packs jobs into an allocation."""

    jobs: list[PackedJob]
    processors: int
    dual: Dual
    packing: Packing
    schedule: PackedSchedule


def packed_jobs(
    read: ReadDocument, processors: int, per_node: int | None = None
) -> list[PackedJob]:
    """Return the jobs of a document, each with those of its sizes that fit into an allocation of
    ``processors``. Each node of the allocation has ``per_node`` processors; None: the allocation is
    one node. Raises InvalidError, with the line, if a job has no run time, or none of its sizes
    fits."""
    return [
        _packed_job(read, number, processors, per_node or processors)
        for number in range(len(read.workflow.tasks))
    ]


def _packed_job(read: ReadDocument, number: int, processors: int, per_node: int) -> PackedJob:
    workflow = read.workflow
    task = workflow.tasks[number]
    if task.runtime_s is None:
        raise InvalidError(
            f"the job {task.id!r} has neither a walltime nor a runtime",
            source=workflow.source,
            line=read.line(task.id),
            hint="A packed job takes its runtime, else its walltime; with several sizes, that of "
            "each.",
        )
    moldable = workflow.moldable.get(number)
    sizes: tuple[int, ...]
    times_s: tuple[float, ...]
    if moldable is None:
        sizes, times_s = (task.resources.cores,), (task.runtime_s,)
        widths = [task.resources.cores // task.resources.nodes]
    else:
        factor = task.runtime_s / moldable.walltimes_s[0]
        sizes, times_s = moldable.sizes, tuple(factor * w for w in moldable.walltimes_s)
        widths = [size if moldable.ppn is None else min(size, moldable.ppn) for size in sizes]
    fitting = [
        place
        for place, (size, width) in enumerate(zip(sizes, widths, strict=True))
        if size <= processors and width <= per_node
    ]
    if not fitting:
        narrow = "" if per_node == processors else f", {per_node} on each node"
        raise InvalidError(
            f"the job {task.id!r} needs at least {sizes[0]} processors, the allocation has "
            f"{processors}{narrow}",
            source=workflow.source,
            line=read.line(task.id),
            hint="Offer it smaller sizes, or give more --processors.",
        )
    return PackedJob(
        [sizes[place] for place in fitting],
        [times_s[place] for place in fitting],
        workflow.weights.get(number, 1.0),
    )


def plan_packing(
    jobs: Sequence[PackedJob], processors: int, algorithm: str, seed: int
) -> PackedPlan:
    """Pack jobs by ``algorithm``, a key of `PACKERS`."""
    dual = dual_approximation(jobs, processors)
    packing = PACKERS[algorithm](jobs, processors, dual, seed)
    schedule = list_schedule(jobs, packing, processors)
    return PackedPlan(list(jobs), processors, dual, packing, schedule)


def packed_workflow(workflow: Workflow, plan: PackedPlan) -> Workflow:
    """The workflow with the sizes, the order (as priorities) and the run times of a plan."""
    rank = {number: place for place, number in enumerate(plan.packing.order)}
    tasks = list(workflow.tasks)
    for number, task in enumerate(tasks):
        asked, words = task.resources, (task.executable, *task.arguments)
        if number in workflow.moldable:
            asked = workflow.sized(number, plan.schedule.sizes[number])
            words = sized_words(words, task.id, asked.cores, asked.nodes)
        tasks[number] = replace(
            task,
            executable=words[0],
            arguments=words[1:],
            resources=asked,
            runtime_s=plan.schedule.times_s[number],
            priority=len(tasks) - rank[number],
        )
    return replace(workflow, tasks=tasks, moldable={})


def planned_schedule(state: RunState) -> PackedSchedule | None:
    """The planned schedule of a run with packed jobs, computed from its workflow at the speed of
    its site. None: the run does not pack jobs."""
    if state.settings.pack is None or state.settings.pack_processors is None:
        return None
    tasks = state.workflows[0].workflow.tasks
    speed_ratio = state.sites[0].spec.speed_ratio
    order = sorted(range(len(tasks)), key=lambda number: -tasks[number].priority)
    times_s = [(task.runtime_s or 0.0) / speed_ratio for task in tasks]
    return list_starts(
        order, [task.resources.cores for task in tasks], times_s, state.settings.pack_processors
    )


class PackedAllocation(NamedTuple):
    """Processors at a site that jobs can be packed into."""

    site: SiteSpec
    processors: int
    per_node: int


def allocations(catalog: Catalog, processors: int | None) -> list[PackedAllocation]:
    """The allocation that each site offers: ``processors``, or, if None, as many as the site's
    launcher has, or all slots of a site without launchers. At a site with launchers the nodes of
    the allocation are as wide as those of a launcher. Leaves out sites that cannot offer the
    allocation. Raises InvalidError if no site can."""
    found = [a for site in catalog.sites if (a := _allocation(site, processors)) is not None]
    if not found:
        most = max(site.slots for site in catalog.sites)
        raise InvalidError(
            f"no site has an allocation of {processors} processors; the largest has {most}",
            source=catalog.source,
            hint="give fewer --processors, a multiple of those of a node, or raise 'slots'",
        )
    return found


def _allocation(site: SiteSpec, processors: int | None) -> PackedAllocation | None:
    access = site.access
    spec = access.launchers if access is not None and access.dispatch == "launchers" else None
    width = processors or (site.slots if spec is None else spec.cores * spec.nodes)
    per_node = width if spec is None else min(width, spec.cores)
    if width > site.slots or width % per_node:
        return None
    return PackedAllocation(site, width, per_node)


def choose_allocation(
    offers: Sequence[PackedAllocation], plan: Callable[[PackedAllocation], PackedPlan]
) -> tuple[PackedAllocation, PackedPlan]:
    """Return the allocation whose plan ends first, ignoring waits in queues, and its plan. Raises
    InvalidError, with the problem of the first allocation, if no allocation can run the jobs."""
    best: tuple[float, PackedAllocation, PackedPlan] | None = None
    first: InvalidError | None = None
    for offer in offers:
        try:
            found = plan(offer)
            end_s = found.schedule.makespan_s / offer.site.speed_ratio
            _check_time(offer, end_s)
        except InvalidError as error:
            first = first or error
            continue
        if best is None or end_s < best[0]:
            best = end_s, offer, found
    if best is None:
        assert first is not None, "there is a site"
        raise first
    return best[1], best[2]


def _check_time(offer: PackedAllocation, end_s: float) -> None:
    """Raise InvalidError if a plan takes longer than the walltime limit of the site's batch
    system."""
    limit_s = offer.site.walltime_s
    if offer.site.has_batch_system and limit_s is not None and end_s > limit_s:
        raise InvalidError(
            f"the jobs take {end_s:,.0f} s on {offer.processors} processors, and {offer.site.name} "
            f"allows an allocation for {limit_s:,.0f} s",
            hint="give more --processors, or pack fewer jobs",
        )


def packed_catalog(catalog: Catalog, offer: PackedAllocation, end_s: float) -> Catalog:
    """Return the catalog with only the site of an allocation. A cluster gets one launcher of the
    size of the allocation, whose walltime is derived from ``end_s``, the planned time in
    seconds."""
    site = replace(offer.site, slots=offer.processors)
    access = site.access
    if access is not None and site.has_batch_system:
        site = replace(site, access=_one_launcher(access, offer, end_s))
    return replace(catalog, sites=(site,), links=_links(catalog, site.name))


def _one_launcher(access: Access, offer: PackedAllocation, end_s: float) -> Access:
    nodes = offer.processors // offer.per_node
    spec = access.launchers or LauncherSpec(cores=offer.per_node)
    walltime_s = max(MIN_WALLTIME_S, WALLTIME_RATIO * end_s)
    if offer.site.walltime_s is not None:
        walltime_s = min(walltime_s, offer.site.walltime_s)
    spec = msgspec.structs.replace(
        spec, cores=offer.per_node, nodes=nodes, min=1, max=1, backlog=1, walltime_s=walltime_s
    )
    return replace(access, dispatch="launchers", launchers=spec)


def _links(catalog: Catalog, site: str) -> tuple[LinkSpec, ...]:
    ends = {site, "origin"}
    return tuple(link for link in catalog.links if {link.source, link.destination} <= ends)
