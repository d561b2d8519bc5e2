"""Models of the queues of sites: when a queue would start another task.

This is the information service of thesis section 6.1.3 ("responds to queries regarding the
estimated start times"). It plans with the expected run times of all running and waiting jobs at the
site, first come, first served, or with backfilling, like the LRM of the site. If the queue shows
the starts that it plans itself, the model follows this plan (docs/decisions/0019): jobs start at
the shown starts and hold their cores for their walltimes. Their ends are still expected after their
expected run times.

When jobs end at other times than expected, the plan becomes stale and is rebuilt from the open
jobs. The cost of a rebuild grows with the number of jobs. The plan is therefore rebuilt only after
a fixed share of the jobs has ended unexpectedly: the cost per task does not grow with the queue.
Queries change nothing, so that a replay, which makes none, leads to the same model.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import floor, inf, ldexp, log2
from typing import NamedTuple

import msgspec

from wfrun.engine.jobs.open_sums import OpenSums, Overdue
from wfrun.engine.queues.profile import Profile

MAX_PASSED_S = 600.0
"""Maximum time in seconds since the planned start of a job that still waits. An older planned start
is ignored: schedulers plan again within minutes."""
MAX_AHEAD_S = 366 * 86_400.0
"""Maximum time until a planned start, in seconds. A later start is ignored."""

Predict = Callable[[], float | None]
"""Callback: returns the present prediction of a job's run time, in seconds; None if unknown."""


class Expected(NamedTuple):
    """A running or waiting job in the model."""

    cores: int
    runtime_s: float
    started_s: float | None
    """Start time in seconds; None while the job waits."""
    is_predicted: bool = False
    """Whether the run time is a prediction."""
    requested_s: float | None = None
    """Run time in seconds after which the job is killed; None if unknown."""
    planned_s: float | None = None
    """Start that the queue itself plans; None: the job runs, or the queue shows no plan."""


def planned_start_s(planned_s: float | None, now_s: float) -> float | None:
    """Return ``planned_s``, the start that a queue plans for a waiting job, but not before
    ``now_s``. Return None if the queue shows no start, or a start beyond `MAX_PASSED_S` or
    `MAX_AHEAD_S`."""
    if planned_s is None or not -MAX_PASSED_S <= planned_s - now_s <= MAX_AHEAD_S:
        return None
    return max(now_s, planned_s)


class _Open(msgspec.Struct):
    """An open task of this run."""

    cores: int
    runtime_s: float
    expected_end_s: float
    predict_s: Predict | None
    submitted_s: float
    wait_s: float
    """Wait from submission to start, in seconds: the actual or the planned one."""
    requested_s: float | None
    """Walltime of the task in seconds; None: no walltime."""
    started_s: float | None = None


