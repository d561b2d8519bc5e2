"""Changes of options and sites of random worlds when their runs are resumed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec

from tests.engine.model.claimed import claimable_sites, cluster_of
from tests.engine.model.layouts import (
    POLICIES,
    Layout,
    anchor_of,
    links_between,
    site_of,
)
from wfrun.engine.model import Access, Catalog, LauncherSpec, LinkSpec, SiteSpec
from wfrun.engine.policies.placement.file_aware import FileAware, FileAwareR
from wfrun.engine.settings import Settings
from wfrun.runners.run.prepare.prepare_jobs import direct

NOT_OF_CLAIMS = "policy", "throttle", "replicas"
"""Options that have no effect on jobs with claims."""
COUNT = 6
"""Maximum number of resumes with a change."""


class Change(msgspec.Struct, frozen=True):
    """What the user gives when a run is resumed."""

    options: dict[str, Any]
    """By field of ``Settings``."""
    sites: tuple[SiteSpec, ...] | None
    """The catalog; None: the sites stay."""
    links: tuple[LinkSpec, ...]
    is_cut_off: bool
    """Whether the sites that leave cannot be reached any more."""
    is_interrupted: bool
    """Whether the engine dies after the change, before it resumes the run."""


def changes_of(random: Random, layout: Layout, is_mild: bool) -> Iterator[Change | None]:
    """The change of each resume; None: the run goes on as it is. One site of each catalog fits
    every task."""
    has_claims = layout.settings.place is not None
    catalog = {site.name: site for site in layout.sites}
    if has_claims:
        catalog = {n: msgspec.structs.replace(s, access=Access()) for n, s in catalog.items()}
    gone: dict[str, SiteSpec] = {}
    anchor = layout.sites[anchor_of(layout.sites)].name
    has_jobs = any(w.moldable or w.tasks[0].resources.parallel for w in layout.workflows)
    widest = max(t.resources.cores for w in layout.workflows for t in w.tasks)
    is_limited = any(site.storage_bytes is not None for site in layout.sites)
    for number in range(COUNT):
        if random.random() < 0.25:
            yield None
            continue
        kind = random.choice(["options", "sites", "both", "both"])
        if layout.queues:  # each resource manager would need a site that takes every task
            kind = "options"
        options = {} if kind == "sites" else _options(random, is_mild, is_limited)
        for name in _without_effect(layout.settings):
            options.pop(name, None)
        if kind == "options":
            yield Change(options, None, (), False, random.random() < 0.1)
            continue
        if random.random() < 0.3:  # another site takes every task from now on
            new = SiteSpec(f"wide{number}", random.choice([widest, 8, 16]))
            if has_claims:
                new = cluster_of(random, new.name, takes_all=True)
            catalog[new.name] = new
            if random.random() < 0.7:
                gone[anchor] = catalog.pop(anchor)
            anchor = new.name
        for name in [n for n in catalog if n != anchor and random.random() < 0.3]:
            gone[name] = catalog.pop(name)
        for name in [n for n in gone if random.random() < 0.3]:
            catalog[name] = gone.pop(name)
        if random.random() < 0.4:
            new = site_of(random, 0, is_mild)
            if has_claims:
                new = cluster_of(random, "", takes_all=False)
            catalog[f"new{number}"] = msgspec.structs.replace(new, name=f"new{number}")
        for name, site in catalog.items():
            least = widest if name == anchor else 1
            if random.random() < 0.4:
                catalog[name] = (
                    cluster_of(random, name, takes_all=name == anchor)
                    if has_claims
                    else _resized(random, site, least)
                )
            if random.random() < 0.3 and name != anchor:
                catalog[name] = _limited(random, catalog[name], is_limited)
        sites = list(catalog.values())
        if has_claims:
            yield Change(options, claimable_sites(random, sites, layout.settings), (),
                         random.random() < 0.3, random.random() < 0.1)  # fmt: skip
            continue
        if has_jobs:
            sites = list(direct(Catalog(tuple(sites))).sites)
            catalog = {site.name: site for site in sites}
        random.shuffle(sites)
        links = links_between(random, [*catalog, "origin"])
        is_cut_off, is_interrupted = random.random() < 0.3, random.random() < 0.1
        yield Change(options, tuple(sites), links, is_cut_off, is_interrupted)


def _without_effect(settings: Settings) -> tuple[str, ...]:
    """Options that a resume refuses."""
    if settings.place:
        return NOT_OF_CLAIMS
    policies = ("policy",) if settings.sizing else ()  # The search of sizes chooses the sites.
    return (*policies, "replicas") if settings.plans_queues else policies


def _options(random: Random, is_mild: bool, is_limited: bool) -> dict[str, Any]:
    """Options that a resume may change."""
    choice = random.choice
    policies = [p for p in POLICIES if not (is_limited and p == "single-cluster")]
    policy = choice(policies)
    if policy == FileAware.name and is_mild:
        policy = FileAwareR.name
    drawn: dict[str, Any] = {
        "policy": policy,
        "throttle": choice(["none", "auto", 1, 2, 4]),
        "retries": 100 if is_mild else random.randint(0, 3),
        "retry_delay_s": choice([0.0, 1.0]),
        "on_failure": choice(["continue", "stop"]),
        "replication": choice(["idle", "stragglers"]),
        "replicas": choice([0, 1, 2, 3]),
        "replica_share": choice([0.3, 0.6, 1.0]),
        "straggler_factor": choice([1.0, 1.5]),
        "keep": choice(["outputs", "failed", "all"]),
    }
    share = choice([0.2, 0.5, 1.0])
    return {name: value for name, value in drawn.items() if random.random() < share}


def _resized(random: Random, site: SiteSpec, least: int) -> SiteSpec:
    """The same site with other numbers of cores; it still takes a task of ``least`` cores."""
    access = site.access
    if access is None or access.launchers is None:
        slots = [n for n in (1, 2, 3, 4, 8, 12) if n >= least]
        return msgspec.structs.replace(site, slots=random.choice([*slots, site.slots]))
    old = access.launchers
    cores = [n for n in (1, 2, 4, 8) if n >= least]
    spec = msgspec.structs.replace(
        old,
        cores=random.choice([*cores, old.cores]),
        nodes=random.choice([1, old.nodes]),
        max=random.randint(1, 4),
        backlog=random.randint(1, 3),
        min=random.choice([0, 0, 1]),
    )
    return _with_launchers(site, access, spec)


def _with_launchers(site: SiteSpec, access: Access, spec: LauncherSpec) -> SiteSpec:
    return msgspec.structs.replace(
        site,
        slots=spec.cores * spec.nodes * spec.max,
        access=msgspec.structs.replace(access, launchers=spec),
    )


def _limited(random: Random, site: SiteSpec, is_limited: bool) -> SiteSpec:
    """The same site with other limits."""
    choice = random.choice
    storage_bytes = choice([None, 1, 10**6, 10**8]) if is_limited else None
    site = msgspec.structs.replace(
        site, storage_bytes=storage_bytes, speed_ratio=choice([0.5, 1.0, 2.0])
    )
    if site.access is not None:
        site = msgspec.structs.replace(site, max_transfers=choice([None, 1, 2]))
    if site.access is not None and site.access.launchers is not None:
        spec = msgspec.structs.replace(
            site.access.launchers, walltime_s=choice([300.0, 600.0, 3600.0])
        )
        return _with_launchers(site, site.access, spec)
    # Longer than each run time: no retry ends a job that states no walltime where the site gives
    # less than the job needs.
    walltime_s = choice([None, 300.0, 100.0])
    return msgspec.structs.replace(
        site, memory_bytes=choice([0, 2, 8]) * 2**30, walltime_s=walltime_s
    )
