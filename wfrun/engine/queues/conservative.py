"""Conservative backfilling (Mu'alem and Feitelson, IEEE TPDS 12(6), 2001).

Every job gets a reservation when it is submitted: the earliest time at which its processors are
free for its requested time, beside all running jobs and all earlier reservations. The job starts
then or earlier. When a job ends early or leaves the queue, the plan is *compressed*: each waiting
job, in the order of the queue, is moved to the earliest time that is now possible, which is never
later than before. A job that moves also makes room for jobs before it in the queue. The compression
is therefore repeated until no job moves; otherwise jobs could wait although the cluster is idle.

Reservations hold as long as no job runs past its request. If a job does, its expected end is put
off as Tsafrir, Etsion and Feitelson (IEEE TPDS 18, 2007) correct predictions: by 1 minute the first
time, then by 5, 15 and 30 minutes, 1, 2, 5, 10, 20, 50 and 100 hours. The whole queue is planned
again in its order if the new end collides with a reservation, if reserved processors go out of
service, or if a job could not start at its reservation. A job that requests less than a second is
planned for one second.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from typing import ClassVar

import msgspec

from wfrun.engine.queues.lrm import JobId, QueuedJob, check_request
from wfrun.engine.queues.profile import Profile
from wfrun.engine.queues.queue import QueueCounts
from wfrun.engine.queues.running import Running

SHORTEST_S = 1.0
"""Minimum length of a reservation in seconds: a reservation of length zero would reserve
nothing."""

CORRECTIONS_S = (
    60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 18000.0, 36000.0, 72000.0, 180000.0, 360000.0,
)  # fmt: skip
"""Successive extensions of the expected end of a job in seconds; the last one is repeated."""


class _Waiting(msgspec.Struct, gc=False):
    """A job of the queue and its reservation."""

    id: JobId
    cores: int
    length_s: float
    number: int
    """Position in the order of submission."""
    start_s: float
    is_late: bool
    """Whether another scheduler has planned the start. An earlier start may then be possible
    although no processors became free."""


class Conservative(QueueCounts):
    """Implements ``Lrm``. ``planned_start_s`` is the start of the job's reservation.

    The plan is a profile of free processors. Planning a job costs a walk over the steps of the
    profile; compressing costs little for a job that cannot gain by it.
    """

    name: ClassVar[str] = "conservative"

    def __init__(self, processors: int) -> None:
        self._running = Running(processors)
        self._queue: OrderedDict[JobId, _Waiting] = OrderedDict()
        self._by_start: list[tuple[float, int, JobId]] = []
        """(planned start, number of the submission, job) of the whole queue, ascending."""
        self._profile = Profile(processors, float("-inf"))
        self._bounds: defaultdict[int, StartBounds] = defaultdict(StartBounds)
        """By number of processors: bounds of the starts of jobs that join the plan. They hold until
        processors become free, as the plan only fills."""
        self._submissions = 0
        self._gap_from_s = float("inf")
        """Begin of the gap in seconds; inf: no gap. The gap is the smallest interval that contains
        all processor time that was freed since the last compression."""
        self._gap_to_s = float("-inf")
        """End of the gap in seconds; -inf: no gap."""
        self._kept_up_s = float("-inf")
        """Time to which the plan was last brought up to date."""
        self._corrections: dict[JobId, int] = {}
        """By running job: number of extensions of its expected end."""
        self._collides = False
        """Whether reserved processors went out of service since the plan was last brought up to
        date."""
        self.next_wakeup_s = float("inf")
        self.plan_number = 0

    def submit(self, job: QueuedJob, now_s: float, from_s: float = float("-inf")) -> None:
        """Implements `Lrm.submit`. ``from_s``: start of the job as planned by another scheduler.
        The reservation does not begin before ``from_s``, until a compression or a new plan moves
        it."""
        self._check(job)
        self._keep_up(now_s)
        self._submissions += 1
        length_s = max(SHORTEST_S, job.requested_s)
        is_late = from_s > now_s
        waiting = _Waiting(job.id, job.cores, length_s, self._submissions, now_s, is_late)
        self._queue[job.id] = waiting
        if is_late:
            start_s = self._profile.earliest_s(job.cores, length_s, from_s)
        else:
            start_s = self._earliest_s(job.cores, length_s, now_s)
        self._enter_plan(waiting, start_s)

    def end(self, job_id: JobId, now_s: float) -> None:
        expected_end_s, _, cores, _ = self._running.end(job_id)
        self._corrections.pop(job_id, None)
        self._release(now_s, expected_end_s, cores, now_s)

    def cancel(self, job_id: JobId, now_s: float) -> None:
        waiting = self._queue.pop(job_id, None)
        if waiting is None:
            self.end(job_id, now_s)
            return
        self._leave_plan(waiting)
        self._release(waiting.start_s, waiting.start_s + waiting.length_s, waiting.cores, now_s)

    def occupy(self, job: QueuedJob, now_s: float) -> None:
        expected_end_s = now_s + max(SHORTEST_S, job.requested_s)
        self._running.occupy(job, expected_end_s)
        self._profile.advance(now_s)
        self._profile.add(now_s, expected_end_s, -job.cores)
        self._collides |= self._profile.min_free(now_s, expected_end_s) < 0

    def schedule(self, now_s: float) -> list[JobId]:
        self._keep_up(now_s)
        by_start = self._by_start
        due = sorted(
            (number, job_id)
            for _, number, job_id in by_start[
                : bisect_left(by_start, (now_s, self._submissions + 1))
            ]
        )
        started: list[JobId] = []
        for _, job_id in due:
            waiting = self._queue[job_id]
            # It may have to wait for jobs whose end is due but not yet reported.
            if waiting.cores <= self._running.free:
                del self._queue[job_id]
                self._leave_plan(waiting)
                self._running.start(job_id, waiting.cores, now_s + waiting.length_s)
                started.append(job_id)
        self.next_wakeup_s = self._wakeup_s(now_s)
        return started

    def estimate_start_s(self, cores: int, requested_s: float, now_s: float) -> float:
        check_request(cores, requested_s, self._running.processors)
        self._keep_up(now_s)
        return self._earliest_s(cores, max(SHORTEST_S, requested_s), now_s)

    def planned_start_s(self, job_id: JobId, now_s: float) -> float:
        self._keep_up(now_s)
        return self._queue[job_id].start_s

    def planned_starts_s(self, now_s: float) -> Mapping[JobId, float]:
        self._keep_up(now_s)
        return {job_id: start_s for start_s, _, job_id in self._by_start}

    def last_end_s(self, now_s: float) -> float:
        self._keep_up(now_s)
        return max(now_s, self._profile.last_step_s)

    def _wakeup_s(self, now_s: float) -> float:
        """Return the time of the next planned start; infinite if no job waits. While a job whose
        start is due waits for the end of an overdue job, the time is at most a minute from now."""
        by_start = self._by_start
        if not by_start:
            return float("inf")
        if by_start[0][0] > now_s:
            return by_start[0][0]
        after = bisect_left(by_start, (now_s, self._submissions + 1))
        patience_s = now_s + CORRECTIONS_S[0]
        return min(patience_s, by_start[after][0]) if after < len(by_start) else patience_s

    def _keep_up(self, now_s: float) -> None:
        """Bring the plan up to date: correct overdue ends, and plan anew or compress if
        necessary."""
        freed = self._gap_from_s < self._gap_to_s
        if now_s == self._kept_up_s and not freed and not self._collides:
            return
        self._kept_up_s = now_s
        self._profile.advance(now_s)
        by_end = self._running.by_end
        collides, self._collides = self._collides, False
        while by_end and by_end[0][0] < now_s:
            collides |= self._put_off(by_end[0][3], now_s)
        missed = bool(self._by_start) and self._by_start[0][0] < now_s
        if collides or missed:
            self._plan_anew(now_s)
        else:
            self._compress(now_s)

    def _put_off(self, job_id: JobId, now_s: float) -> bool:
        """Extend the expected end of an overdue job. Returns whether the extension collides with a
        reservation."""
        expected_end_s, _, cores, _ = self._running.by_end[0]
        times = self._corrections.get(job_id, 0)
        while expected_end_s <= now_s:
            expected_end_s += CORRECTIONS_S[min(times, len(CORRECTIONS_S) - 1)]
            times += 1
        self._corrections[job_id] = times
        self._running.expect(job_id, expected_end_s)
        self._profile.add(now_s, expected_end_s, -cores)
        return self._profile.min_free(now_s, expected_end_s) < 0

    def _plan_anew(self, now_s: float) -> None:
        self.plan_number += 1
        running = [(end_s, cores) for end_s, _, cores, _ in self._running.by_end]
        self._profile = profile = Profile.of_ends(self._running.processors, now_s, running)
        self._bounds.clear()
        for waiting in self._queue.values():
            start_s = self._earliest_s(waiting.cores, waiting.length_s, now_s)
            profile.add(start_s, start_s + waiting.length_s, -waiting.cores)
            waiting.start_s, waiting.is_late = start_s, False
        self._by_start = sorted((job.start_s, job.number, job.id) for job in self._queue.values())
        self._gap_from_s, self._gap_to_s = float("inf"), float("-inf")

    def _earliest_s(self, cores: int, length_s: float, now_s: float) -> float:
        """The earliest start of a job that joins the plan."""
        known = self._bounds[cores]
        from_s = max(now_s, known.bound_s(length_s))
        start_s = self._profile.earliest_s(cores, length_s, from_s)
        if start_s > from_s:
            known.add(length_s, start_s)
        return start_s

    def _enter_plan(self, waiting: _Waiting, start_s: float) -> None:
        waiting.start_s = start_s
        self._profile.add(start_s, start_s + waiting.length_s, -waiting.cores)
        insort(self._by_start, (start_s, waiting.number, waiting.id))

    def _leave_plan(self, waiting: _Waiting) -> None:
        place = bisect_left(self._by_start, (waiting.start_s, waiting.number, waiting.id))
        del self._by_start[place]

    def _release(self, start_s: float, end_s: float, cores: int, now_s: float) -> None:
        """Note in the plan that processors have become free in [start_s, end_s)."""
        start_s = max(start_s, now_s)
        if start_s < end_s:
            self._profile.advance(now_s)
            self._profile.add(start_s, end_s, cores)
            self._bounds.clear()
            self._gap_from_s = min(self._gap_from_s, start_s)
            self._gap_to_s = max(self._gap_to_s, end_s)

    def _compress(self, now_s: float) -> None:
        """Move jobs of the queue to earlier starts until none can move."""
        while self._gap_from_s < self._gap_to_s:
            gap_from_s, gap_to_s = max(now_s, self._gap_from_s), self._gap_to_s
            self._gap_from_s, self._gap_to_s = float("inf"), float("-inf")
            if gap_from_s < gap_to_s:
                self._move_up(gap_from_s, gap_to_s, now_s)

    def _move_up(self, gap_from_s: float, gap_to_s: float, now_s: float) -> None:
        """Give each job in turn its earliest start. The processors that a moved job leaves widen
        the gap for later jobs, and form the next gap for earlier jobs."""
        profile = self._profile
        search = _Search(profile, gap_from_s, gap_to_s, now_s)
        for waiting in self._queue.values():
            cores, old_s = waiting.cores, waiting.start_s
            if cores > search.most or old_s <= gap_from_s:
                continue
            start_s = search.better_s(waiting)
            if start_s >= old_s:
                continue
            self.plan_number += 1
            end_s, old_end_s = start_s + waiting.length_s, old_s + waiting.length_s
            freed_s = max(old_s, end_s)
            self._leave_plan(waiting)
            # The time that both reservations have stays as it is.
            profile.add(freed_s, old_end_s, cores)
            profile.add(start_s, min(old_s, end_s), -cores)
            waiting.start_s = start_s
            insort(self._by_start, (start_s, waiting.number, waiting.id))
            search.widen(freed_s, old_end_s)
            self._gap_from_s = min(self._gap_from_s, freed_s)
            self._gap_to_s = max(self._gap_to_s, old_end_s)


class _Search:
    """Finds earlier starts for jobs after a gap was freed. Before the gap was freed, no job had an
    earlier start.

    A job with an earlier start runs at times at which too few processors were free before. All such
    times are in the gap, so only starts that reach the gap need to be tried. If a job has no such
    start, then no job of the same width and at least the same length has one, unless processors
    have been freed since.
    """

    __slots__ = ("_failed", "_from_s", "_gap_to_s", "_now_s", "_profile", "_seen", "_widened_s",
                 "most")  # fmt: skip

    def __init__(self, profile: Profile, gap_from_s: float, gap_to_s: float, now_s: float) -> None:
        self._profile = profile
        self._from_s = gap_from_s
        self._gap_to_s = gap_to_s
        self._now_s = now_s
        self._widened_s: list[float] = []
        self._failed: dict[int, StartBounds] = {}
        """By number of processors: the searches without success, as bounds of starts."""
        self._seen: dict[int, int] = {}
        """By number of processors: the number of widenings that ``_failed`` takes into account."""
        self.most = profile.max_free(gap_from_s, gap_to_s)
        """Maximum number of free processors in the gap."""

    def widen(self, start_s: float, end_s: float) -> None:
        """Add processors that have become free."""
        self._widened_s.append(start_s)
        self._gap_to_s = max(self._gap_to_s, end_s)
        self.most = max(self.most, self._profile.max_free(start_s, end_s))

    def better_s(self, job: _Waiting) -> float:
        """The earliest start of a job; its planned start if there is no earlier one."""
        profile, cores, length_s = self._profile, job.cores, job.length_s
        # It overlaps its own reservation, or is over before the time without enough processors that
        # precedes the first start that does.
        reaching_s = profile.free_since_s(cores, job.start_s)
        from_s = self._from_s - length_s
        if from_s < self._now_s:
            from_s = self._now_s
        if from_s + length_s >= reaching_s:  # most jobs, so nothing is looked up before
            return reaching_s
        failed = None if job.is_late else self._failed_with(cores)
        if failed is not None:
            from_s = max(from_s, failed.bound_s(length_s))
        gap_to_s = self._gap_to_s
        if from_s >= gap_to_s or from_s + length_s >= reaching_s:
            return reaching_s
        found_s = profile.earliest_before_s(cores, length_s, from_s, gap_to_s, reaching_s)
        if found_s is not None:
            return found_s
        if failed is not None:
            failed.add(length_s, min(reaching_s, gap_to_s))
        return reaching_s

    def _failed_with(self, cores: int) -> StartBounds:
        """The searches for this number of processors, brought up to date."""
        widened_s = self._widened_s
        failed = self._failed.get(cores)
        if failed is None:
            failed = self._failed[cores] = StartBounds()
        elif (seen := self._seen[cores]) < len(widened_s):
            failed.forget(self._profile.free_since_s(cores, min(widened_s[seen:])))
        self._seen[cores] = len(widened_s)
        return failed


class StartBounds:
    """Lower bounds of the starts of jobs with one number of processors. A bound for a length holds
    for all longer jobs, too. A query or a change costs a binary search."""

    __slots__ = ("_bounds_s", "_lengths_s")

    def __init__(self) -> None:
        self._lengths_s: list[float] = []
        """Lengths in seconds, ascending; their bounds ascend, too."""
        self._bounds_s: list[float] = []

    def bound_s(self, length_s: float) -> float:
        """The latest known bound for a job of this length, in seconds; -inf without one."""
        place = bisect_right(self._lengths_s, length_s)
        return self._bounds_s[place - 1] if place else float("-inf")

    def add(self, length_s: float, bound_s: float) -> None:
        """Add a bound that is later than the known one for this length."""
        lengths_s, bounds_s = self._lengths_s, self._bounds_s
        first = last = bisect_right(lengths_s, length_s)
        while last < len(bounds_s) and bounds_s[last] <= bound_s:
            last += 1
        lengths_s[first:last] = [length_s]
        bounds_s[first:last] = [bound_s]

    def forget(self, since_s: float) -> None:
        """Lower later bounds to ``since_s``: starts from then on may be possible again."""
        first = bisect_left(self._bounds_s, since_s)
        if first < len(self._bounds_s):
            self._bounds_s[first:] = [since_s]
            del self._lengths_s[first + 1 :]
