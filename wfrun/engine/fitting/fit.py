"""Match of the resource requests of tasks with what sites offer: which sites could ever run a
task."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import inf

import msgspec

from wfrun.engine.core.state import RunState, WorkflowState
from wfrun.engine.errors import InvalidError
from wfrun.engine.fitting.containers import container_fault
from wfrun.engine.fitting.sizes import size_text
from wfrun.engine.jobs.sized import Growth, at_speed
from wfrun.engine.model import LauncherSpec, Resources, SiteSpec, Task, Workflow
from wfrun.engine.tasks.eligible import TaskClass


def classify(state: RunState, w: WorkflowState, *, required: bool = True) -> None:
    """Group the tasks of a workflow by their resource requests. If ``required``, raises
    InvalidError for a request or files that fit no site."""
    if required:
        check_storage(w.workflow, [s.spec for s in state.sites], state.queue_sites(w))
    classes: dict[Resources, int] = {}
    numbers = array("I")
    specs = [s.spec for s in state.sites]
    allowed = state.queue_sites(w)
    if w.workflow.bag is not None:
        w.resource_class = bytes(len(w.workflow.tasks))
        _add_class(state, w, w.workflow.tasks[0], specs, allowed, required)
        return
    last: Resources | None = None
    number: int | None = None
    # Without a search of sizes each job has its smallest one.
    moldable = w.workflow.moldable if state.settings.sizing else {}
    for index, task in enumerate(w.workflow.tasks):
        if (
            task.resources is not last or number is None
        ):  # Tasks with equal requests often share the object.
            last = task.resources
            number = classes.get(last)
        if number is None:
            number = classes[task.resources] = len(classes)
            _add_class(state, w, task, specs, allowed, required and index not in moldable)
        numbers.append(number)
    w.resource_class = numbers
    for index in moldable:
        w.masks[index] = allowed & _admitting(w.workflow, index, specs)


def _add_class(
    state: RunState,
    w: WorkflowState,
    task: Task,
    specs: Sequence[SiteSpec],
    allowed: int,
    required: bool,
) -> None:
    fitting = state.fitting.get(task.resources)
    if fitting is None or not fitting & allowed:
        if required:
            site_mask(task, specs, w.workflow.source, allowed)
        fitting = state.fitting[task.resources] = _fitting(task.resources, specs)
    mask = fitting & allowed
    w.class_masks.append(mask)
    w.task_classes.append(TaskClass(mask, task.resources.cores))
    state.openings_for(task.resources.cores)


def site_mask(task: Task, sites: Sequence[SiteSpec], source: str, allowed: int = -1) -> int:
    """The sites in the mask ``allowed`` that could ever run a task, as a mask.

    Raises InvalidError, which names the document ``source``, if there is no such site, or if the
    cores of the task cannot be spread evenly over its nodes.
    """
    cores, nodes = task.resources.cores, task.resources.nodes
    if nodes < 1 or cores % nodes:
        raise InvalidError(
            f"task {task.id!r} asks for {cores} cores on {nodes} nodes",
            source=source,
            hint="The cores are those of all nodes together, on each the same number.",
        )
    mask = allowed & _fitting(task.resources, sites)
    if mask == 0:
        raise InvalidError(
            f"task {task.id!r} fits no site: it asks for {_request(task.resources)}",
            source=source,
            hint="the sites offer "
            + "; ".join(
                f"{site.name}: {_offer(site, task.resources)}"
                for i, site in enumerate(sites)
                if allowed >> i & 1
            )
            + _narrower(task.resources, [s for i, s in enumerate(sites) if allowed >> i & 1]),
        )
    return mask


def check_moldable(workflow: Workflow, task: int, sites: Sequence[SiteSpec]) -> None:
    """Raise InvalidError for a moldable job none of whose sizes fits a site."""
    if _admitting(workflow, task, sites):
        return
    sizes = workflow.moldable[task].sizes
    smallest, largest = (workflow.sized(task, size) for size in (sizes[0], sizes[-1]))
    raise InvalidError(
        f"the job {workflow.tasks[task].id!r} fits no site with any of its sizes: with the "
        f"smallest it asks for {_request(smallest)}, with the largest for {_request(largest)}",
        source=workflow.source,
        hint="the sites offer " + "; ".join(f"{s.name}: {_offer(s, smallest)}" for s in sites),
    )


def _admitting(workflow: Workflow, task: int, sites: Sequence[SiteSpec]) -> int:
    return sum(1 << i for i, site in enumerate(sites) if admitted_sizes(workflow, task, site))


def admitted_sizes(
    workflow: Workflow,
    task: int,
    site: SiteSpec,
    growth: Growth = Growth(),  # noqa: B008
) -> tuple[int, ...]:
    """The sizes of a moldable job that fit a site, ascending. Small sizes may be missing, since
    they may need too much time there. ``growth``: growth of the request by retries. Cost: the
    logarithm of the number of sizes, and the result."""
    moldable = workflow.moldable[task]
    sizes, walltimes_s, nodes = moldable.sizes, moldable.walltimes_s, most_nodes(site)
    most = site.slots
    if nodes is not None and moldable.ppn is not None:
        most = min(most, nodes * moldable.ppn)
    if site.node_cores is not None and (moldable.ppn or inf) > site.node_cores:
        most = min(most, site.node_cores)  # Larger sizes have all their processes, or ppn, a node.
    granted_s = granted_walltime_s(site, workflow.tasks[task].resources)
    most_s = granted_s / growth.walltimes if growth.walltimes else inf
    first = bisect_left(walltimes_s, -most_s, key=lambda s: -s)
    found = sizes[first : bisect_right(sizes, most)]
    if not found:
        return ()
    asked = workflow.sized(task, found[0])
    memory_bytes = max(asked.memory_bytes, growth.memory_bytes)
    asked = msgspec.structs.replace(asked, walltime_s=None, memory_bytes=memory_bytes)
    return found if fits(asked, site) else ()


def greatest_growth(workflow: Workflow, task: int, site: SiteSpec, growth: Growth) -> float:
    """Return the maximum factor on the walltimes of a moldable job with which a site still admits a
    size of the job; 0 if the site admits no size."""
    sizes = admitted_sizes(workflow, task, site, growth._replace(walltimes=0.0))
    if not sizes:
        return 0.0
    moldable = workflow.moldable[task]
    shortest_s = moldable.walltimes_s[moldable.sizes.index(sizes[-1])]
    most = granted_walltime_s(site, workflow.tasks[task].resources) / shortest_s
    return most * (1 - 1e-12)  # The product with the walltime must not be rounded above the limit.


def check_storage(workflow: Workflow, sites: Sequence[SiteSpec], allowed: int = -1) -> None:
    """Raise InvalidError for a task whose inputs and declared outputs together exceed the storage
    of every site that otherwise fits the task. Only sites in the mask ``allowed`` count. Files of
    unknown size count as empty."""
    if all(site.storage_bytes is None for site in sites):
        return
    largest: dict[Resources, float] = {}
    """By request: the largest storage in bytes of the sites that fit it; inf: unlimited."""
    for task in workflow.tasks:
        asked = task.resources
        most = largest.get(asked)
        if most is None:
            mask = allowed & _fitting(asked, sites)
            limits = [site.storage_bytes for i, site in enumerate(sites) if mask >> i & 1]
            most = largest[asked] = max((inf if b is None else b for b in limits), default=inf)
        if most < inf:
            size = sum(workflow.files[f].size_bytes or 0 for f in {*task.inputs, *task.outputs})
            if size > most:
                raise _too_large(task, size, most, workflow.source)


def _too_large(task: Task, size_bytes: int, most: float, source: str) -> InvalidError:
    return InvalidError(
        f"task {task.id!r} fits no site: its inputs and outputs have {size_text(size_bytes)}, and "
        f"the largest storage of a site that it fits is {size_text(most)}",
        source=source,
        hint="raise 'storage' of a site in the catalog, or add a site with more",
    )


def _fitting(asked: Resources, sites: Sequence[SiteSpec]) -> int:
    """The sites that could ever run a task with this request, as a mask."""
    return sum(1 << i for i, spec in enumerate(sites) if fits(asked, spec))


def fits(asked: Resources, site: SiteSpec) -> bool:
    """Whether a site could ever run a task with this request."""
    if asked.container is not None and container_fault(asked.container, site.environment):
        return False
    asked = at_speed(asked, site.speed_ratio)
    if site.access is not None and site.access.launchers is not None:
        return _fits_launcher(asked, site.access.launchers)
    return (
        asked.cores <= site.slots
        and asked.nodes <= (most_nodes(site) or asked.nodes)
        and (site.node_cores is None or asked.cores <= site.node_cores * asked.nodes)
        and asked.gpus <= site.gpus
        and (site.memory_bytes == 0 or asked.memory_bytes <= site.memory_bytes)
        and (
            site.walltime_s is None
            or asked.walltime_s is None
            or asked.walltime_s <= site.walltime_s
        )
    )


def _fits_launcher(asked: Resources, launcher: LauncherSpec) -> bool:
    return (
        asked.nodes <= launcher.nodes
        and asked.cores <= launcher.cores * asked.nodes
        and asked.gpus <= launcher.gpus
        and (launcher.memory_bytes == 0 or asked.memory_bytes <= launcher.memory_bytes)
        and (asked.walltime_s is None or asked.walltime_s <= launcher.walltime_s)
    )


def granted_memory_bytes(site: SiteSpec) -> float:
    """Maximum memory per node that a task may request at a site, in bytes; infinite without a
    bound."""
    launchers = None if site.access is None else site.access.launchers
    return (site.memory_bytes if launchers is None else launchers.memory_bytes) or inf


def granted_walltime_s(site: SiteSpec, asked: Resources) -> float:
    """Maximum walltime that the document of a task with this request may state, in seconds;
    infinite without a bound. The walltime of a parallel job is requested at the speed of the site
    (`at_speed`)."""
    launchers = None if site.access is None else site.access.launchers
    walltime_s = site.walltime_s if launchers is None else launchers.walltime_s
    if walltime_s is None:
        return inf
    return walltime_s * site.speed_ratio if asked.parallel else walltime_s


def most_nodes(site: SiteSpec) -> int | None:
    """Maximum number of nodes of one task at a site; None if only the batch system knows."""
    if site.access is not None and site.access.launchers is not None:
        return site.access.launchers.nodes
    if site.max_nodes is not None:
        return site.max_nodes
    if site.nodes:
        return sum(group.count for group in site.nodes)
    return None if site.has_batch_system else 1


def misfit(asked: Resources, site: SiteSpec) -> str:
    """Text for the user why a task does not fit a site: what it requests, and what the site
    offers."""
    return f"it asks for {_request(asked)}; the site offers {_offer(site, asked)}"


def _narrower(asked: Resources, sites: Sequence[SiteSpec]) -> str:
    """Return the end of a hint: how a parallel job that is wider than the nodes of ``sites`` would
    fit them. Empty if another part of its request does not fit either."""
    widths = [
        site.node_cores
        for site in sites
        if asked.parallel
        and site.node_cores is not None
        and most_nodes(site) != 1
        and fits(asked, msgspec.structs.replace(site, node_cores=None))
    ]
    if not widths:
        return ""
    return f". With a 'ppn' of at most {max(widths)} the job gets several nodes"


def _request(asked: Resources) -> str:
    parts = [f"{asked.cores} cores"]
    if asked.nodes > 1:
        parts.append(f"{asked.nodes} nodes")
    if asked.memory_bytes:
        parts.append(f"{asked.memory_bytes / 2**20:.0f} MiB")
    if asked.gpus:
        parts.append(f"{asked.gpus} GPUs")
    if asked.walltime_s is not None:
        parts.append(f"{asked.walltime_s:.0f} s walltime")
    if asked.container is not None:
        parts.append(f"the container {asked.container.shown}")
    return ", ".join(parts)


def _offer(site: SiteSpec, asked: Resources) -> str:
    fault = container_fault(asked.container, site.environment)
    if fault is not None:
        return fault
    if site.access is not None and site.access.launchers is not None:
        x = site.access.launchers
        whole = Resources(x.cores * x.nodes, x.memory_bytes, x.gpus, x.walltime_s, x.nodes)
        return f"launchers of {_request(whole)}{_asked_at_speed(asked, site)}"
    offer = _request(Resources(site.slots, site.memory_bytes, site.gpus, site.walltime_s))
    offer += _asked_at_speed(asked, site)
    if site.node_cores is not None:
        offer += f", nodes of {site.node_cores} cores"
    nodes = most_nodes(site)
    if asked.nodes == 1 or nodes is None:
        return offer
    return f"{offer}, on {nodes} {'node' if nodes == 1 else 'nodes'} at most"


def _asked_at_speed(asked: Resources, site: SiteSpec) -> str:
    """The walltime that a parallel job requests at this site, for messages; empty if it is the one
    that its document states."""
    at_s = at_speed(asked, site.speed_ratio).walltime_s
    if at_s is None or at_s == asked.walltime_s:
        return ""
    return f" (at its speed of {site.speed_ratio:g} the job asks for {at_s:.0f} s)"
