"""The point-valued prediction of the waits in a first-come, first-served queue (thesis section
7.3.1), for simulations: exact at every question."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf

from wfrun.engine.prediction.waits.point import FcfsPlan, OpenJob, doubled_s

ExpectedS = Callable[[int], float]
"""The run time that a job is expected to have at the site by now, in seconds."""


class FcfsEstimates:
    """The schedule of one queue by the expected run times of its jobs. Implements `Estimates`.

    ``wfrun.engine.queue_model`` bounds the cost of a real run: it plans anew only when a share of
    the jobs has ended at other times than expected. Here the plan is made anew before the first
    question after each deviation, as in the simulations of the thesis.

    Cost of a question: constant for one core as long as all jobs end when they are expected to;
    otherwise that of a plan of all open jobs.
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
        self._plan = FcfsPlan(processors, (), -inf)
        self._is_stale = False
        self._due: list[tuple[float, int]] = []
        """A heap of the expected ends of running jobs; those of jobs that have ended are stale."""

    def submit(self, job: int, cores: int, length_s: float, now_s: float) -> None:
        self._cores[job], self._lengths_s[job] = cores, length_s
        self._submitted_s[job] = now_s
        if not self._is_stale:
            self._refresh(now_s)
            self._planned_s[job] = self._plan.add(cores, length_s, now_s)
        self._waiting[job] = None

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
        self._is_stale = True

    def start_s(self, cores: int, length_s: float, now_s: float) -> float:
        self._refresh(now_s)
        return self._plan.start_s(cores, now_s)

    def mean_wait_s(self, now_s: float) -> float:
        self._refresh(now_s)
        if not self._cores:
            return 0.0
        total_s = sum(self._planned_s[job] - at_s for job, at_s in self._submitted_s.items())
        return total_s / len(self._cores)

    def _refresh(self, now_s: float) -> None:
        """Make the plan anew if it is stale, or a job is overdue."""
        due, started = self._due, self._started_s
        while due and due[0][1] not in started:
            heappop(due)
        if self._is_stale or (due and due[0][0] <= now_s):
            self._plan_anew(now_s)

    def _plan_anew(self, now_s: float) -> None:
        self._is_stale = False
        lengths_s = self._lengths_s
        if self._corrected:
            for job in self._cores:
                lengths_s[job] = self._expected_s(job)
        running = []
        self._due = []
        for job, started_s in self._started_s.items():
            length_s = lengths_s[job] = doubled_s(lengths_s[job], now_s - started_s)
            running.append(OpenJob(self._cores[job], inf, length_s, started_s))
            self._due.append((started_s + length_s, job))
        heapify(self._due)
        plan = self._plan = FcfsPlan(self._processors, running, now_s)
        for job in self._waiting:
            self._planned_s[job] = plan.add(self._cores[job], lengths_s[job], now_s)
