"""Queued jobs, and the protocol of queue models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol, TypeAlias

import msgspec

from wfrun.engine.errors import InfeasibleError, InvalidError

JobId: TypeAlias = int | str


class QueuedJob(msgspec.Struct, frozen=True, gc=False):
    """The information that a local resource manager has: the request, never the real run time."""

    id: JobId
    cores: int
    requested_s: float
    """The user's estimate of the run time in seconds; infinite without an estimate."""


class Lrm(Protocol):
    """The queue of one cluster: pure, driven by events, in virtual time.

    The owner reports events (``submit``, ``end``, ``cancel``) in order of time, and at one time
    ends before submissions. After each it calls ``schedule``, and immediately starts the jobs that
    are returned. It calls ``schedule`` again at ``next_wakeup_s`` if there was no event until then.
    The owner decides whether jobs that run past their request are killed.

    A job is known from ``submit`` to ``end`` or ``cancel``. For an unknown id the methods raise
    KeyError; for a known one ``submit`` raises InvalidError.
    """

    name: ClassVar[str]

    @property
    def processors(self) -> int:
        """Number of processors of the cluster."""

    @property
    def free(self) -> int:
        """Number of processors that no running job holds."""

    @property
    def queued(self) -> int:
        """Number of waiting jobs."""

    @property
    def next_wakeup_s(self) -> float:
        """Time at which the next pass is due if no event comes before, as of the last ``schedule``;
        infinite: none."""

    def submit(self, job: QueuedJob, now_s: float) -> None:
        """Add a job to the end of the queue.

        Raises InfeasibleError if the job requests more processors than the cluster has,
        InvalidError if it requests no processor, or a time that is negative or not a number.
        """

    def end(self, job_id: JobId, now_s: float) -> None:
        """Remove a running job that has ended, for whatever reason."""

    def cancel(self, job_id: JobId, now_s: float) -> None:
        """Remove a job that was cancelled, waiting or running."""

    def occupy(self, job: QueuedJob, now_s: float) -> None:
        """Take idle processors out of service immediately, until ``end``. The queue treats them as
        a running job that is expected to take its requested time. Reservations that collide with
        this job are planned again.

        Raises InvalidError if fewer processors are free, and the errors of ``submit``.
        """

    def schedule(self, now_s: float) -> list[JobId]:
        """Make a scheduling pass: start jobs, and return them in the order of their starts."""

    def estimate_start_s(self, cores: int, requested_s: float, now_s: float) -> float:
        """The start of a job with this request if it were submitted now, according to the requests
        of all other jobs. Valid between ``schedule`` and the next event. Raises the errors of
        ``submit``."""

    def planned_start_s(self, job_id: JobId, now_s: float) -> float:
        """The start of a waiting job, according to the requests of all jobs. Raises KeyError if the
        job does not wait."""

    def planned_starts_s(self, now_s: float) -> Mapping[JobId, float]:
        """The planned starts of all waiting jobs, read-only. A start before now means now."""

    @property
    def plan_number(self) -> int:
        """Number of the latest plan, which an estimate or ``planned_starts_s`` may renew. While it
        does not change, the planned starts of the jobs that still wait do not change either."""

    def last_end_s(self, now_s: float) -> float:
        """The end of the last job, according to the requests of all jobs; now if there is none."""


def check_request(cores: int, requested_s: float, processors: int) -> None:
    """Check a request. Raises InvalidError for an invalid request, and InfeasibleError for more
    processors than the cluster has."""
    if 1 <= cores <= processors and requested_s >= 0:
        return
    if cores < 1:
        raise InvalidError(f"a job asks for {cores} processors", hint="ask for at least 1")
    if cores > processors:
        raise InfeasibleError(
            f"a job asks for {cores} processors, the cluster has {processors}",
            hint="ask for fewer, or send it to a larger cluster",
        )
    raise InvalidError(
        f"a job asks for {requested_s} s of run time",
        hint="give an estimate of at least 0 s, or infinity for none",
    )
