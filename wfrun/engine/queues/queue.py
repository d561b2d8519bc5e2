"""Base classes of queue models: counts for all models, and everything but the scheduling pass for
FCFS and EASY."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import ClassVar

from wfrun.engine.errors import InvalidError
from wfrun.engine.queues.forecast import Forecast
from wfrun.engine.queues.lrm import JobId, QueuedJob, check_request
from wfrun.engine.queues.running import Running


class QueueCounts:
    """Counts of running and waiting jobs."""

    _running: Running
    _queue: Mapping[JobId, object]

    @property
    def processors(self) -> int:
        return self._running.processors

    @property
    def free(self) -> int:
        return self._running.free

    @property
    def queued(self) -> int:
        return len(self._queue)

    def _check(self, job: QueuedJob) -> None:
        """Check that a job can run here and that its id is new. Raises the errors of
        `Lrm.submit`."""
        check_request(job.cores, job.requested_s, self._running.processors)
        if job.id in self._queue or job.id in self._running:
            raise InvalidError(f"job {job.id!r} was submitted twice", hint="give it another id")


class LrmQueue(QueueCounts):
    """Implements ``Lrm`` except ``name`` and ``schedule``."""

    next_wakeup_s: ClassVar[float] = float("inf")
    """Infinite, since jobs start only after a submission, an end or a cancellation."""
    in_order: ClassVar[bool]

    def __init__(self, processors: int) -> None:
        self._running = Running(processors)
        # The first key of a plain dict costs time for every key deleted before it.
        self._queue: OrderedDict[JobId, QueuedJob] = OrderedDict()
        self._forecast = Forecast(self._running, self._queue, in_order=self.in_order)

    def submit(self, job: QueuedJob, now_s: float) -> None:
        self._check(job)
        self._queue[job.id] = job
        if self._forecast.profile is not None:
            self._forecast.submitted(job, now_s)

    def end(self, job_id: JobId, now_s: float) -> None:
        expected_end_s, _, _, _ = self._running.end(job_id)
        if expected_end_s != now_s:
            self._forecast.profile = None

    def cancel(self, job_id: JobId, now_s: float) -> None:
        if job_id not in self._queue:
            self.end(job_id, now_s)
            return
        del self._queue[job_id]
        self._forecast.profile = None

    def occupy(self, job: QueuedJob, now_s: float) -> None:
        self._running.occupy(job, now_s + job.requested_s)
        self._forecast.profile = None

    def estimate_start_s(self, cores: int, requested_s: float, now_s: float) -> float:
        check_request(cores, requested_s, self._running.processors)
        return self._forecast.start_s(cores, requested_s, now_s)

    def planned_start_s(self, job_id: JobId, now_s: float) -> float:
        return self._forecast.planned_s(job_id, now_s)

    def planned_starts_s(self, now_s: float) -> Mapping[JobId, float]:
        return self._forecast.starts_s(now_s)

    @property
    def plan_number(self) -> int:
        return self._forecast.number

    def last_end_s(self, now_s: float) -> float:
        return self._forecast.last_end_s(now_s)

    def _start(self, job: QueuedJob, now_s: float) -> None:
        del self._queue[job.id]
        self._running.start(job.id, job.cores, now_s + job.requested_s)
        if self._forecast.profile is not None:
            self._forecast.started(job, now_s)
