"""Scales sites, links, run times and file sizes for emulation."""

from __future__ import annotations

from msgspec.structs import replace

from wfrun.engine.capabilities.placements import expected_runtimes_s
from wfrun.engine.events import Settings
from wfrun.engine.model import Catalog, LinkSpec, Resources, SiteSpec, Workflow
from wfrun.engine.tasks.bag import expand
from wfrun.parsers.syntax.limits import MAX_BYTES


def emulated(catalog: Catalog, time_scale: float, *, at_sites: bool) -> Catalog:
    """Return the sites and links of an emulated run.

    Unless ``at_sites`` is set, a local site of the same size replaces each cluster. Transfer times
    are multiplied by the time scale, as run times are. Environments are dropped, because emulated
    tasks need none.
    """
    sites = tuple(replace(site, environment=None) for site in catalog.sites)
    links = tuple(_scaled_link(link, time_scale) for link in catalog.links)
    if not at_sites:
        sites = tuple(map(_local, sites))
        # Those between clusters do not work here, and would not emulate the links.
        links = tuple(replace(link, methods=()) for link in links)
    return replace(catalog, sites=sites, links=links)


def _local(site: SiteSpec) -> SiteSpec:
    if site.access is None:
        return site
    return replace(site, access=None, directory=None, kind="local")


def scaled(workflow: Workflow, settings: Settings) -> Workflow:
    """Multiply run times and file sizes by the scales of the settings.

    Walltimes and containers are dropped: an emulated task takes its documented run time, and runs
    no program of its document. A task of a bag without an estimate takes 1 s before scaling.
    """
    if workflow.bag is not None:
        return _scaled_bag(workflow, settings)
    runtimes_s = expected_runtimes_s(workflow)
    emulated = {t.resources: _emulated_request(t.resources) for t in workflow.tasks}
    return replace(
        workflow,
        tasks=[
            replace(
                task,
                runtime_s=runtime_s * settings.time_scale,
                resources=emulated[task.resources],
            )
            for task, runtime_s in zip(workflow.tasks, runtimes_s, strict=True)
        ],
        files=[
            replace(f, size_bytes=_scaled_size(f.size_bytes, settings), sources=(), sha256=None)
            for f in workflow.files
        ],
    )


def without_containers(workflow: Workflow) -> Workflow:
    """The workflow without container requests, for simulations. A simulated site need not exist, so
    whether it can run containers is unknown."""
    bag = workflow.bag
    if bag is not None:
        bare = replace(bag.resources, container=None)
        return workflow if bare == bag.resources else expand(replace(bag, resources=bare))
    if all(task.resources.container is None for task in workflow.tasks):
        return workflow
    bares = {t.resources: replace(t.resources, container=None) for t in workflow.tasks}
    tasks = [replace(task, resources=bares[task.resources]) for task in workflow.tasks]
    return replace(workflow, tasks=tasks)


def _emulated_request(asked: Resources) -> Resources:
    return replace(asked, walltime_s=None, container=None)


def _scaled_size(size_bytes: int | None, settings: Settings) -> int:
    """The scaled size in bytes, at most `MAX_BYTES`, which 64 bits hold; 0 if unknown."""
    return min(round((size_bytes or 0) * settings.size_scale), MAX_BYTES)


def _scaled_bag(workflow: Workflow, settings: Settings) -> Workflow:
    bag = workflow.bag
    assert bag is not None
    return expand(
        replace(
            bag,
            estimate=bag.estimate or "1",
            scale=bag.scale * settings.time_scale,
            resources=_emulated_request(bag.resources),
            output_bytes=_scaled_size(bag.output_bytes, settings),
        )
    )


def _scaled_link(link: LinkSpec, scale: float) -> LinkSpec:
    bandwidth, cap = (
        rate / scale if rate is not None and scale > 0 else None
        for rate in (link.bandwidth_bytes_per_s, link.max_bandwidth_bytes_per_s)
    )
    return replace(
        link,
        bandwidth_bytes_per_s=bandwidth,
        latency_s=link.latency_s * scale,
        max_bandwidth_bytes_per_s=cap,
    )
