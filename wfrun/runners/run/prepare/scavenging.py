"""The sites and options of a run with ``--scavenge``. Each owner has launchers of their own, which
take idle processors."""

from __future__ import annotations

import time
from collections.abc import Mapping

from msgspec.structs import replace

from wfrun.engine.errors import InvalidError
from wfrun.engine.fitting.names import look_up
from wfrun.engine.jobs.scavenging.idleness import ScavengeRules
from wfrun.engine.jobs.scavenging.policies import PREEMPTION
from wfrun.engine.model import Access, Catalog, LauncherSpec, SiteSpec, Workflow
from wfrun.engine.policies.placement import placement_class
from wfrun.engine.policies.placement.base import BasePlacement
from wfrun.engine.settings import Settings

MAX_WALLTIME_S = 3600.0
"""Maximum walltime of the launchers of a site whose entry has no ``launchers``, in seconds. Short
jobs start sooner."""


def scavengeable(catalog: Catalog, *, simulated: bool = False) -> Catalog:
    """Return the catalog with launchers at all sites. A launcher runs on one node. Its number of
    processors is that of the site's ``launchers``, otherwise ``node_cores``, otherwise one. Raises
    InvalidError for a site without a batch system, unless ``simulated``."""
    for site in catalog.sites:
        if not (simulated or (site.access is not None and site.has_batch_system)):
            raise InvalidError(
                f"site {site.name!r} has no batch system, so that no other job is seen there",
                source=catalog.source,
                line=catalog.lines.get(site.name, {}).get(""),
                hint="leave it out of the catalog of a run with --scavenge",
            )
    # Times of the log are those of UTC, or begin with 0 in a simulation.
    offset_s = 0.0 if simulated else float(time.localtime().tm_gmtoff)
    return replace(catalog, sites=tuple(_with_launchers(site, offset_s) for site in catalog.sites))


def _with_launchers(site: SiteSpec, offset_s: float) -> SiteSpec:
    access = site.access or Access()
    rules = replace(site.scavenge or ScavengeRules(), utc_offset_s=offset_s)
    walltime_s = min(site.walltime_s or MAX_WALLTIME_S, MAX_WALLTIME_S)
    cores = min(site.node_cores or 1, site.slots)
    launchers = access.launchers or LauncherSpec(cores, walltime_s=walltime_s)
    # How many there are follows from what is idle.
    launchers = replace(
        launchers, nodes=1, min=0, max=site.slots // launchers.cores, backlog=site.slots
    )
    return replace(
        site,
        scavenge=rules,
        access=replace(
            access, dispatch="launchers", launchers=launchers, queue=rules.queue or access.queue
        ),
    )


def check_options(settings: Settings, others: Mapping[str, object] = {}) -> None:
    """Raise InvalidError for an option that has no effect because launchers of each owner pull
    tasks. A policy that orders tasks is allowed: launchers pull tasks in its order. ``others`` maps
    the flags of further options to whether they are given."""
    usual = Settings()
    look_up(PREEMPTION, settings.preempt, "order of preemption")
    policy = placement_class(settings.policy)
    has_order = policy.order is not BasePlacement.order
    given = {
        "--policy": settings.policy != usual.policy and not has_order,
        "--selection": bool(settings.selection),
        "--throttle auto": settings.throttle == "auto",
        "--replicas": bool(settings.replicas),
        "--replication": settings.replication != usual.replication,
        **others,
    }
    for flag, is_given in given.items():
        if is_given:
            raise InvalidError(
                f"{flag} has no effect with --scavenge: launchers of each owner pull its tasks",
                hint="give one of the two",
            )


def check_bag(workflow: Workflow, line: int | None) -> None:
    """Raise InvalidError for a bag with optional tasks. Mandatory tasks may preempt optional tasks,
    but a run with ``--scavenge`` does not do that."""
    if workflow.bag is not None and workflow.bag.optional is not None:
        raise InvalidError(
            "a run with --scavenge has no optional tasks",
            source=workflow.source,
            line=line,
            hint="remove 'optional' from the bag",
        )
