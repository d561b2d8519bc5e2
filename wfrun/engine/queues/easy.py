"""EASY backfilling (Lifka 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001).

Jobs start in the order of the queue as long as they fit. The first that does not fit, the head,
gets a reservation: its *shadow time* is the earliest time at which enough processors will be free,
according to the requests of the running jobs; the *extra* processors are those that the head does
not use then. A later job starts now if it fits now and does not delay the head: if its request ends
by the shadow time, or if it uses only extra processors. Candidates are tried in the order of the
queue. Only the head has a reservation.

A running job past its request counts as about to end: its processors are expected now. Jobs whose
requests end at the shadow time itself count for the extra processors.

Waiting jobs that ask for the same processors and time are one *shape*. Where its first job does
not start, no other one of the shape does, so that a pass asks once for each shape. Users submit
thousands of equal jobs: with bursts of 1,000 a pass over all jobs took 8 times as long.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import ClassVar, TypeAlias

from wfrun.engine.queues.lrm import JobId, QueuedJob
from wfrun.engine.queues.queue import Queue

_Shape: TypeAlias = tuple[int, float]
"""(processors, requested time in seconds)."""


class Easy(Queue):
    """Makes a full pass over the queue after an end, and considers only new jobs after a
    submission. Both give the same schedule: a job that did not fit does not fit later, as long as
    no job has ended."""

    name: ClassVar[str] = "easy"
    in_order: ClassVar[bool] = False

    def __init__(self, processors: int) -> None:
        super().__init__(processors)
        self._newcomers: dict[_Shape, None] = {}
        """Shapes of jobs that were submitted since the last pass."""
        self._waiting: dict[_Shape, OrderedDict[JobId, tuple[int, QueuedJob]]] = {}
        """The waiting jobs of each shape, with their numbers in the queue."""
        self._submitted = 0
        self._shadow_s = float("-inf")
        """Shadow time of the head after the last pass; in the past if a full pass is due."""
        self._extra = 0

    def submit(self, job: QueuedJob, now_s: float) -> None:
        super().submit(job, now_s)
        shape = (job.cores, job.requested_s)
        self._submitted += 1
        self._waiting.setdefault(shape, OrderedDict())[job.id] = (self._submitted, job)
        self._newcomers[shape] = None

    def end(self, job_id: JobId, now_s: float) -> None:
        super().end(job_id, now_s)
        self._shadow_s = float("-inf")

    def cancel(self, job_id: JobId, now_s: float) -> None:
        if job_id in self._queue:
            self._forget(self._queue[job_id])
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
                    self._backfill(self._waiting, started, now_s)
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

    def _backfill(self, shapes: Iterable[_Shape], started: list[JobId], now_s: float) -> None:
        """Start jobs of these shapes in the order of the queue. The head itself does not fit."""
        waiting, running = self._waiting, self._running
        firsts = [
            (*next(iter(waiting[shape].values())), shape)
            for shape in shapes
            if self._fits(shape, now_s) and shape in waiting
        ]
        heapify(firsts)
        while firsts and running.free:
            _, job, shape = firsts[0]
            if not self._fits(shape, now_s):
                heappop(firsts)
                continue
            if now_s + job.requested_s > self._shadow_s:
                self._extra -= job.cores
            self._start(job, now_s)
            started.append(job.id)
            heappop(firsts)
            if shape in waiting:
                heappush(firsts, (*next(iter(waiting[shape].values())), shape))

    def _fits(self, shape: _Shape, now_s: float) -> bool:
        """Whether such a job fits now and does not delay the head."""
        cores, requested_s = shape
        return cores <= self._running.free and (
            now_s + requested_s <= self._shadow_s or cores <= self._extra
        )

    def _start(self, job: QueuedJob, now_s: float) -> None:
        self._forget(job)
        super()._start(job, now_s)

    def _forget(self, job: QueuedJob) -> None:
        """Remove a job from those that wait."""
        shape = (job.cores, job.requested_s)
        del self._waiting[shape][job.id]
        if not self._waiting[shape]:
            del self._waiting[shape]
