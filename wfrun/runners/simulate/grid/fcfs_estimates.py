"""Predictions of waits in a first-come, first-served queue, as single values (thesis section
7.3.1), for simulations of many jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from wfrun.engine.jobs.open_sums import OpenSums
from wfrun.engine.prediction.waits.point import FcfsPlan, doubled_s

ExpectedS = Callable[[int], float]
"""Returns the run time that a job is currently expected to have at the site, in seconds."""


EXACT = 500
"""Maximum number of open jobs for which the plan is exact. The plan of a longer queue is renewed
only after more deviations than the number of open jobs divided by ``EXACT``, because the cost of a
plan is linear in the number of jobs, and a burst leaves thousands of jobs."""


class FcfsEstimates:
    """Plan of a first-come, first-served queue, from the expected run times of its jobs. Implements
    `Estimates`.

    A deviation is a job that starts or ends at another time than expected, an overdue job, or a
    change of an expected run time. After a deviation the plan is renewed before the next query, as
    in the simulations of the thesis; the plan of a long queue tolerates a few deviations
    (``EXACT``). Amortized cost of a query: without deviations, constant for a job of one core;
    otherwise at most ``EXACT`` jobs per deviation.
    """

    def __init__(
        self, processors: int, expected_s: ExpectedS, kinds: Sequence[int] | None = None
    ) -> None:
        """``kinds`` has a number for each job; jobs with equal numbers have equal expected run
        times. Give it if expected run times change while jobs wait or run, and call `correct` after
        a change. None: expected run times do not change."""
        self._processors = processors
        self._expected_s = expected_s
        self._kinds = kinds
        self._cores: dict[int, int] = {}
        """Cores of all open jobs."""
        self._lengths_s: dict[int, float] = {}
        """Expected run time of each open job, in seconds."""
        self._submitted_s: dict[int, float] = {}
        self._waiting: dict[int, None] = {}
        """Waiting jobs, in the order of the queue."""
        self._started_s: dict[int, float] = {}
        self._planned_s: dict[int, float] = {}
        """Planned or actual start of each open job, in seconds."""
        self._plan = FcfsPlan(processors, (), -inf)
        self._deviations = 0
        """Number of deviations since the plan was made."""
        self._due: list[tuple[float, int]] = []
        """Heap of (expected end in seconds, job) of running jobs. Entries of jobs that have ended
        are ignored."""

    def submit(self, job: int, cores: int, length_s: float, now_s: float) -> None:
        self._cores[job], self._lengths_s[job] = cores, length_s
        self._submitted_s[job] = now_s
        self._refresh(now_s)
        self._planned_s[job] = self._plan.add(cores, length_s, now_s)
        self._waiting[job] = None

    def start(self, job: int, now_s: float) -> None:
        del self._waiting[job]
        self._started_s[job] = now_s
        if self._planned_s[job] != now_s:
            self._planned_s[job] = now_s
            self._deviations += 1
        heappush(self._due, (now_s + self._lengths_s[job], job))

    def end(self, job: int, now_s: float) -> None:
        started_s = self._started_s.pop(job)
        # An end also changes the expected run times of its class.
        if self._kinds is not None or started_s + self._lengths_s[job] != now_s:
            self._deviations += 1
        for known in (self._cores, self._lengths_s, self._submitted_s, self._planned_s):
            del known[job]

    def correct(self) -> None:
        self._deviations += 1

    def start_s(self, cores: int, length_s: float, now_s: float) -> float:
        self._refresh(now_s)
        return self._plan.start_s(cores, now_s)

    def sums(self, now_s: float) -> OpenSums:
        """Implements `Estimates.sums`. Cost: linear in the number of open jobs."""
        self._refresh(now_s)
        return self.loads()

    def loads(self) -> OpenSums:
        """Implements `Estimates.loads`. Cost: linear in the number of open jobs."""
        sums = OpenSums()
        for job, at_s in self._submitted_s.items():
            sums.add(self._cores[job], self._lengths_s[job], at_s, self._planned_s[job] - at_s)
        return sums

    def overdue_work(self, now_s: float) -> float:
        """Implements `Estimates.overdue_work`. Cost: linear in the number of open jobs."""
        cores, lengths_s = self._cores, self._lengths_s
        return sum(
            cores[job] * lengths_s[job] * max(0.0, now_s - at_s - lengths_s[job])
            for job, at_s in self._planned_s.items()
        )

    def last_end_s(self, now_s: float) -> float:
        """Implements `Estimates.last_end_s`. Cost: linear in the number of open jobs."""
        self._refresh(now_s)
        lengths_s = self._lengths_s
        ends_s = [at_s + lengths_s[job] for job, at_s in self._planned_s.items()]
        return max(ends_s, default=now_s)

    def _refresh(self, now_s: float) -> None:
        """Renew the plan if there are more deviations than the queue tolerates."""
        due, started = self._due, self._started_s
        while due and due[0][0] <= now_s:
            if heappop(due)[1] in started:
                self._deviations += 1
        if self._deviations > len(self._cores) // EXACT:
            self._plan_anew(now_s)

    def _plan_anew(self, now_s: float) -> None:
        self._deviations = 0
        lengths_s = self._lengths_s
        if (kinds := self._kinds) is not None:
            known: dict[int, float] = {}
            for job in lengths_s:
                kind = kinds[job]
                length_s = known.get(kind)
                if length_s is None:
                    length_s = known[kind] = self._expected_s(job)
                lengths_s[job] = length_s
        cores, planned_s, due = self._cores, self._planned_s, []
        for job, started_s in self._started_s.items():
            length_s = lengths_s[job]
            if length_s <= now_s - started_s:
                length_s = lengths_s[job] = doubled_s(length_s, now_s - started_s)
            due.append((started_s + length_s, job))
        ends = [(end_s, cores[job]) for end_s, job in due]
        heapify(due)
        self._due = due
        plan = self._plan = FcfsPlan.of_ends(self._processors, ends, now_s)
        for job in self._waiting:
            planned_s[job] = plan.add(cores[job], lengths_s[job], now_s)
