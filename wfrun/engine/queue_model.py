"""When a site's queue would start another task.

This is the information service of thesis section 6.1.3 ("responds to queries regarding the
estimated start times"). It plans with the expected run times of all that runs and waits at the
site: first come, first served, or with backfilling, as the site's LRM does. Tasks that end earlier
or later than expected make the plan stale; it is then rebuilt from the open attempts, at most once
in a fixed share of their number, so that the cost per task does not grow with the queue. Questions
change nothing, so that a replayed model is the same.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from wfrun.engine.profile import Profile

Predict = Callable[[], float | None]
"""What a job is expected to take now, seconds; None: nothing is known."""


class Expected(NamedTuple):
    """A running or waiting job as the model sees it."""

    cores: int
    runtime_s: float
    started_s: float | None
    """None: still waiting."""


class _Open(msgspec.Struct):
    cores: int
    runtime_s: float
    expected_end_s: float
    predict_s: Predict | None
    started_s: float | None = None


class QueueModel(ABC):
    """The expected schedule of one site, the background load of others included."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._open: dict[str, _Open] = {}
        self._background: tuple[Expected, ...] = ()
        self._drifted = 0
        """Tasks that ended at another time than expected, since the last rebuild, and those that
        were to start where nothing is free."""
        self._held = 0
        """Cores of all open tasks."""
        self._clear(float("-inf"))

    @abstractmethod
    def start_s(self, cores: int, length_s: float, now_s: float) -> float:
        """When a task that arrives now and holds its cores for so long would start, at the
        earliest now; infinite for one that is larger than the site."""

    @abstractmethod
    def _clear(self, now_s: float) -> None:
        """Plan an idle site."""

    @abstractmethod
    def _reserve(self, cores: int, runtime_s: float, from_s: float) -> float:
        """Plan a job at the end of the queue; returns its expected end."""

    def place(
        self,
        key: str,
        cores: int,
        runtime_s: float,
        now_s: float,
        ready_s: float,
        predict_s: Predict | None = None,
    ) -> None:
        """A task joined the queue; its inputs will be there at ``ready_s``.

        With ``predict_s`` its run time is a prediction, which is corrected whenever the plan is
        rebuilt: by then tasks of its class have ended (thesis section 7.3.1)."""
        end_s = self._reserve(cores, runtime_s, max(now_s, ready_s))
        self._open[key] = _Open(cores, runtime_s, end_s, predict_s)
        self._held += cores
        if predict_s is not None and self._held > self._slots and end_s <= ready_s + runtime_s:
            self._drift(now_s)  # What is there runs for longer than was predicted.

    def start(self, key: str, now_s: float) -> None:
        job = self._open.get(key)
        if job is not None:
            job.started_s = now_s

    def unstart(self, key: str) -> None:
        """A task that was believed to run waits."""
        job = self._open.get(key)
        if job is not None:
            job.started_s = None

    def end(self, key: str, now_s: float) -> None:
        job = self._open.pop(key, None)
        if job is None:
            return
        self._held -= job.cores
        if abs(now_s - job.expected_end_s) > 0.05 * job.runtime_s + 1e-6:
            self._drift(now_s)

    def _drift(self, now_s: float) -> None:
        self._drifted += 1
        # A rebuild costs as much as there are jobs, others' included: once in a share of them, so
        # that each end costs the same however long the queue is.
        if self._drifted > max(4, (len(self._open) + len(self._background)) // 4):
            self._rebuild(now_s)

    def observe(self, background: Iterable[Expected], now_s: float) -> None:
        """The whole background load of the site, running jobs first."""
        self._background = tuple(background)
        self._rebuild(now_s)

    def _rebuild(self, now_s: float) -> None:
        """What runs has its cores. Of what waits others' jobs come first, since nobody tells when
        they came. The ends of running jobs are planned from the last to the first, each before
        all that the plan has, which is the cheapest order for a profile."""
        self._drifted = 0
        self._clear(now_s)
        for job in self._open.values():
            if job.predict_s is not None:
                job.runtime_s = job.predict_s() or job.runtime_s
        jobs: list[Expected | _Open] = [*self._background, *self._open.values()]
        running = [j for j in jobs if j.started_s is not None]
        running.sort(key=_expected_end_s, reverse=True)
        for one in running + [j for j in jobs if j.started_s is None]:
            end_s = self._reserve(min(one.cores, self._slots), _left_s(one, now_s), now_s)
            if isinstance(one, _Open):
                one.expected_end_s = end_s


def _left_s(job: Expected | _Open, now_s: float) -> float:
    """Until a job has run. An overdue one counts as about to end; if that was predicted alone, it
    is half through."""
    if job.started_s is None:
        return job.runtime_s
    left_s = _expected_end_s(job) - now_s
    if left_s <= 0 and isinstance(job, _Open) and job.predict_s is not None:
        return now_s - job.started_s
    return max(0.0, left_s)


def _expected_end_s(running: Expected | _Open) -> float:
    assert running.started_s is not None
    return running.started_s + running.runtime_s


class FcfsModel(QueueModel):
    """First come, first served: the times at which cores become free, in a heap. A question costs
    O(cores log slots), O(1) for one core, a placement O(cores log slots)."""

    def start_s(self, cores: int, length_s: float, now_s: float) -> float:
        free_s = self._free_s
        if cores == 1:
            return max(now_s, free_s[0])
        if cores > self._slots:
            return float("inf")
        return max(now_s, heapq.nsmallest(cores, free_s)[-1])

    def _clear(self, now_s: float) -> None:
        self._free_s = [now_s] * self._slots

    def _reserve(self, cores: int, runtime_s: float, from_s: float) -> float:
        """Take the ``cores`` that are free first."""
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
    """Backfilling: each job gets a reservation, in the order of the queue, for the earliest time
    at which its cores are free for as long as it is expected to run.

    That is conservative backfilling, and what schedulers that promise less (EASY) are commonly
    asked for an estimate with, too (Mu'alem and Feitelson, IEEE TPDS 12(6), 2001). A question and
    a placement cost O(slots): of a plan with many more steps than the site has cores, the holes
    that are furthest off are given up.
    """

    def start_s(self, cores: int, length_s: float, now_s: float) -> float:
        if cores > self._slots:
            return float("inf")
        return self._profile.earliest_s(cores, length_s, now_s)

    def place(
        self,
        key: str,
        cores: int,
        runtime_s: float,
        now_s: float,
        ready_s: float,
        predict_s: Predict | None = None,
    ) -> None:
        self._profile.advance(now_s)
        super().place(key, cores, runtime_s, now_s, ready_s, predict_s)

    def _clear(self, now_s: float) -> None:
        self._profile = Profile(self._slots, now_s)

    def _reserve(self, cores: int, runtime_s: float, from_s: float) -> float:
        profile = self._profile
        start_s = profile.earliest_s(cores, runtime_s, from_s)
        end_s = start_s + runtime_s
        profile.add(start_s, end_s, -cores)
        if len(profile) > 2 * (self._slots + NEAR_STEPS):
            profile.give_up_holes(NEAR_STEPS)
        return end_s


NEAR_STEPS = 64
"""Holes that begin within so many steps of a plan are never given up."""


def make_queue_model(slots: int, *, backfills: bool) -> QueueModel:
    """An idle site, with an LRM that backfills or one that does not."""
    return BackfillModel(slots) if backfills else FcfsModel(slots)
