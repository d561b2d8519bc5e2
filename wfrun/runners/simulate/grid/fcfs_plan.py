"""The point-valued prediction of the waits in a first-come, first-served queue (thesis section
7.3.1), for simulations: exact at every question."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush, heapreplace, nsmallest
from math import inf

ExpectedS = Callable[[int], float]
"""The run time that a job is expected to have at the site by now, in seconds."""


class FcfsPlan:
    """The schedule of one queue by the expected run times of its jobs.

    ``wfrun.engine.queue_model`` bounds the cost of a real run: it plans anew only when a share of
    the jobs has ended at other times than expected. Here the plan is made anew before the first
    question after each deviation, as the simulation of the thesis does. A running job past its
    expected end is expected to take twice the time, and twice that, until the end is ahead.

    Cost: constant for a question about one core as long as all jobs end when they are expected to;
    otherwise the number of processors and of waiting jobs.
    """

    def __init__(self, processors: int, expected_s: ExpectedS, *, corrected: bool = False) -> None:
        """``corrected``: expected run times change while jobs wait or run; `correct` says when."""
        self._processors = processors
        self._expected_s = expected_s
        self._corrected = corrected
        self._cores: dict[int, int] = {}
        """Cores of all open jobs."""
        self._lengths_s: dict[int, float] = {}
        """By open job: the run time that it is expected to have."""
        self._submitted_s: dict[int, float] = {}
        self._waiting: dict[int, None] = {}
        """Waiting jobs, in the order of the queue."""
        self._started_s: dict[int, float] = {}
        self._planned_s: dict[int, float] = {}
        """By open job: planned or actual start."""
        self._free_s = [-inf] * processors
        """A heap of the times at which processors become free."""
        self._is_stale = False
        self._due: list[tuple[float, int]] = []
        """A heap of the expected ends of running jobs; those of jobs that have ended are stale."""

    def submit(self, job: int, cores: int, length_s: float, now_s: float) -> None:
        """Add a job to the end of the queue. ``length_s``: its expected run time."""
        self._cores[job], self._lengths_s[job] = cores, length_s
        self._submitted_s[job] = now_s
        self._waiting[job] = None
        if not self._is_stale:
            self._refresh(now_s)
            self._reserve(job, now_s)

    def start(self, job: int, now_s: float) -> None:
        del self._waiting[job]
        self._started_s[job] = now_s
        if self._planned_s.get(job) != now_s:
            self._planned_s[job] = now_s
            self._is_stale = True
        heappush(self._due, (now_s + self._lengths_s[job], job))

    def end(self, job: int, now_s: float) -> None:
        started_s = self._started_s.pop(job)
        if started_s + self._lengths_s[job] != now_s:
            self._is_stale = True
        for known in (self._cores, self._lengths_s, self._submitted_s, self._planned_s):
            del known[job]

    def correct(self) -> None:
        """Note that expected run times have changed."""
        self._is_stale = True

    def start_s(self, cores: int, length_s: float, now_s: float) -> float:
        """The start of a job that is submitted now."""
        self._refresh(now_s)
        free_s = self._free_s[0] if cores == 1 else nsmallest(cores, self._free_s)[-1]
        return max(now_s, free_s)

    def mean_wait_s(self, now_s: float) -> float:
        """Mean wait of the open jobs, as it was or as it is planned; 0 without any."""
        self._refresh(now_s)
        if not self._cores:
            return 0.0
        total_s = sum(self._planned_s[job] - at_s for job, at_s in self._submitted_s.items())
        return total_s / len(self._cores)

    def _refresh(self, now_s: float) -> None:
        """Make the plan anew if it is stale."""
        due, started = self._due, self._started_s
        while due and due[0][1] not in started:
            heappop(due)
        if self._is_stale or (due and due[0][0] <= now_s):
            self._plan_anew(now_s)

    def _plan_anew(self, now_s: float) -> None:
        self._is_stale = False
        ends_s: list[float] = []
        self._due = []
        for job, started_s in self._started_s.items():
            length_s = self._expected_s(job) if self._corrected else self._lengths_s[job]
            while started_s + length_s <= now_s:
                length_s = max(2 * length_s, 1.0)
            self._lengths_s[job] = length_s
            end_s = started_s + length_s
            self._due.append((end_s, job))
            ends_s += [end_s] * self._cores[job]
        ends_s.sort()
        self._due.sort()
        self._free_s = [now_s] * (self._processors - len(ends_s)) + ends_s
        for job in self._waiting:
            if self._corrected:
                self._lengths_s[job] = self._expected_s(job)
            self._reserve(job, now_s)

    def _reserve(self, job: int, now_s: float) -> None:
        """Plan a job at the end of the queue, on the processors that become free first."""
        free_s, cores = self._free_s, self._cores[job]
        begin_s = max(now_s, free_s[0] if cores == 1 else nsmallest(cores, free_s)[-1])
        end_s = begin_s + self._lengths_s[job]
        for _ in range(cores):
            heapreplace(free_s, end_s)
        self._planned_s[job] = begin_s
