"""Algorithms 1 and 2 of RR-7365 with MCT and MinMin, against a second implementation.

That one is written from the report alone, without regard to speed: conservative backfilling by
looking at every moment at which processors become free, sizes by section 3.2.1, and the loops of
Algorithms 1 and 2 as they are printed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from wfrun.engine.jobs.moldable import SIZINGS, Amdahl
from wfrun.engine.jobs.reallocation import ALGORITHMS, LrmQueues, QueueJob, reallocate
from wfrun.engine.queues import QueuedJob, make_lrm

Found = tuple[float, int, int]
"""(completion, size, site)."""


class Cluster:
    """A queue with conservative backfilling at time 0."""

    def __init__(self, processors: int, busy: int, until_s: float) -> None:
        self.processors = processors
        self.taken: dict[int, tuple[int, float, float]] = {-1: (busy, 0.0, until_s)}
        """By job: processors, start, end; in the order of submission."""

    def earliest(self, size: int, length_s: float, job: int = -2) -> float:
        others = [taken for name, taken in self.taken.items() if name != job]
        return next(
            start_s
            for start_s in sorted({0.0, *(end_s for _, _, end_s in others)})
            if all(
                size + sum(n for n, a, b in others if a <= at_s < b) <= self.processors
                for at_s in (start_s, *(a for _, a, _ in others))
                if start_s <= at_s < start_s + length_s
            )
        )

    def submit(self, job: int, size: int, length_s: float) -> None:
        start_s = self.earliest(size, length_s)
        self.taken[job] = size, start_s, start_s + length_s

    def cancel(self, job: int) -> None:
        """Remove a job, and move others to earlier starts until none can move."""
        del self.taken[job]
        is_changed = True
        while is_changed:
            is_changed = False
            for name, (size, old_s, end_s) in list(self.taken.items()):
                start_s = self.earliest(size, end_s - old_s, name) if name >= 0 else old_s
                if start_s < old_s - 1e-6:
                    self.taken[name] = size, start_s, start_s + end_s - old_s
                    is_changed = True


class Grid:
    """The clusters, and the jobs in the order of their submission."""

    def __init__(self, seed: int, count: int, sizing: str) -> None:
        random = Random(seed)
        self.busy = [(n, random.randint(1, n), random.uniform(100, 4000)) for n in (4, 7, 12)]
        self.jobs = [
            Amdahl(random.uniform(200, 6000), random.choice([0.8, 0.95]), random.randint(1, 8))
            for _ in range(count)
        ]
        self.sites = [random.randrange(3) for _ in self.jobs]
        self.sizing = sizing
        self.clusters = [Cluster(*cluster) for cluster in self.busy]
        for job, site in enumerate(self.sites):
            self.submit(job, self.offer(job, site))

    def offer(self, job: int, site: int) -> Found:
        known: dict[int, float] = {}

        def completion_s(size: int) -> float:
            length_s = self.jobs[job].runtime_s(size)
            known[size] = self.clusters[site].earliest(size, length_s) + length_s
            return known[size]

        low, high = 1, min(self.jobs[job].limit, self.clusters[site].processors)
        ends = completion_s(low), completion_s(high)
        for size in range(low, high + 1) if self.sizing == "exhaustive" else ():
            completion_s(size)
        while high - low > 1 and self.sizing == "binary":
            middle = (low + high) // 2
            if ends[0] <= ends[1]:
                high, ends = middle, (ends[0], completion_s(middle))
            else:
                low, ends = middle, (completion_s(middle), ends[1])
        return min((end_s, size, site) for size, end_s in known.items())

    def best(self, job: int, sites: list[int]) -> Found:
        return min((self.offer(job, site) for site in sites), key=lambda found: found[0])

    def submit(self, job: int, found: Found) -> Found:
        self.clusters[found[2]].submit(job, found[1], self.jobs[job].runtime_s(found[1]))
        self.sites[job] = found[2]
        return found

    def taken_in_order(
        self, jobs: list[int], best: Callable[[int], Found], heuristic: str
    ) -> Callable[[], tuple[int, Found]]:
        """Takes the next of the jobs: by submission, or the one that would be completed first."""

        def take() -> tuple[int, Found]:
            job = jobs[0] if heuristic == "mct" else min(jobs, key=lambda j: best(j)[0])
            jobs.remove(job)
            return job, best(job)

        return take

    def reallocate(self, algorithm: str) -> list[tuple[int, int, int]]:
        """(job, site, size) of the submitted jobs."""
        heuristic, kind = algorithm.split("-")
        every = list(range(len(self.jobs)))
        jobs, rest = (every, []) if heuristic == "mct" else (every[:20], every[20:])
        placed = []
        if kind == "reg":
            take = self.taken_in_order(
                jobs, lambda j: self.best(j, [s for s in range(3) if s != self.sites[j]]), heuristic
            )
            while jobs:
                job, found = take()
                if found[0] + 60 < self.clusters[self.sites[job]].taken[job][2]:
                    self.clusters[self.sites[job]].cancel(job)
                    placed.append((job, self.submit(job, found)))
        else:
            for job in every:
                self.clusters[self.sites[job]].cancel(job)
            take = self.taken_in_order(jobs, lambda j: self.best(j, [0, 1, 2]), heuristic)
            while jobs:
                job, found = take()
                placed.append((job, self.submit(job, found)))
            placed += [(job, self.submit(job, self.best(job, [0, 1, 2]))) for job in rest]
        return [(job, site, size) for job, (_, size, site) in placed]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("sizing", SIZINGS)
@pytest.mark.parametrize(("seed", "count"), [*((seed, 9) for seed in range(5)), (5, 23)])
def test_both_implementations_move_the_same_jobs(
    seed: int, count: int, sizing: str, algorithm: str
) -> None:
    grid = Grid(seed, count, sizing)
    lrms = [make_lrm("conservative", processors) for processors, _, _ in grid.busy]
    for lrm, (_, used, until_s) in zip(lrms, grid.busy, strict=True):
        lrm.occupy(QueuedJob(-1, used, until_s), 0.0)
    queues = LrmQueues(lrms, [1.0] * 3, sizing=SIZINGS[sizing])
    for job, site in enumerate(grid.sites):
        queues.jobs[job] = QueueJob(grid.jobs[job], float(job))
        offer = queues.offer_of(grid.jobs[job], site)
        assert offer is not None
        queues.enter(job, offer)
    placed = reallocate(queues, algorithm)
    assert [(each.job.id, each.offer.site, each.offer.size) for each in placed] == grid.reallocate(
        algorithm
    )
