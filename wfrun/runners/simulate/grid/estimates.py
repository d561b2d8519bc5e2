"""What a site answers when it is asked for the start of a job."""

from __future__ import annotations

from typing import Protocol

from wfrun.engine.queues import Lrm


class Estimates(Protocol):
    """The information service of a site. It is notified of every change of the site's queue."""

    def submit(self, job: int, cores: int, length_s: float, now_s: float) -> None:
        """A job joins the end of the queue."""

    def start(self, job: int, now_s: float) -> None:
        """A waiting job starts."""

    def end(self, job: int, now_s: float) -> None:
        """A running job has ended."""

    def correct(self) -> None:
        """Expected run times have changed, by an end elsewhere."""

    def start_s(self, cores: int, length_s: float, now_s: float) -> float:
        """The start of a job that is submitted now."""

    def mean_wait_s(self, now_s: float) -> float:
        """Mean wait of the open jobs, as it was or as it is planned; 0 without any."""


class LrmEstimates:
    """The forecast of the LRM itself, by the run times with which its jobs were submitted."""

    def __init__(self, lrm: Lrm) -> None:
        self._lrm = lrm
        self._waits_s: dict[int, float] = {}
        """Waits of the running jobs."""
        self._total_s = 0.0
        """Sum of these waits."""
        self._waiting: dict[int, float] = {}
        """Submission times of the waiting jobs."""

    def submit(self, job: int, cores: int, length_s: float, now_s: float) -> None:
        self._waiting[job] = now_s

    def start(self, job: int, now_s: float) -> None:
        wait_s = self._waits_s[job] = now_s - self._waiting.pop(job)
        self._total_s += wait_s

    def end(self, job: int, now_s: float) -> None:
        self._total_s -= self._waits_s.pop(job)

    def correct(self) -> None:
        """Do nothing: an LRM does not change requests."""

    def start_s(self, cores: int, length_s: float, now_s: float) -> float:
        return self._lrm.estimate_start_s(cores, length_s, now_s)

    def mean_wait_s(self, now_s: float) -> float:
        count = len(self._waits_s) + len(self._waiting)
        if not count:
            return 0.0
        planned_s = self._lrm.planned_start_s
        waiting_s = sum(planned_s(job, now_s) - at_s for job, at_s in self._waiting.items())
        return max(0.0, self._total_s + waiting_s) / count
