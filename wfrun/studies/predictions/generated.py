"""Bursty workloads of grids like those of thesis Table 7.1, whose traces are not public here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from math import ceil
from random import Random
from typing import Literal, NamedTuple

import msgspec

from wfrun.engine.model import SiteSpec
from wfrun.parsers.generate.bots import LIKENESS, generate_workload
from wfrun.parsers.logs import LoggedJob
from wfrun.parsers.logs.workload_log import COMPLETED

_SIZES, _SIZE_WEIGHTS = (2, 4, 8, 16), (35, 30, 20, 15)
"""Processors of parallel jobs and their weights: those of the background load of study `workflows`
up to 16 processors."""
_CLUSTERS_OF_USER = 3
"""Maximum number of clusters that one user submits to."""


class GridModel(NamedTuple):
    """Parameters from which a grid of Table 7.1 is generated."""

    title: str
    kind: Literal["research", "production"]
    row: str
    """The row of Table 5.3 with the fits for the grid's bags."""
    clusters: int
    parallel: float
    """Share of parallel jobs."""
    load: float
    jobs: int = 60_000
    """Number of jobs in the full study."""


RESEARCH_LOAD, PRODUCTION_LOAD = 0.2, 0.7
"""Loads of the generated grids. Section 7.1 gives 10% to 30% for research grids and over 60% for
production grids."""

GRIDS: dict[str, GridModel] = {
    "das-2": GridModel("DAS-2", "research", "das-2", 5, 0.66, RESEARCH_LOAD),
    "grid5000": GridModel("Grid'5000", "research", "grid5000", 15, 0.45, RESEARCH_LOAD),
    # Table 5.3 has no row of the DAS-3. Its predecessor's bags are taken.
    "das-3": GridModel("DAS-3", "research", "das-2", 5, 0.15, RESEARCH_LOAD),
    "sharcnet": GridModel("SHARCNET", "research", "sharcnet", 10, 0.10, RESEARCH_LOAD),
    "auvergrid": GridModel("AuverGrid", "production", "auvergrid", 5, 0.0, PRODUCTION_LOAD),
    "nordugrid": GridModel("NorduGrid", "production", "nordugrid", 75, 0.0, PRODUCTION_LOAD),
    # Table 7.1 does not give its number of clusters. 30 is an assumption.
    "lcg": GridModel("LCG", "production", "lcg", 30, 0.0, PRODUCTION_LOAD),
    "ngs": GridModel("NGS", "production", "ngs", 7, 0.0, PRODUCTION_LOAD),
}
"""The grids of Table 7.1 for which Table 5.3 has fits. It has none for GRID3."""


Change = Callable[[Sequence[LoggedJob]], Sequence[LoggedJob]]
"""Changes generated jobs before they are scheduled. The jobs of a bag are adjacent in the
argument."""


def generate_grid(
    grid: GridModel, jobs: int, seed: int, change: Change = lambda logged: logged
) -> tuple[tuple[LoggedJob, ...], int]:
    """Generate a log of the grid. Return its jobs with their waits, and the grid's number of
    processors.

    ``change`` is applied to the jobs before they are scheduled. All clusters are FCFS and have the
    same number of processors, chosen such that the grid has its load.
    """
    logged = sorted(change(_bags(grid, jobs, seed)), key=lambda job: job.submit_s)
    span_s = logged[-1].submit_s - logged[0].submit_s
    work_s = sum((job.runtime_s or 0.0) * (job.processors or 1) for job in logged)
    largest = max(job.processors or 1 for job in logged)
    slots = max(ceil(work_s / span_s / grid.load / grid.clusters), largest)
    return tuple(_with_waits(logged, slots)), slots * grid.clusters


@lru_cache(maxsize=1)  # changes of one grid follow each other
def _bags(grid: GridModel, jobs: int, seed: int) -> tuple[LoggedJob, ...]:
    """The jobs without waits, in the order of submission.

    Bags, users, applications and run times are those of the model of thesis section 5.2, with one
    stream for the whole grid, since Table 5.3 has fits of whole traces. All tasks of a bag arrive
    together at one cluster: a burst. A user submits to at most three clusters. The jobs of a bag
    have one size.
    """
    rng = Random(f"{seed}/{grid.title}/clusters")
    whole = SiteSpec("grid", slots=1)
    workload = generate_workload(
        [whole], row=grid.row, load=1.0, tasks=jobs, seed=seed, likeness=LIKENESS
    )
    clusters = [f"C{number}" for number in range(1, grid.clusters + 1)]
    of_user: dict[str, list[str]] = {}
    logged: list[LoggedJob] = []
    for bag in workload.bags:
        user = bag.user.removeprefix("grid.")
        if user not in of_user:
            of_user[user] = rng.choices(clusters, k=_CLUSTERS_OF_USER)
        cores = 1
        if rng.random() < grid.parallel:
            cores = rng.choices(_SIZES, _SIZE_WEIGHTS)[0]
        job = LoggedJob(
            0,
            bag.arrival_s / workload.pace,  # without the compression that gives the load
            processors=cores,
            requested_processors=cores,
            status=COMPLETED,
            user=user,
            application=bag.application.removeprefix("grid."),
            site=rng.choice(of_user[user]),
        )
        for runtime_s in bag.runtime_s:
            number = len(logged) + 1
            logged.append(msgspec.structs.replace(job, id=number, runtime_s=runtime_s))
    return tuple(logged)


def _with_waits(jobs: Sequence[LoggedJob], slots: int) -> Iterator[LoggedJob]:
    """Add to each job its wait in an FCFS cluster of ``slots`` processors. The order stays."""
    clusters: dict[str | None, _Fcfs] = {}
    for job in jobs:
        cluster = clusters.get(job.site)
        if cluster is None:
            cluster = clusters[job.site] = _Fcfs(slots)
        start_s = cluster.start_s(job.submit_s, job.processors or 1, job.runtime_s or 0.0)
        yield msgspec.structs.replace(job, wait_s=start_s - job.submit_s)


class _Fcfs:
    """A cluster that starts jobs in the order of submission."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._ends: list[tuple[float, int]] = []
        self._last_start_s = 0.0

    def start_s(self, submit_s: float, cores: int, runtime_s: float) -> float:
        now_s = max(submit_s, self._last_start_s)
        while self._ends and (self._ends[0][0] <= now_s or self._free < cores):
            end_s, freed = heappop(self._ends)
            self._free += freed
            now_s = max(now_s, end_s)
        self._free -= cores
        heappush(self._ends, (now_s + runtime_s, cores))
        self._last_start_s = now_s
        return now_s
