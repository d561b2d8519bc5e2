"""Simulates parallel jobs that run at several clusters at once (thesis chapter 2).

The placement queue and the policies are those of real runs (`wfrun.engine.jobs.coallocation`). The
core is not used: docs/decisions/0018-grids-of-jobs-do-without-the-core.md explains why.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from wfrun.engine.jobs.coallocation import (
    IdleProcessors,
    NodeLinks,
    Placement,
    PlacementQueue,
    PlacementRequest,
    place,
)


class CoallocatedJob(NamedTuple):
    """A job of a simulation."""

    arrival_s: float
    request: PlacementRequest


class CoallocatedSchedule(NamedTuple):
    """Times and placement of each job, in the order of the jobs. Times in seconds."""

    start_s: array[float]
    """Time at which the job was placed and started."""
    end_s: array[float]
    placements: list[Placement]


def simulate_coallocated(
    jobs: Sequence[CoallocatedJob],
    processors: Sequence[int],
    policy: str,
    run_time_s: Callable[[int, Placement], float],
    links: NodeLinks | None = None,
    *,
    poll_s: float | None = None,
    blocks: bool = False,
) -> CoallocatedSchedule:
    """Simulate until all jobs have ended. ``processors`` has the size of each cluster.

    ``jobs`` are in the order of arrival. ``run_time_s`` returns the run time in seconds of a job,
    given by its number, with a placement. If ``poll_s`` is None, the queue is scanned at each
    arrival and end. Otherwise it is scanned at multiples of ``poll_s`` seconds, and an arriving job
    is also tried on its own at its arrival. Of events at the same time, ends come first, then the
    scan, then arrivals. With ``blocks`` a scan stops at the first job that cannot be placed, so
    that no job overtakes another.

    Cost: logarithmic in the number of running jobs for an event, linear in the number of waiting
    jobs for a scan. Raises ValueError if a job does not fit the empty clusters.
    """
    return _Simulation(jobs, processors, policy, run_time_s, links, poll_s, blocks).run()


class _Simulation:
    def __init__(
        self,
        jobs: Sequence[CoallocatedJob],
        processors: Sequence[int],
        policy: str,
        run_time_s: Callable[[int, Placement], float],
        links: NodeLinks | None,
        poll_s: float | None,
        blocks: bool,
    ) -> None:
        self._jobs = jobs
        self._run_time_s = run_time_s
        self._poll_s = poll_s
        self._blocks = blocks
        self._idle = IdleProcessors(processors)
        self._queue: PlacementQueue[int] = PlacementQueue(policy, links)
        self._unplaced = -1
        """Version of the idle processors for which the last scan placed no job. A further scan of
        the same version is skipped."""
        self._ends: list[tuple[float, int]] = []
        self._start_s = array("d", [inf]) * len(jobs)
        self._end_s = array("d", [inf]) * len(jobs)
        self._placements: list[Placement] = [()] * len(jobs)

    def run(self) -> CoallocatedSchedule:
        jobs, ends, queue = self._jobs, self._ends, self._queue
        arrived, count, now_s = 0, len(jobs), 0.0
        while True:
            arrival_s = jobs[arrived].arrival_s if arrived < count else inf
            end_s = ends[0][0] if ends else inf
            scan_s = self._next_poll_s(now_s)
            if scan_s < end_s and scan_s <= arrival_s:
                now_s = scan_s
                self._scan(now_s)
                if not ends and arrived == count:
                    break
            elif ends and end_s <= arrival_s:
                now_s = end_s
                while ends and ends[0][0] == now_s:
                    self._idle.give_back(self._placements[heappop(ends)[1]])
                if len(queue) and (self._poll_s is None or now_s % self._poll_s == 0):
                    self._scan(now_s)
            elif arrived < count:
                now_s = arrival_s
                self._arrive(arrived, now_s)
                arrived += 1
            else:
                break
        if len(queue):
            job = next(iter(queue))
            raise ValueError(f"the clusters cannot hold job {job}: {jobs[job].request}")
        return CoallocatedSchedule(self._start_s, self._end_s, self._placements)

    def _next_poll_s(self, now_s: float) -> float:
        if self._poll_s is None or not len(self._queue):
            return inf
        return (now_s // self._poll_s + 1) * self._poll_s

    def _arrive(self, job: int, now_s: float) -> None:
        request = self._jobs[job].request
        if self._blocks and len(self._queue):
            self._queue.add(job, request)
            return
        if len(self._queue) and self._poll_s is None and self._idle.version != self._unplaced:
            self._queue.add(job, request)
            self._scan(now_s)
            return
        # All others were tried with the same idle processors, or wait for the next poll.
        placement = self._try(request)
        if placement is None:
            self._queue.add(job, request)
        else:
            self._idle.take(placement)
            self._start(job, placement, now_s)

    def _try(self, request: PlacementRequest) -> Placement | None:
        return place(request, self._idle, self._queue.policy, self._queue.links)

    def _scan(self, now_s: float) -> None:
        if self._blocks:
            self._scan_head(now_s)
            return
        version = self._idle.version
        for job, placement in self._queue.scan(self._idle):
            assert placement is not None, "without a maximum of tries no job is given up"
            self._start(job, placement, now_s)
        if self._idle.version == version:
            self._unplaced = version

    def _scan_head(self, now_s: float) -> None:
        while len(self._queue):
            job = next(iter(self._queue))
            placement = self._try(self._queue.request(job))
            if placement is None:
                return
            self._queue.remove(job)
            self._idle.take(placement)
            self._start(job, placement, now_s)

    def _start(self, job: int, placement: Placement, now_s: float) -> None:
        end_s = now_s + self._run_time_s(job, placement)
        self._start_s[job], self._end_s[job] = now_s, end_s
        self._placements[job] = placement
        heappush(self._ends, (end_s, job))
