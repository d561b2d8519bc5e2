"""Point-valued predictions of queue waits (thesis section 7.3.1).

The policy of the local resource manager (LRM) is simulated with the jobs that run and wait now,
without later jobs. Decisions follow the requested times, as in the LRM; jobs end after their
predicted run times. If a running job is past its predicted run time, the prediction is doubled
until it is larger than the time elapsed.

For FCFS the simulation is a heap of expected ends (`FcfsPlan`); requested times do not matter. For
EASY and conservative backfilling the models of `wfrun.engine.queues` are run. Conservative
backfilling plans the queue anew, since the reservations of an LRM are not visible.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush, nsmallest
from math import inf
from typing import NamedTuple

from wfrun.engine.queues import QueuedJob, make_lrm

MIN_RUNTIME_S = 1.0
"""Minimum run time from which doubling starts, in seconds: a doubled zero stays zero."""


class OpenJob(NamedTuple):
    """A job that runs or waits."""

    cores: int
    requested_s: float
    """Requested time in seconds; infinite without a request."""
    expected_s: float
    """Predicted run time in seconds; for an upper bound, the requested time."""
    started_s: float | None = None
    """Start time in seconds; None while the job waits."""


def doubled_s(expected_s: float, elapsed_s: float) -> float:
    """The expected run time, doubled until it is larger than the time elapsed."""
    if expected_s > elapsed_s:
        return expected_s
    expected_s = max(expected_s, MIN_RUNTIME_S)
    while expected_s <= elapsed_s:
        expected_s *= 2
    return expected_s


def expected_start_s(
    lrm: str, processors: int, jobs: Iterable[OpenJob], new: OpenJob, now_s: float
) -> float:
    """The expected start of a job that is submitted now, after all others.

    ``jobs``: running jobs and waiting jobs, in the order of the queue; none is wider than
    ``processors``. The start is infinite if the new job does not fit, or if it waits for a job that
    is expected to run for ever. Cost of FCFS: O(n log n) for n jobs; of EASY and conservative
    backfilling: that of a simulation of n jobs. Raises InvalidError for an unknown LRM.
    """
    if new.cores > processors:
        return inf
    running = [job for job in jobs if job.started_s is not None]
    waiting = [job for job in jobs if job.started_s is None]
    if lrm == "fcfs":
        plan = FcfsPlan(processors, running, now_s)
        for job in waiting:
            plan.add(job.cores, job.expected_s, now_s)
        return plan.add(new.cores, new.expected_s, now_s)
    return _simulate(lrm, processors, running, [*waiting, new], now_s)


class FcfsPlan:
    """A plan of starts without backfilling, in the order of the queue.

    Exact if the expected run times are exact. Cost of a job: O(log n).
    """

    __slots__ = ("_ends", "_free", "_last_s")

    def __init__(self, processors: int, running: Iterable[OpenJob], now_s: float) -> None:
        self._begin(processors, [(_end_s(job, now_s), job.cores) for job in running], now_s)

    @classmethod
    def of_ends(cls, processors: int, ends: list[tuple[float, int]], now_s: float) -> FcfsPlan:
        """Return a plan with running jobs. ``ends``: (expected end in seconds, cores) of each, with
        ends after ``now_s``. The plan takes over the list."""
        plan = cls.__new__(cls)
        plan._begin(processors, ends, now_s)
        return plan

    def _begin(self, processors: int, ends: list[tuple[float, int]], now_s: float) -> None:
        heapify(ends)
        self._ends = ends
        self._free = processors - sum([cores for _, cores in ends])
        """Free processors at ``_last_s``."""
        self._last_s = now_s
        """No job starts before this time."""

    @property
    def first_end_s(self) -> float:
        """The first expected end; infinite without a job."""
        return self._ends[0][0] if self._ends else inf

    def start_s(self, cores: int, now_s: float) -> float:
        """Return the start of a job at the end of the queue, not before ``now_s``; infinite if the
        job never fits. Cost: O(n log cores), O(1) for one core."""
        free, start_s = self._free, max(self._last_s, now_s)
        if free >= cores:
            return start_s
        missing, ends = cores - free, self._ends
        for end_s, released in ends[:1] if missing == 1 else nsmallest(missing, ends):
            free += released
            if free >= cores:
                return max(start_s, end_s)
        return inf

    def add(self, cores: int, expected_s: float, now_s: float) -> float:
        """Add a job to the end of the queue. Returns its start, not before now."""
        ends, free, start_s = self._ends, self._free, self._last_s
        if start_s < now_s:
            start_s = now_s
        while free < cores:
            end_s, released = heappop(ends)
            free += released
            if end_s > start_s:
                start_s = end_s
        heappush(ends, (start_s + expected_s, cores))
        self._free, self._last_s = free - cores, start_s
        return start_s


def _end_s(job: OpenJob, now_s: float) -> float:
    """The expected end of a running job."""
    started_s = job.started_s
    assert started_s is not None
    expected_s = job.expected_s
    end_s = started_s + expected_s
    return end_s if end_s > now_s else started_s + doubled_s(expected_s, now_s - started_s)


def _simulate(
    lrm_name: str,
    processors: int,
    running: list[OpenJob],
    waiting: list[OpenJob],
    now_s: float,
) -> float:
    """The start of the last of the waiting jobs."""
    lrm = make_lrm(lrm_name, processors)
    ends: list[tuple[float, int]] = []
    expected_s: list[float] = []
    for number, job in enumerate(running):
        started_s = job.started_s
        assert started_s is not None
        left_s = max(0.0, started_s + job.requested_s - now_s)
        lrm.occupy(QueuedJob(number, job.cores, left_s), now_s)
        ends.append((_end_s(job, now_s), number))
        expected_s.append(0.0)
    heapify(ends)
    for number, job in enumerate(waiting, len(running)):
        lrm.submit(QueuedJob(number, job.cores, job.requested_s), now_s)
        expected_s.append(job.expected_s)
    last = len(expected_s) - 1
    while True:
        for started in lrm.schedule(now_s):
            assert isinstance(started, int)
            if started == last:
                return now_s
            heappush(ends, (now_s + expected_s[started], started))
        if lrm.next_wakeup_s < (ends[0][0] if ends else inf):
            now_s = lrm.next_wakeup_s
        elif not ends or ends[0][0] == inf:
            return inf
        else:
            now_s, number = heappop(ends)
            lrm.end(number, now_s)
