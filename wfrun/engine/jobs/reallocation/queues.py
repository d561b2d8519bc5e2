"""The interface of reallocation to the queues of several sites."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple, Protocol

from wfrun.engine.queues import JobId


class WaitingJob(NamedTuple):
    """A job of ours that waits in the queue of a site."""

    id: JobId
    submit_s: float
    """Time of the first submission in seconds, before all moves."""
    site: int
    moves: int = 0
    """Number of times that it was moved to another site."""


class QueueOffer(NamedTuple):
    """The estimate of a site for a job that is submitted to it now. Times are in seconds."""

    site: int
    size: int
    """The number of processors with the earliest estimated completion."""
    start_s: float
    completion_s: float


class Queues(Protocol):
    """The queues of all sites, numbered from 0. The answers hold for the queues as changed by
    ``cancel`` and ``submit`` so far."""

    @property
    def now_s(self) -> float:
        """The time of the reallocation."""

    @property
    def sites(self) -> int:
        """Number of sites."""

    def waiting(self) -> Sequence[WaitingJob]:
        """Our waiting jobs that may be cancelled, at all sites."""

    def completion_s(self, job: WaitingJob) -> float:
        """Estimated completion of a waiting job if it stays at its site."""

    def offer(self, job: WaitingJob, site: int) -> QueueOffer | None:
        """The offer of a site for a job; None if the site does not admit the job."""

    def files_s(self, job: WaitingJob, site: int) -> float:
        """Seconds for moving the files of a job to another site."""

    def cancel(self, job: WaitingJob) -> None:
        """Remove a waiting job from its queue."""

    def submit(self, job: WaitingJob, offer: QueueOffer) -> None:
        """Add the job at the end of the queue of the site that made the offer."""


class Limits(NamedTuple):
    """Limits on moves. The defaults are those of the paper."""

    threshold_s: float = 60.0
    """Minimum gain of a move by the regular algorithm, in seconds. If the transfer of the files
    takes longer than this, the minimum is the transfer time."""
    most_moves: float = inf
    """Number of moves after which a job is *settled*: it keeps its place in its queue, unless
    another site starts it immediately. A cancelled job joins the end of a queue, so repeated moves
    could starve it where estimates are wrong or other users' jobs overtake it."""
    keeps_oldest: bool = False
    """Whether the job that has waited longest at a site is settled, too."""


class Placed(NamedTuple):
    """A job that a reallocation has submitted."""

    job: WaitingJob
    offer: QueueOffer
    before_s: float
    """Estimated completion of the job at the site where it waited, in seconds."""

    @property
    def is_moved(self) -> bool:
        """Whether the job goes to another site. All-cancellation also submits jobs to their old
        site, perhaps with another size."""
        return self.offer.site != self.job.site