class QueueModel(ABC):
    """The expected schedule of one site, other users' jobs included."""

    def __init__(self, slots: int, *, keeps_totals: bool = True) -> None:
        """``keeps_totals``: whether ``sums`` and ``overdue_work`` are kept up to date."""
        self._slots = slots
        self._keeps_totals = keeps_totals
        self._overdue: Overdue[str] = Overdue()
        """All open tasks, with the completion times that count in ``sums``."""
        self._open: dict[str, _Open] = {}
        self._background: tuple[Expected, ...] = ()
        self._deviations = 0
        """Number of deviations since the last rebuild: tasks that ended at an unexpected time, and
        tasks that were planned to start immediately although no core is free."""
        self.rebuilds = 0
        """Number of times that the plan was rebuilt."""
        self.follows_plan = False
        """Whether the plan follows the starts that the queue itself plans and shows."""
        self._starts_s: Mapping[str, float] = {}
        """Starts that the queue plans for our waiting tasks, by key, as of the latest
        observation."""
        self._held_cores = 0
        """Cores of all open tasks."""
        self.sums = OpenSums()
        """Sums over all open tasks."""
        self._last_end_s = float("-inf")
        """Latest expected end since the last rebuild, other users' jobs included."""
        self._planned: list[tuple[int, float, float]] = []
        """Cores, run time and earliest start of each task added by ``plan``."""
        self._clear(float("-inf"))

    @abstractmethod
    def start_s(self, cores: int, duration_s: float, now_s: float) -> float:
        """Earliest start, not before now, of a task that arrives now and holds its cores for
        ``duration_s``; infinite if it is larger than the site."""

    @abstractmethod
    def _clear(self, now_s: float) -> None:
        """Start an empty plan."""

    @abstractmethod
    def _save(self) -> None:
        """Save the plan."""

    @abstractmethod
    def _restore(self) -> None:
        """Restore the plan as it was saved."""

    @abstractmethod
    def _reserve(self, cores: int, runtime_s: float, from_s: float) -> float:
        """Add a job to the end of the queue; returns its expected end."""

    def place(
        self,
        key: str,
        cores: int,
        runtime_s: float,
        now_s: float,
        ready_s: float,
        predict_s: Predict | None = None,
        requested_s: float | None = None,
    ) -> None:
        """Add a task to the queue; its inputs arrive at ``ready_s``. ``requested_s`` is its
        walltime.

        ``predict_s`` is given if ``runtime_s`` is a prediction. It is called at each rebuild, when
        more tasks of its class have ended (thesis section 7.3.1).
        """
        planned = self.end_plan() if self._planned else ()
        held_s = self.held_s(runtime_s, requested_s)
        # A task may hold more cores than the site has, whose catalog entry changed on resume.
        fitting = min(cores, self._slots)
        end_s = self._reserve(fitting, held_s, max(now_s, ready_s)) - (held_s - runtime_s)
        wait_s = end_s - runtime_s - now_s
        job = _Open(cores, runtime_s, end_s, predict_s, now_s, wait_s, requested_s)
        self._open[key] = job
        self._held_cores += cores
        self._last_end_s = max(self._last_end_s, end_s)
        if self._keeps_totals:
            self.sums.add(cores, runtime_s, now_s, wait_s)
            self._expect_completion(key, job)
        if (
            predict_s is not None
            and self._held_cores > self._slots
            and end_s <= ready_s + runtime_s
        ):
            self._count_deviation(
                now_s
            )  # Planned to start now, but no core is free: predictions were too short.
        for task in planned:
            self.plan(*task)

    def held_s(self, duration_s: float, requested_s: float | None) -> float:
        """Time for which the plan reserves the cores of a task, in seconds: its walltime if the
        model follows the plan of the queue (``follows_plan``), otherwise its expected duration."""
        return requested_s if self.follows_plan and requested_s else duration_s

    def plan(self, cores: int, runtime_s: float, from_s: float) -> None:
        """Add a tentative task to the end of the queue: it is not placed yet, and ``end_plan``
        removes it."""
        if not self._planned:
            self._save()
        self._planned.append((cores, runtime_s, from_s))
        self._reserve(cores, runtime_s, from_s)

    @property
    def has_plan(self) -> bool:
        """Whether there are tentative tasks, added by ``plan``."""
        return bool(self._planned)

    def end_plan(self) -> Sequence[tuple[int, float, float]]:
        """Remove the tentative tasks, which were added by ``plan``. Returns them."""
        planned = self._planned
        if planned:
            self._planned = []
            self._restore()
        return planned

    def start(self, key: str, now_s: float) -> None:
        """Note that a task has started; its wait is now the actual one."""
        job = self._open.get(key)
        if job is not None:
            job.started_s = now_s
            if self._keeps_totals:
                self._wait(job, now_s - job.submitted_s)
                self._expect_completion(key, job)

    def unstart(self, key: str) -> None:
        """Note that a task waits although it was believed to run."""
        job = self._open.get(key)
        if job is not None:
            job.started_s = None

    def end(self, key: str, now_s: float) -> None:
        """Remove a task that has ended or was withdrawn. An end at an unexpected time counts as a
        deviation, which may cause a rebuild of the plan."""
        job = self._open.pop(key, None)
        if job is None:
            return
        self._held_cores -= job.cores
        if self._keeps_totals:
            self._overdue.remove(key)
            self.sums.remove(job.cores, job.runtime_s, job.submitted_s, job.wait_s)
        if abs(now_s - job.expected_end_s) > 0.05 * job.runtime_s + 1e-6:
            self._count_deviation(now_s)

    def last_end_s(self, now_s: float) -> float:
        """Time at which the last job is expected to end, other users' jobs included; now, if there
        is none."""
        return max(now_s, self._last_end_s) if self._open or self._background else now_s

    @property
    def background(self) -> Sequence[Expected]:
        """Other users' jobs of the latest observation, running jobs first."""
        return self._background

    def overdue_work(self, now_s: float) -> float:
        """Return the `Overdue.work` of all open tasks."""
        return self._overdue.work(now_s)

    def _expect_completion(self, key: str, job: _Open) -> None:
        completion_s = job.submitted_s + job.wait_s + job.runtime_s
        self._overdue.expect(key, completion_s, job.cores * job.runtime_s)

    def _wait(self, job: _Open, wait_s: float) -> None:
        if self._keeps_totals:
            self.sums.wait(job.cores, job.runtime_s, wait_s - job.wait_s)
        job.wait_s = wait_s

    def _count_deviation(self, now_s: float) -> None:
        self._deviations += 1
        # A rebuild costs as much as there are jobs, so it is made once in a fixed share of them:
        # the cost per end does not grow with the queue.
        if self._deviations > max(4, (len(self._open) + len(self._background)) // 4):
            self._rebuild(now_s)

    def observe(
        self,
        background: Iterable[Expected],
        now_s: float,
        starts_s: Mapping[str, float] | None = None,
    ) -> None:
        """Replace the jobs of other users and the starts of our tasks, and rebuild the plan.
        ``background``: jobs of other users, running jobs first; ``starts_s``: starts that the queue
        plans for our tasks, by key."""
        self._background = tuple(background)
        self._starts_s = starts_s or {}
        self._rebuild(now_s)

    def _rebuild(self, now_s: float) -> None:
        """Plan all jobs anew. Running jobs come first, since they hold their cores. Waiting jobs
        with a start planned by the queue follow; then the other waiting jobs, those of other users
        first because their arrival times are unknown. Running jobs are added from the latest end to
        the earliest: each then comes before all steps of the profile, which is the cheapest
        order."""
        self._deviations = 0
        self.rebuilds += 1
        self._clear(now_s)
        self._last_end_s = float("-inf")
        for job in self._open.values():
            if job.predict_s is not None:
                self._expect(job, job.predict_s() or job.runtime_s)
        jobs: list[Expected | _Open] = [*self._background, *self._open.values()]
        running = [j for j in jobs if j.started_s is not None]
        running.sort(key=_expected_end_s, reverse=True)
        waiting = self._waiting(now_s)
        self.follows_plan = bool(waiting) and waiting[0][1] is not None
        for one, from_s in [(one, None) for one in running] + waiting:
            left = left_s(one, now_s)
            held_s = self.held_s(left, requested_left_s(one, now_s))
            from_s = now_s if from_s is None else from_s
            end_s = self._reserve(min(one.cores, self._slots), held_s, from_s) - (held_s - left)
            self._last_end_s = max(self._last_end_s, end_s)
            if isinstance(one, _Open):
                one.expected_end_s = end_s
                if one.started_s is None:
                    self._wait(one, end_s - one.runtime_s - one.submitted_s)
        if self._keeps_totals:
            for key, job in self._open.items():
                self._expect_completion(key, job)

    def _waiting(self, now_s: float) -> list[tuple[Expected | _Open, float | None]]:
        """Return all waiting jobs in the order in which they are planned, each with the start that
        the queue plans (None: it shows no start)."""
        waiting: list[tuple[Expected | _Open, float | None]] = [
            (job, self._planned_start_s(job.planned_s, now_s))
            for job in self._background
            if job.started_s is None
        ]
        waiting += [
            (job, self._planned_start_s(self._starts_s.get(key), now_s))
            for key, job in self._open.items()
            if job.started_s is None
        ]
        return sorted(waiting, key=lambda each: inf if each[1] is None else each[1])

    def _planned_start_s(self, planned_s: float | None, now_s: float) -> float | None:
        return planned_start_s(planned_s, now_s)

    def backfilling(self) -> BackfillModel:
        """This model if it backfills; otherwise a backfilling model with our tasks. The caller must
        ``observe`` next: the new model lacks the jobs of other users."""
        if isinstance(self, BackfillModel):
            return self
        made = BackfillModel(self._slots, keeps_totals=self._keeps_totals)
        made._open, made._held_cores, made.sums = self._open, self._held_cores, self.sums
        made._overdue = self._overdue
        made.rebuilds, made._last_end_s = self.rebuilds, self._last_end_s
        for task in self.end_plan():
            made.plan(*task)
        return made

    def _expect(self, job: _Open, runtime_s: float) -> None:
        """Change the expected run time of an open task."""
        if runtime_s != job.runtime_s:
            if self._keeps_totals:
                self.sums.remove(job.cores, job.runtime_s, job.submitted_s, job.wait_s)
                self.sums.add(job.cores, runtime_s, job.submitted_s, job.wait_s)
            job.runtime_s = runtime_s


def left_s(job: Expected | _Open, now_s: float) -> float:
    """Expected time until the end of a job. An overdue job is expected to end now. If its run time
    is a prediction, the prediction is doubled instead until it exceeds the time that the job has
    run (thesis section 7.3.1)."""
    if job.started_s is None:
        return job.runtime_s
    left_s = _expected_end_s(job) - now_s
    is_predicted = job.predict_s is not None if isinstance(job, _Open) else job.is_predicted
    if left_s <= 0 and is_predicted:
        return _doubled_s(job.runtime_s, now_s - job.started_s)
    return max(0.0, left_s)


def requested_left_s(job: Expected | _Open, now_s: float) -> float | None:
    """Time until a job is killed; None if it is unknown or has passed."""
    if job.requested_s is None:
        return None
    left = job.requested_s - (0.0 if job.started_s is None else now_s - job.started_s)
    return left if left > 0 else None


def _doubled_s(predicted_s: float, elapsed_s: float) -> float:
    """Time left of a job that has run for at least its predicted time. If the prediction is 0, the
    job is assumed to be half done."""
    if predicted_s <= 0:
        return elapsed_s
    return ldexp(predicted_s, floor(log2(elapsed_s / predicted_s)) + 1) - elapsed_s


def _expected_end_s(running: Expected | _Open) -> float:
    assert running.started_s is not None
    return running.started_s + running.runtime_s


class FcfsModel(QueueModel):
    """First come, first served: a heap of the times at which cores become free. A query costs
    O(cores log slots), O(1) for one core; a placement costs O(cores log slots)."""

    def start_s(self, cores: int, duration_s: float, now_s: float) -> float:
        free_s = self._free_s
        if cores == 1:
            return max(now_s, free_s[0])
        if cores > self._slots:
            return float("inf")
        return max(now_s, heapq.nsmallest(cores, free_s)[-1])

    def _planned_start_s(self, planned_s: float | None, now_s: float) -> float | None:
        """Return None: a queue in strict order has no plan whose holes could be used."""
        return None

    def _clear(self, now_s: float) -> None:
        self._free_s = [now_s] * self._slots

    def _save(self) -> None:
        self._saved_s = self._free_s.copy()

    def _restore(self) -> None:
        self._free_s = self._saved_s

    def _reserve(self, cores: int, runtime_s: float, from_s: float) -> float:
        """Reserve the ``cores`` cores that become free first; returns their expected end."""
        free_s = self._free_s
        if cores == 1:
            end_s = max(free_s[0], from_s) + runtime_s
            heapq.heapreplace(free_s, end_s)
            return end_s
        taken = [heapq.heappop(free_s) for _ in range(cores)]
        end_s = max(taken[-1], from_s) + runtime_s
        for _ in taken:
            heapq.heappush(free_s, end_s)
        return end_s


class BackfillModel(QueueModel):
    """Backfilling: in the order of the queue each job gets a reservation for the earliest time at
    which its cores are free for its expected run time.

    This is conservative backfilling. Estimates for schedulers that promise less (EASY) are commonly
    made in the same way (Mu'alem and Feitelson, IEEE TPDS 12(6), 2001). A query and a placement
    cost O(slots): when the plan has many more steps than the site has cores, its furthest holes are
    given up.
    """

    def start_s(self, cores: int, duration_s: float, now_s: float) -> float:
        if cores > self._slots:
            return float("inf")
        return self._profile.earliest_s(cores, duration_s, now_s)

    def place(
        self,
        key: str,
        cores: int,
        runtime_s: float,
        now_s: float,
        ready_s: float,
        predict_s: Predict | None = None,
        requested_s: float | None = None,
    ) -> None:
        self._profile.advance(now_s)
        super().place(key, cores, runtime_s, now_s, ready_s, predict_s, requested_s)

    def _clear(self, now_s: float) -> None:
        self._profile = Profile(self._slots, now_s)

    def _save(self) -> None:
        self._saved = self._profile.copy()

    def _restore(self) -> None:
        self._profile = self._saved

    def _reserve(self, cores: int, runtime_s: float, from_s: float) -> float:
        profile = self._profile
        start_s = profile.earliest_s(cores, runtime_s, from_s)
        end_s = start_s + runtime_s
        profile.add(start_s, end_s, -cores)
        if len(profile) > 2 * (self._slots + NEAR_STEPS):
            profile.give_up_holes(NEAR_STEPS)
        return end_s


NEAR_STEPS = 64
"""Number of first steps of a plan whose holes are never given up."""


def make_queue_model(slots: int, *, backfills: bool, keeps_totals: bool = True) -> QueueModel:
    """A queue model of an idle site. ``backfills``: whether the LRM of the site backfills."""
    kind = BackfillModel if backfills else FcfsModel
    return kind(slots, keeps_totals=keeps_totals)
