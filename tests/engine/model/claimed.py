"""Random worlds whose jobs claim processors of several sites, as `wfrun jobs --place` runs them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Literal

import msgspec

from tests.engine.claims.worlds import non_fixed
from tests.engine.model.documents import jobs_of
from tests.engine.model.layouts import Layout
from wfrun.engine import events as ev
from wfrun.engine.jobs.components import Component, Components
from wfrun.engine.model import Access, Catalog, NodeLink, SiteSpec, Workflow
from wfrun.runners.run.prepare.prepare_jobs import UNASKED_STRATEGY, claimable

POLICIES: tuple[Literal["wf", "fcm", "ca"], ...] = "wf", "fcm", "ca"
WIDEST = 12
"""Maximum size of a job. One site of each catalog has as many processors."""


def with_claims(random: Random, layout: Layout, *, is_mild: bool) -> Layout:
    """The same world with two or more clusters, and with parallel jobs in place of the workflows.
    One site takes every job that names no sites, so that only those of worlds that may fail do."""
    choice, old = random.choice, layout.settings
    settings = ev.Settings(
        policy=UNASKED_STRATEGY,
        place=choice(POLICIES),
        metric=choice(["latency", "bandwidth"]),
        tries=None if is_mild else choice([None, None, 1, 5]),
        claim_wait_s=choice([5.0, 20.0, 60.0]),
        retries=old.retries,
        retry_delay_s=old.retry_delay_s,
        on_failure=old.on_failure,
        seed=old.seed,
    )
    names = ["alpha", "beta", "gamma", "delta"][: random.randint(2, 4)]
    anchor = choice(names)
    sites = [cluster_of(random, name, takes_all=name == anchor) for name in names]
    workflows = [
        _with_components(random, jobs_of(random, number, WIDEST, is_sized=False), settings, sites,
                         is_mild=is_mild)
        for number in range(min(3, len(layout.workflows)))
    ]  # fmt: skip
    return layout._replace(
        workflows=workflows,
        sites=claimable_sites(random, sites, settings),
        links=(),
        settings=settings,
        queues=(),
        bad_site=-1,  # The queue does not avoid a site where a job has failed.
    )


def cluster_of(random: Random, name: str, *, takes_all: bool) -> SiteSpec:
    """A cluster of some nodes."""
    choice = random.choice
    slots = choice([WIDEST, 16, 24] if takes_all else [1, 2, 4, 8, 12])
    widths = [None] if takes_all else [None, None, *(n for n in (2, 4) if n < slots)]
    return SiteSpec(
        name, slots, speed_ratio=choice([0.5, 1.0, 1.0, 2.0]), kind="slurm",
        access=Access(), node_cores=choice(widths), max_transfers=choice([None, 1, 2]),
    )  # fmt: skip


def claimable_sites(
    random: Random, sites: Sequence[SiteSpec], settings: ev.Settings
) -> tuple[SiteSpec, ...]:
    """The sites as a run with claims has them, with links between all nodes."""
    figures = {
        frozenset((one.name, other.name)): (
            random.choice([0.0001, 0.001, 0.002]), random.choice([1e7, 1e8])
        )
        for one in sites
        for other in sites
    }  # fmt: skip
    linked = [
        msgspec.structs.replace(
            one,
            node_links=tuple(
                NodeLink(other.name, *figures[frozenset((one.name, other.name))]) for other in sites
            ),
        )
        for one in sites
    ]
    return claimable(Catalog(tuple(linked)), settings, simulated=True).sites


def _with_components(
    random: Random, jobs: Workflow, settings: ev.Settings, sites: Sequence[SiteSpec], *,
    is_mild: bool,
) -> Workflow:  # fmt: skip
    tasks, components = list(jobs.tasks), {}
    for number, task in enumerate(tasks):
        found = components_of(random, settings, [] if is_mild else sites)
        if found is not None:
            components[number] = found
            asked = msgspec.structs.replace(task.resources, cores=1)
            tasks[number] = msgspec.structs.replace(task, resources=asked)
    return msgspec.structs.replace(jobs, tasks=tasks, components=components)


def components_of(
    random: Random, settings: ev.Settings, sites: Sequence[SiteSpec]
) -> Components | None:
    """Components of a job; None: it runs at one site. ``sites``: those that it may name."""
    kinds = ["one", "non-fixed", "splits"]
    kinds += ["fixed"] if sites else []
    kinds += ["flexible", "flexible"] if settings.place != "wf" else []
    kind = random.choice(kinds)
    if kind == "one":
        return None
    if kind == "non-fixed":
        return non_fixed(*(random.randint(1, WIDEST // 3) for _ in range(random.randint(1, 3))))
    if kind == "splits":
        splits = tuple(tuple(Component(WIDEST // n) for _ in range(n)) for n in (1, 2, 3))
        return Components(WIDEST, splits)
    if kind == "fixed":
        chosen = random.sample(list(sites), random.randint(1, len(sites)))
        parts = tuple(
            Component(random.randint(1, site.node_cores or site.slots), site.name)
            for site in chosen
        )
        return Components(sum(part.size for part in parts), (parts,))
    size, ppn = random.randint(1, WIDEST), random.choice([None, None, 1, 2])
    unit = ppn or 1
    least = random.choice([1, 1, 2, 3]) * unit
    size = max(size - size % unit, least)
    return Components(size, most=random.choice([None, None, 1, 2]), least=least, ppn=ppn)
