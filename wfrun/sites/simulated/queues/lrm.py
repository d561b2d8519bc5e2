"""A job as a queue sees it, and what every queue model promises."""

from __future__ import annotations

import math
from typing import ClassVar, Protocol, TypeAlias

import msgspec

from wfrun.engine.errors import InfeasibleError, InvalidError

JobId: TypeAlias = int | str


class QueuedJob(msgspec.Struct, frozen=True, gc=False):
    """All that a local resource manager is told: the request, never the true run time."""

    id: JobId
    cores: int
    requested_s: float
    """The user's estimate of the run time; infinite for one who gives none."""


class Lrm(Protocol):
    """The queue of one cluster: pure, driven by events, in virtual time.

    The owner tells it what happens (``submit``, ``end``, ``cancel``), in order of time, and at one
    time ends before arrivals; after each it calls ``schedule``, and starts at once what that
    returns. It calls ``schedule`` again at ``next_wakeup_s`` if nothing has happened until then.
    Whether jobs that run past their request are killed is the owner's decision.

    A job is known from ``submit`` to ``end`` or ``cancel``. For an id that is not known the
    methods raise KeyError, ``submit`` of one that is known raises InvalidError.
    """

    name: ClassVar[str]

    @property
    def processors(self) -> int:
        """Of the whole cluster."""

    @property
    def free(self) -> int:
        """Processors that no running job holds."""

    @property
    def queued(self) -> int:
        """Jobs that wait."""

    @property
    def next_wakeup_s(self) -> float:
        """When a job may start although nothing happens; infinite: never. As of the last
        ``schedule``."""

    def submit(self, job: QueuedJob, now_s: float) -> None:
        """A job joins the end of the queue.

        Raises InfeasibleError if it asks for more than the cluster has, InvalidError if it asks
        for no processor, or for a time that is negative or no number.
        """

    def end(self, job_id: JobId, now_s: float) -> None:
        """A running job has ended, for whatever reason."""

    def cancel(self, job_id: JobId, now_s: float) -> None:
        """A job leaves, waiting or running."""

    def occupy(self, job: QueuedJob, now_s: float) -> None:
        """Processors that nothing runs on go out of service at once, past the queue, until
        ``end``: for the queue a job that has started, and is expected to take what it asks for.
        Nobody's reservation holds against it; those that it collides with are made anew.

        Raises InvalidError if fewer are free, and what ``submit`` raises.
        """

    def schedule(self, now_s: float) -> list[JobId]:
        """The jobs that start now, in the order of their start. They run from now on."""

    def estimate_start_s(self, cores: int, requested_s: float, now_s: float) -> float:
        """When such a job would start if it came now, as the requests of all others say. To be
        asked between ``schedule`` and the next event. Raises what ``submit`` raises."""

    def planned_start_s(self, job_id: JobId, now_s: float) -> float:
        """When a waiting job is going to start, as the requests of all others say."""


def check_request(cores: int, requested_s: float, processors: int) -> None:
    """Refuse a request that no queue of this size could ever serve, or that makes no sense."""
    if cores < 1:
        raise InvalidError(f"a job asks for {cores} processors", hint="ask for at least 1")
    if cores > processors:
        raise InfeasibleError(
            f"a job asks for {cores} processors, the cluster has {processors}",
            hint="ask for fewer, or send it to a larger cluster",
        )
    if math.isnan(requested_s) or requested_s < 0:
        raise InvalidError(
            f"a job asks for {requested_s} s of run time",
            hint="give an estimate of at least 0 s, or infinity for none",
        )
