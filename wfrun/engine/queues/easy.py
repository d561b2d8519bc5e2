"""EASY backfilling (Lifka 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001).

Jobs start in the order of the queue as long as they fit. The first job that does not fit, the head,
gets a reservation: its *shadow time* is the earliest time at which enough processors will be free,
according to the requests of the running jobs; the *extra* processors are those that the head does
not use then. A later job starts now if it fits now and does not delay the head: if its request ends
by the shadow time, or if it uses only extra processors. Candidates are tried in the order of the
queue. Only the head has a reservation.

A running job past its request counts as about to end: its processors are expected now. Processors
of jobs whose requests end exactly at the shadow time count as free at that time.

Waiting jobs are indexed by their number of processors (`FirstFit`). For each number that fits, a
pass finds the first job that is short enough in logarithmic time. A pass over all waiting jobs
would be too expensive where work arrives faster than it is done, since the queue then grows without
end.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from math import inf
from typing import ClassVar

from wfrun.engine.queues.first_fit import FirstFit
from wfrun.engine.queues.lrm import JobId, QueuedJob
from wfrun.engine.queues.queue import LrmQueue


class Easy(LrmQueue):
    """Makes a full pass over the queue after an end, and considers only new jobs after a
    submission. The schedule equals that of full passes after every event: a job that does not fit
    cannot fit before a job has ended."""

    name: ClassVar[str] = "easy"
    in_order: ClassVar[bool] = False

    def __init__(self, processors: int) -> None:
        super().__init__(processors)
        self._newcomers: list[QueuedJob] = []
        """Jobs that were submitted since the last pass."""
        self._waiting: dict[int, FirstFit] = {}
        """The waiting jobs by number of processors."""
        self._submitted = 0
        self._shadow_s = float("-inf")
        """Shadow time of the head after the last pass; -inf if a full pass is due."""
        self._extra = 0

    def submit(self, job: QueuedJob, now_s: float) -> None:
        super().submit(job, now_s)
        self._submitted += 1
        line = self._waiting.get(job.cores)
        if line is None:
            line = self._waiting[job.cores] = FirstFit()
        line.append(self._submitted, job)
        self._newcomers.append(job)

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
            for job in self._newcomers if self._running.free else ():
                if job.id in self._queue and self._fits(job, now_s):
                    self._backfill(job, started, now_s)
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
                    self._backfill_all(started, now_s)
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

    def _backfill_all(self, started: list[JobId], now_s: float) -> None:
        """Start the jobs that fit, in the order of the queue. The head itself does not fit."""
        running = self._running
        firsts = []
        for cores, line in self._waiting.items():
            if cores <= running.free:
                first = line.first(now_s, self._until_s(cores))
                if first is not None:
                    firsts.append(first)
        heapify(firsts)
        while firsts and running.free:
            _, job = firsts[0]
            if self._fits(job, now_s):
                self._backfill(job, started, now_s)
            # Each start leaves less room: the next of as many processors may have to be shorter.
            rest = self._waiting.get(job.cores)
            found = None
            if rest is not None and job.cores <= running.free:
                found = rest.first(now_s, self._until_s(job.cores))
            if found is None:
                heappop(firsts)
            else:
                heapreplace(firsts, found)

    def _backfill(self, job: QueuedJob, started: list[JobId], now_s: float) -> None:
        """Start a job ahead of the head. The job fits now and does not delay the head."""
        if now_s + job.requested_s > self._shadow_s:
            self._extra -= job.cores
        self._start(job, now_s)
        started.append(job.id)

    def _until_s(self, cores: int) -> float:
        """Latest time at which the request of a job of this width may end without delaying the
        head."""
        return inf if cores <= self._extra else self._shadow_s

    def _fits(self, job: QueuedJob, now_s: float) -> bool:
        """Whether a job fits now and does not delay the head."""
        return job.cores <= self._running.free and (
            now_s + job.requested_s <= self._shadow_s or job.cores <= self._extra
        )

    def _start(self, job: QueuedJob, now_s: float) -> None:
        self._forget(job)
        super()._start(job, now_s)

    def _forget(self, job: QueuedJob) -> None:
        """Remove a job from the index of waiting jobs."""
        line = self._waiting[job.cores]
        line.remove(job.id)
        if not line:
            del self._waiting[job.cores]
