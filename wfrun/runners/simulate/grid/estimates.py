"""Estimates of a site: the start time of a further job, and the load."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from wfrun.engine.jobs.open_sums import OpenSums, Overdue
from wfrun.engine.queues import Lrm


class Estimates(Protocol):
    """The information service of a site, which estimates the starts of jobs. It is notified of
    every change of the site's queue."""

    def submit(self, job: int, cores: int, length_s: float, now_s: float) -> None:
        """Called when a job joins the end of the queue."""

    def start(self, job: int, now_s: float) -> None:
        """Called when a waiting job starts."""

    def end(self, job: int, now_s: float) -> None:
        """Called when a running job has ended."""

    def correct(self) -> None:
        """Called when the end of a job at another site has changed expected run times at this
        site."""

    def start_s(self, cores: int, length_s: float, now_s: float) -> float:
        """Time at which a job of this size and length would start if it were submitted now, in
        seconds."""

    def sums(self, now_s: float) -> OpenSums:
        """Sums over the open jobs, with up-to-date waits. The wait of a started job is actual, that
        of a waiting job is planned."""

    def loads(self) -> OpenSums:
        """Sums over the open jobs, with waits that may be out of date."""

    def overdue_work(self, now_s: float) -> float:
        """Work times delay of overdue jobs, in core-seconds times seconds
        (`wfrun.engine.jobs.open_sums.Overdue.work`)."""

    def last_end_s(self, now_s: float) -> float:
        """Time at which all jobs of the site are expected to have ended."""


class _Open(msgspec.Struct, gc=False):
    """An open job."""

    cores: int
    length_s: float
    submitted_s: float
    wait_s: float = 0.0
    """Actual wait of a started job, planned wait of a waiting job, in seconds."""


class LrmEstimates:
    """Estimates from the plan of the LRM itself, which uses the run times given at submission.

    Cost of a query: constant while the plan of the LRM does not change, otherwise linear in the
    number of waiting jobs.
    """

    def __init__(self, lrm: Lrm, *, remembers: bool = False) -> None:
        """``remembers``: whether ended jobs still count in the sums."""
        self._lrm = lrm
        self._remembers = remembers
        self._open: dict[int, _Open] = {}
        self._waiting: dict[int, None] = {}
        self._overdue: Overdue[int] = Overdue()
        """Running jobs that may become overdue. Waiting jobs do not count, because the LRM renews
        its plan while a job is overdue."""
        self._new: list[int] = []
        """Jobs submitted since the latest call of ``sums``."""
        self._sums = OpenSums()
        self._plan = -1
        """Number of the plan from which the waits of the waiting jobs were taken."""

    def submit(self, job: int, cores: int, length_s: float, now_s: float) -> None:
        self._open[job] = _Open(cores, length_s, now_s)
        self._sums.add(cores, length_s, now_s, 0.0)
        self._waiting[job] = None
        self._new.append(job)

    def start(self, job: int, now_s: float) -> None:
        del self._waiting[job]
        one = self._open[job]
        self._starts(one, now_s)
        self._overdue.expect(job, now_s + one.length_s, one.cores * one.length_s)

    def end(self, job: int, now_s: float) -> None:
        one = self._open.pop(job)
        self._overdue.remove(job)
        if not self._remembers:
            self._sums.remove(one.cores, one.length_s, one.submitted_s, one.wait_s)

    def correct(self) -> None:
        """Do nothing: an LRM does not change requests."""

    def start_s(self, cores: int, length_s: float, now_s: float) -> float:
        return self._lrm.estimate_start_s(cores, length_s, now_s)

    def last_end_s(self, now_s: float) -> float:
        return self._lrm.last_end_s(now_s)

    def loads(self) -> OpenSums:
        return self._sums

    def sums(self, now_s: float) -> OpenSums:
        if not self._waiting:
            return self._sums
        starts_s = self._lrm.planned_starts_s(now_s)
        changed: Iterable[int] = self._waiting
        if self._lrm.plan_number == self._plan:
            changed = [job for job in self._new if job in self._waiting]
        for job in changed:
            self._starts(self._open[job], max(now_s, starts_s[job]))
        self._plan = self._lrm.plan_number
        self._new.clear()
        return self._sums

    def overdue_work(self, now_s: float) -> float:
        return self._overdue.work(now_s)

    def _starts(self, job: _Open, start_s: float) -> None:
        """Note the actual or planned start of a job."""
        wait_s = start_s - job.submitted_s
        self._sums.wait(job.cores, job.length_s, wait_s - job.wait_s)
        job.wait_s = wait_s
