"""The jobs that hold processors, sorted by their expected ends."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TypeAlias

from wfrun.engine.errors import InvalidError
from wfrun.engine.queues.lrm import JobId, QueuedJob, check_request

Entry: TypeAlias = tuple[float, int, int, JobId]
"""(expected end in seconds, serial number of the start, cores, job)."""


class Running:
    """The running jobs. ``free`` and ``by_end`` are read-only. After the first use of ``by_end``, a
    start or an end costs a binary search, and a move of at most one word per running job."""

    __slots__ = ("_by_end", "_jobs", "_starts", "free", "processors")

    def __init__(self, processors: int) -> None:
        if processors < 1:
            raise InvalidError(
                f"the cluster has {processors} processors", hint="give it at least 1"
            )
        self.processors = processors
        self.free = processors
        self._by_end: list[Entry] | None = None
        """The running jobs by their ends; None before the first use."""
        self._jobs: dict[JobId, Entry] = {}
        self._starts = 0

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._jobs

    @property
    def by_end(self) -> list[Entry]:
        """The running jobs by their expected ends."""
        if self._by_end is None:
            self._by_end = sorted(self._jobs.values())
        return self._by_end

    def free_at_s(self, cores: int, now_s: float) -> float:
        """Return the earliest time, not before ``now_s``, at which ``cores`` processors are free if
        no other job starts. The cluster must have ``cores`` processors. A job past its expected end
        counts as about to end."""
        free = self.free
        if free < cores:
            for expected_end_s, _, released, _ in self.by_end:
                free += released
                if free >= cores:
                    return max(now_s, expected_end_s)
        return now_s

    def start(self, job_id: JobId, cores: int, expected_end_s: float) -> None:
        self._starts += 1
        entry = self._jobs[job_id] = (expected_end_s, self._starts, cores, job_id)
        if self._by_end is not None:
            insort(self._by_end, entry)
        self.free -= cores

    def occupy(self, job: QueuedJob, expected_end_s: float) -> None:
        """Like ``start``, but raises InvalidError for a known id, or if too few processors are
        free."""
        check_request(job.cores, job.requested_s, self.processors)
        if job.id in self or job.cores > self.free:
            raise InvalidError(
                f"{job.id!r} cannot take {job.cores} processors: {self.free} are free",
                hint="end what runs on them first",
            )
        self.start(job.id, job.cores, expected_end_s)

    def end(self, job_id: JobId) -> Entry:
        """Remove a job. Raises KeyError if it does not run."""
        entry = self._jobs.pop(job_id)
        if self._by_end is not None:
            del self._by_end[bisect_left(self._by_end, entry)]
        self.free += entry[2]
        return entry

    def expect(self, job_id: JobId, expected_end_s: float) -> None:
        """Change the expected end of a running job."""
        before, by_end = self._jobs[job_id], self.by_end
        del by_end[bisect_left(by_end, before)]
        entry = self._jobs[job_id] = (expected_end_s, *before[1:])
        insort(by_end, entry)
