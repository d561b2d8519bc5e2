"""`Queues` over models of the sites' queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from wfrun.engine.errors import InfeasibleError
from wfrun.engine.jobs.moldable import MoldableRunTimes, Sizing, binary_search
from wfrun.engine.jobs.reallocation.queues import QueueOffer, WaitingJob
from wfrun.engine.queues import JobId, Lrm, QueuedJob


class QueueJob(msgspec.Struct):
    """One of our jobs, which waits in a queue or is not submitted yet."""

    runtimes: MoldableRunTimes
    """Requested times by size, on processors of speed 1."""
    submit_s: float
    site: int = -1
    """The site where the job waits; -1: it is in no queue."""
    size: int = 0
    requested_s: float = 0.0
    """Requested time of the job at ``site``, in seconds."""
    moves: int = 0


class LrmQueues:
    """Our waiting jobs at several sites, and the models of the queues there. The models may also
    have running jobs and jobs of others.

    A change of a queue may let jobs start. The caller then has to run the models of the sites in
    ``changed``, and to clear this set. A model that plans (conservative backfilling) updates its
    plan at its next estimate.
    """

    def __init__(
        self,
        lrms: Sequence[Lrm],
        speeds: Sequence[float],
        *,
        sizing: Sizing = binary_search,
        files_s: Callable[[JobId, int], float] = lambda job, site: 0.0,
    ) -> None:
        self.lrms = lrms
        self._speeds = speeds
        self._sizing = sizing
        self._files_s = files_s
        self.now_s = 0.0
        self.jobs: dict[JobId, QueueJob] = {}
        """Our waiting jobs. The caller removes jobs that start."""
        self.changed: set[int] = set()

    @property
    def sites(self) -> int:
        return len(self.lrms)

    def waiting(self) -> list[WaitingJob]:
        return [
            WaitingJob(id, job.submit_s, job.site, job.moves)
            for id, job in self.jobs.items()
            if job.site >= 0
        ]

    def completion_s(self, job: WaitingJob) -> float:
        own = self.jobs[job.id]
        start_s = self.lrms[own.site].planned_start_s(job.id, self.now_s)
        return start_s + own.requested_s

    def offer(self, job: WaitingJob, site: int) -> QueueOffer | None:
        return self.offer_of(self.jobs[job.id].runtimes, site)

    def offer_of(self, runtimes: MoldableRunTimes, site: int) -> QueueOffer | None:
        """The offer of a site for a job with these run times; None if the site admits no size."""
        lrm, speed = self.lrms[site], self._speeds[site]
        if runtimes.sizes[0] > lrm.processors:
            return None
        try:
            sized = self._sizing(runtimes, _AtSite(lrm, speed, self.now_s), lrm.processors)
        except InfeasibleError:
            return None
        requested_s = sized.runtime_s / speed
        return QueueOffer(site, sized.size, sized.completion_s - requested_s, sized.completion_s)

    def best_offer(self, runtimes: MoldableRunTimes) -> QueueOffer | None:
        """The offer with the earliest completion; the first of equal offers. An arriving job is
        mapped to a site in this way (MCT)."""
        offers = [self.offer_of(runtimes, site) for site in range(self.sites)]
        known = [offer for offer in offers if offer is not None]
        return min(known, key=lambda offer: offer.completion_s) if known else None

    def files_s(self, job: WaitingJob, site: int) -> float:
        return self._files_s(job.id, site)

    def cancel(self, job: WaitingJob) -> None:
        own = self.jobs[job.id]
        self.lrms[own.site].cancel(job.id, self.now_s)
        self.changed.add(own.site)
        own.site = -1

    def submit(self, job: WaitingJob, offer: QueueOffer) -> None:
        own = self.jobs[job.id]
        own.moves += offer.site != job.site
        self.enter(job.id, offer)

    def enter(self, id: JobId, offer: QueueOffer) -> None:
        """Submit a job of ``jobs`` that is in no queue to the site of the offer."""
        own = self.jobs[id]
        own.site, own.size = offer.site, offer.size
        own.requested_s = own.runtimes.runtime_s(offer.size) / self._speeds[offer.site]
        self.lrms[offer.site].submit(QueuedJob(id, own.size, own.requested_s), self.now_s)
        self.changed.add(offer.site)


class _AtSite:
    """An `Estimator`: the model of a site's queue."""

    __slots__ = ("_lrm", "_now_s", "_speed")

    def __init__(self, lrm: Lrm, speed: float, now_s: float) -> None:
        self._lrm = lrm
        self._speed = speed
        self._now_s = now_s

    def completion_s(self, size: int, runtime_s: float) -> float:
        requested_s = runtime_s / self._speed
        return self._lrm.estimate_start_s(size, requested_s, self._now_s) + requested_s
