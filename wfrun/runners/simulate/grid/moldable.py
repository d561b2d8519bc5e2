"""Simulates moldable parallel jobs in the queues of several clusters, with reallocation of waiting
jobs (RR-7365, sections 3 and 4.1).

The middleware submits each of its jobs to the site and with the size that promise the earliest
completion. Local jobs of other users are submitted to their own site with their own size. The
waiting jobs of the middleware are reallocated every ``period_s``. Queues are the models of
`wfrun.engine.queues`. Functions of real runs choose sizes and moves (`wfrun.engine.jobs.moldable`,
`wfrun.engine.jobs.reallocation`).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from heapq import heappop, heappush
from math import floor, inf
from typing import NamedTuple

import msgspec

from wfrun.engine.errors import InfeasibleError
from wfrun.engine.jobs.moldable import MoldableRunTimes, Sizing, binary_search
from wfrun.engine.jobs.reallocation import Limits, LrmQueues, QueueJob, reallocate
from wfrun.engine.model import SiteSpec
from wfrun.engine.queues import QueuedJob, make_lrm

PERIOD_S = 3600.0
"""Interval between reallocations, in seconds (section 3.2.2)."""


class MoldableJob(msgspec.Struct, frozen=True, gc=False):
    """A parallel job."""

    submit_s: float
    runtimes: MoldableRunTimes
    """Walltimes by size, in seconds on processors of speed 1. A rigid job has one size."""
    used: float = 1.0
    """Share of its walltime for which the job runs, at most 1 (section 4.2.2)."""
    home: int = -1
    """Number of the site of a local job; -1: a job of the middleware."""


class Reallocation(NamedTuple):
    """Algorithm, period and limits of the reallocation of waiting jobs."""

    algorithm: str
    """One of `wfrun.engine.jobs.reallocation.ALGORITHMS`."""
    period_s: float = PERIOD_S
    limits: Limits = Limits()


class MoldableSchedule(NamedTuple):
    """Sites, sizes and times of all simulated jobs. Lists are in the order of the jobs. Times in
    seconds."""

    jobs: Sequence[MoldableJob]
    site: array[int]
    size: array[int]
    start_s: array[float]
    end_s: array[float]
    moves: int
    """Number of moves to another site; a job may move several times."""


def simulate_moldable(
    jobs: Sequence[MoldableJob],
    sites: Sequence[SiteSpec],
    reallocation: Reallocation | None = None,
    *,
    lrm: str = "conservative",
    sizing: Sizing = binary_search,
) -> MoldableSchedule:
    """Simulate until all jobs have ended. ``jobs`` are in order of submission. ``reallocation``
    None: waiting jobs stay where they are. Equal arguments give equal schedules. Of events at the
    same time, ends come first, then submissions, then the reallocation. Raises InfeasibleError if
    no site can run a job of the middleware, or if its own site cannot run a local job."""
    return _Simulation(jobs, sites, reallocation, lrm, sizing).run()


class _Simulation:
    def __init__(
        self,
        jobs: Sequence[MoldableJob],
        sites: Sequence[SiteSpec],
        reallocation: Reallocation | None,
        lrm: str,
        sizing: Sizing,
    ) -> None:
        self._jobs = jobs
        self._reallocation = reallocation
        self._speeds = [site.speed_ratio for site in sites]
        self._lrms = [make_lrm(lrm, site.slots) for site in sites]
        self._queues = LrmQueues(self._lrms, self._speeds, sizing=sizing)
        self._ends: list[tuple[float, int, int]] = []
        count = len(jobs)
        self._site, self._size = array("i", [-1]) * count, array("i", [0]) * count
        self._start_s = array("d", [inf]) * count
        self._end_s = array("d", [inf]) * count
        self._moves = 0

    def run(self) -> MoldableSchedule:
        jobs, ends, count = self._jobs, self._ends, len(self._jobs)
        arrived, event_s = 0, self._next_event_s(jobs[0].submit_s if jobs else 0.0)
        while True:
            submit_s = jobs[arrived].submit_s if arrived < count else inf
            end_s = ends[0][0] if ends else inf
            wakeup_s = min(lrm.next_wakeup_s for lrm in self._lrms)
            now_s = self._queues.now_s = min(submit_s, end_s, wakeup_s, event_s)
            if now_s == inf or (arrived == count and not ends and wakeup_s == inf):
                break
            if wakeup_s == now_s < min(end_s, submit_s):
                self._start(range(len(self._lrms)))
            elif end_s == now_s:
                _, job, site = heappop(ends)
                self._lrms[site].end(job, now_s)
                self._start([site])
            elif submit_s == now_s:
                self._submit(arrived)
                arrived += 1
            else:
                self._reallocate()
                event_s = self._next_event_s(now_s)
        return MoldableSchedule(
            jobs, self._site, self._size, self._start_s, self._end_s, self._moves
        )

    def _next_event_s(self, now_s: float) -> float:
        """Time of the next reallocation, in seconds; inf: there is none."""
        if self._reallocation is None:
            return inf
        period_s = self._reallocation.period_s
        return (floor(now_s / period_s) + 1) * period_s

    def _submit(self, number: int) -> None:
        job, queues = self._jobs[number], self._queues
        if job.home >= 0:
            size = job.runtimes.sizes[0]
            walltime_s = job.runtimes.runtime_s(size) / self._speeds[job.home]
            self._site[number], self._size[number] = job.home, size
            self._lrms[job.home].submit(QueuedJob(number, size, walltime_s), queues.now_s)
            self._start([job.home])
            return
        offer = queues.best_offer(job.runtimes)
        if offer is None:
            raise InfeasibleError(
                f"job {number} needs at least {job.runtimes.sizes[0]} processors, which no site "
                "has",
                hint="leave out the jobs that are larger than the largest site",
            )
        queues.jobs[number] = QueueJob(job.runtimes, job.submit_s)
        queues.enter(number, offer)
        self._start([offer.site])

    def _reallocate(self) -> None:
        assert self._reallocation is not None
        queues = self._queues
        if queues.jobs:
            placed = reallocate(queues, self._reallocation.algorithm, self._reallocation.limits)
            self._moves += sum(each.is_moved for each in placed)
            self._start(sorted(queues.changed))

    def _start(self, sites: Sequence[int]) -> None:
        """Start the jobs that the queues of these sites can start now."""
        jobs, queues = self._jobs, self._queues
        now_s = queues.now_s
        for site in sites:
            for number in self._lrms[site].schedule(now_s):
                assert isinstance(number, int)
                job, own = jobs[number], queues.jobs.pop(number, None)
                if own is not None:
                    self._site[number], self._size[number] = own.site, own.size
                walltime_s = job.runtimes.runtime_s(self._size[number]) / self._speeds[site]
                end_s = now_s + job.used * walltime_s
                self._start_s[number], self._end_s[number] = now_s, end_s
                heappush(self._ends, (end_s, number, site))
        queues.changed.clear()
