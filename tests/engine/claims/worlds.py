"""Clusters and jobs of tests of claims, and what a core knows of claims."""

from __future__ import annotations

from wfrun.engine.capabilities.claims.claims import ProcessorClaims
from wfrun.engine.core.core import Core
from wfrun.engine.jobs.components import Component, Components
from wfrun.engine.model import Access, Catalog, LauncherSpec, Resources, SiteSpec, Task, Workflow

SLOTS = (16, 16, 12)


def sites_of(*slots: int) -> Catalog:
    """Clusters of these numbers of processors, as a run with claims has them."""
    names = ["alpha", "beta", "gamma", "delta"]
    return Catalog(
        tuple(
            SiteSpec(name, n, kind="slurm",
                     access=Access(dispatch="launchers", launchers=LauncherSpec(n)))
            for name, n in zip(names, slots, strict=False)
        )
    )  # fmt: skip


def jobs_of(*sizes: Components | int, runtime_s: float = 50.0) -> Workflow:
    """Jobs with these components; an int is a job at one site."""
    tasks, components = [], {}
    for number, size in enumerate(sizes):
        if isinstance(size, Components):
            components[number] = size
        cores = 1 if isinstance(size, Components) else size
        asked = Resources(cores, walltime_s=100.0, parallel=True)
        tasks.append(Task(f"j{number}", "j", "j", resources=asked, runtime_s=runtime_s))
    return Workflow("jobs", "jobs", tasks, [], [()] * len(tasks), components=components)


def non_fixed(*sizes: int) -> Components:
    return Components(sum(sizes), (tuple(Component(size) for size in sizes),))


def facts_of(core: Core) -> object:
    """What a core knows of claims, to compare a replayed one with one that lived."""
    claims = core.state.get(ProcessorClaims)
    return (
        [(job, claims.queue.tries(job)) for job in claims.queue],
        {key: (c.workflow, c.task, c.granted_s, c.attempt) for key, c in claims.claims.items()},
        {job: claim.key for job, claim in claims.by_job.items()},
        [claims.idle_at(site) for site in range(len(core.state.sites))],
        [getattr(claims.phases, name) for name in claims.phases.__slots__],
    )
