"""The requests of a job to the placement queue, and the requests of its placeholders."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from wfrun.engine.core.state import RunState, SiteState, WorkflowState
from wfrun.engine.exchange import LauncherRequest
from wfrun.engine.fitting.fit import most_nodes
from wfrun.engine.jobs.coallocation import NodeLinks, PlacementRequest
from wfrun.engine.jobs.coallocation.node_links import Metric
from wfrun.engine.jobs.components import Components
from wfrun.engine.jobs.sized import at_speed, shaped
from wfrun.engine.model import SiteSpec

MARGIN_S = 120.0
"""Walltime in seconds that placeholders request in addition to the walltime of their job, for the
start of the other placeholders and the transfer of outputs."""

DEFAULT_WALLTIME_S = 86_400.0
"""Walltime in seconds that the placeholders of a job without a walltime request; at most the
walltime of their site."""


def node_links_of(specs: Sequence[SiteSpec], metric: Metric) -> NodeLinks:
    """The links between the nodes of sites, for the Communication-Aware policy. Raises ValueError
    if a site states no link among its own nodes."""
    values: list[list[float | None]] = []
    for spec in specs:
        known = {
            link.site: link.latency_s if metric == "latency" else link.bandwidth_bytes_per_s
            for link in spec.node_links
        }
        values.append([known.get(other.name) for other in specs])
    return NodeLinks(values, metric)


def request_of(
    w: WorkflowState, task: int, sites: Sequence[SiteState], allowed: int
) -> PlacementRequest:
    """The request of a job. ``allowed``: mask of the sites that could run it. A job without
    components runs at one site."""
    components = w.workflow.components.get(task)
    if components is None:
        size = w.asked(task).cores
        return PlacementRequest(size, (((size, None),),), sites=allowed)
    return divided_request(components, [site.spec for site in sites], allowed)


def width_of(site: SiteSpec, ppn: int | None) -> int:
    """Maximum number of processors of a component at a site. ``ppn``: processors on each node;
    None: all processors are on one node. The number of nodes is limited both by the catalog and by
    the slots of the site divided by the cores of a node, so that no queue refuses a component."""
    width = site.node_cores or site.slots
    if ppn is None or ppn > width:
        return width
    nodes = most_nodes(site) or site.slots
    if site.node_cores is not None:
        nodes = min(nodes, ceil(site.slots / site.node_cores))
    return min(site.slots, nodes * ppn)


def divided_request(
    components: Components, sites: Sequence[SiteSpec], allowed: int
) -> PlacementRequest:
    """The request of a job with components. All sites that the components name must be in
    ``sites``."""
    names = [site.name for site in sites]
    return PlacementRequest(
        components.size,
        tuple(
            tuple(
                (part.size, None if part.site is None else names.index(part.site)) for part in split
            )
            for split in components.splits
        ),
        components.most,
        components.least,
        components.ppn or 1,
        allowed,
        tuple(width_of(site, components.ppn) for site in sites),
    )


def placeholder_of(
    w: WorkflowState, task: int, key: str, size: int, state: RunState, site: int
) -> LauncherRequest:
    """The request of the launcher that holds a component of a job at a site."""
    spec, asked = state.sites[site].spec, w.asked(task)
    components = w.workflow.components.get(task)
    nodes, cores = asked.nodes, size // asked.nodes
    if components is not None:
        shape = shaped(size, components.ppn)
        assert shape is not None, "the reader and the policies keep sizes that nodes can have"
        nodes, cores = shape[0], shape[1]
    walltime_s = at_speed(asked, spec.speed_ratio).walltime_s
    walltime_s = DEFAULT_WALLTIME_S if walltime_s is None else walltime_s + MARGIN_S
    if spec.walltime_s is not None:
        walltime_s = min(walltime_s, spec.walltime_s)
    return LauncherRequest(key, nodes, cores, asked.memory_bytes, asked.gpus, walltime_s)
