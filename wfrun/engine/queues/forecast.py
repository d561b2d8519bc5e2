"""Starts of waiting jobs if no other job comes and every job takes its requested time.

FCFS and EASY plan at most one job ahead. Estimates therefore come from a plan with a reservation
for every waiting job, in the order of the queue. For FCFS the plan is exact if the requested times
are exact. For EASY it holds for jobs that are not backfilled in the meantime; schedulers of real
clusters estimate start times in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from wfrun.engine.queues.lrm import JobId, QueuedJob
from wfrun.engine.queues.profile import Profile
from wfrun.engine.queues.running import Running


class Forecast:
    """The plan of a queue. It is made for the first estimate, extended by each new job, and dropped
    when a start or an end deviates from it. A job past its request counts as about to end.

    A job that requests 0 s delays no other job in a plan, although it may delay jobs in the queue.
    While such a job waits, each estimate makes a new plan.

    ``in_order``: no job starts before a job that was submitted earlier.
    """

    __slots__ = ("_bounds_s", "_in_order", "_last_s", "_made_s", "_queue", "_running",
                 "_starts_s", "number", "profile")  # fmt: skip

    def __init__(
        self, running: Running, queue: Mapping[JobId, QueuedJob], *, in_order: bool
    ) -> None:
        self._running = running
        self._queue = queue
        self._in_order = in_order
        self.profile: Profile | None = None
        """The plan; None before the first estimate and after an event that deviates from the
        plan."""
        self._starts_s: dict[JobId, float] = {}
        self._bounds_s: dict[tuple[int, float], float] = {}
        """By cores and requested time: the start of the last such job in the plan. A plan only
        fills, so the next equal job does not start earlier. Users submit thousands of equal
        jobs."""
        self._last_s = 0.0
        self._made_s = -inf
        """Time at which the plan was made."""
        self.number = 0
        """Number of plans so far. While it does not change, planned starts do not change either."""

    def submitted(self, job: QueuedJob, now_s: float) -> None:
        """Extend the plan by a new job."""
        if job.requested_s and self.profile is not None:
            self.profile.advance(now_s)
            self._extend(self.profile, job, now_s)
        else:
            self.profile = None

    def started(self, job: QueuedJob, now_s: float) -> None:
        """Drop the plan if the job was to start at another time."""
        if self._starts_s.pop(job.id) != now_s:
            self.profile = None

    def start_s(self, cores: int, requested_s: float, now_s: float) -> float:
        """The start of a job with this request at the end of the queue."""
        if not self._queue:
            return self._running.free_at_s(cores, now_s)  # needs no plan
        return self._find_s(self._plan(now_s), cores, requested_s, now_s)

    def planned_s(self, job_id: JobId, now_s: float) -> float:
        """The planned start of a job in the queue. Raises KeyError if the job does not wait."""
        self._plan(now_s)
        return max(now_s, self._starts_s[job_id])

    def starts_s(self, now_s: float) -> Mapping[JobId, float]:
        """The planned start of every job of the queue. A start that has passed means now."""
        self._plan(now_s)
        return self._starts_s

    def last_end_s(self, now_s: float) -> float:
        """Time from which all processors are free for ever."""
        return max(now_s, self._plan(now_s).last_step_s)

    def _plan(self, now_s: float) -> Profile:
        by_end = self._running.by_end
        overdue = bool(by_end) and by_end[0][0] < now_s
        if self.profile is None or (overdue and self._made_s != now_s):
            profile = self._make(now_s)
            lasts = all(job.requested_s for job in self._queue.values())
            self.profile = profile if lasts else None
            return profile
        return self.profile

    def _make(self, now_s: float) -> Profile:
        ends = [(expected_end_s, cores) for expected_end_s, _, cores, _ in self._running.by_end]
        profile = Profile.of_ends(self._running.processors, now_s, ends)
        self.number += 1
        self._starts_s.clear()
        self._bounds_s.clear()
        self._last_s = self._made_s = now_s
        for job in self._queue.values():
            self._extend(profile, job, now_s)
        return profile

    def _extend(self, profile: Profile, job: QueuedJob, now_s: float) -> None:
        start_s = self._find_s(profile, job.cores, job.requested_s, now_s)
        profile.add(start_s, start_s + job.requested_s, -job.cores)
        self._starts_s[job.id] = self._last_s = start_s
        self._bounds_s[job.cores, job.requested_s] = start_s

    def _find_s(self, profile: Profile, cores: int, requested_s: float, now_s: float) -> float:
        bound_s = (
            self._last_s if self._in_order else self._bounds_s.get((cores, requested_s), now_s)
        )
        from_s = max(now_s, bound_s)
        return profile.earliest_s(cores, requested_s, from_s)
