"""EASY backfilling (Lifka 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001).

Jobs start in the order of the queue as long as they fit. The first that does not fit, the head,
gets a reservation: its *shadow time* is the earliest time at which enough processors will be free,
according to the requests of the running jobs; the *extra* processors are those that the head does
not use then. A later job starts now if it fits now and does not delay the head: if its request ends
by the shadow time, or if it uses only extra processors. Candidates are tried in the order of the
queue. Only the head has a reservation.

A running job past its request counts as about to end: its processors are expected now. Jobs whose
requests end at the shadow time itself count for the extra processors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from wfrun.sites.simulated.queues.lrm import JobId, QueuedJob
from wfrun.sites.simulated.queues.queue import Queue


class Easy(Queue):
    """Makes a full pass over the queue after an end, and considers only new jobs after a
    submission. Both give the same schedule: a job that did not fit does not fit later, as long as
    no job has ended."""

    name: ClassVar[str] = "easy"
    in_order: ClassVar[bool] = False

    def __init__(self, processors: int) -> None:
        super().__init__(processors)
        self._newcomers: list[QueuedJob] = []
        self._shadow_s = float("-inf")
        """Shadow time of the head after the last pass; in the past if a full pass is due."""
        self._extra = 0

    def submit(self, job: QueuedJob, now_s: float) -> None:
        super().submit(job, now_s)
        self._newcomers.append(job)

    def end(self, job_id: JobId, now_s: float) -> None:
        super().end(job_id, now_s)
        self._shadow_s = float("-inf")

    def cancel(self, job_id: JobId, now_s: float) -> None:
        super().cancel(job_id, now_s)
        self._shadow_s = float("-inf")

    def occupy(self, job: QueuedJob, now_s: float) -> None:
        super().occupy(job, now_s)
        self._shadow_s = float("-inf")

    def schedule(self, now_s: float) -> list[JobId]:
        started: list[JobId] = []
        # After the shadow time jobs become overdue, and their processors become extra ones.
        if self._shadow_s > now_s:
            if self._running.free:
                self._backfill(self._newcomers, started, now_s)
        else:
            self._full_pass(started, now_s)
        self._newcomers.clear()
        return started

    def _full_pass(self, started: list[JobId], now_s: float) -> None:
        queue = self._queue
        while queue:
            head = next(iter(queue.values()))
            if head.cores > self._running.free:
                self._reserve(head.cores, now_s)
                if self._running.free and len(queue) > 1:
                    self._backfill(tuple(queue.values()), started, now_s)
                return
            self._start(head, now_s)
            started.append(head.id)
        self._shadow_s = float("-inf")

    def _reserve(self, cores: int, now_s: float) -> None:
        """Compute the shadow time and the extra processors of a head that does not fit now."""
        available = self._running.free
        shadow_s = now_s
        for expected_end_s, _, released, _ in self._running.by_end:
            if expected_end_s > shadow_s:
                if available >= cores:
                    break
                shadow_s = expected_end_s
            available += released
        self._shadow_s = shadow_s
        self._extra = available - cores

    def _backfill(
        self, candidates: Iterable[QueuedJob], started: list[JobId], now_s: float
    ) -> None:
        running = self._running
        for job in candidates:
            cores = job.cores
            # The head itself does not fit, and is skipped here.
            if cores <= running.free:
                if now_s + job.requested_s > self._shadow_s:
                    if cores > self._extra:
                        continue
                    self._extra -= cores
                self._start(job, now_s)
                started.append(job.id)
                if not running.free:
                    return
