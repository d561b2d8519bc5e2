"""The two reallocation algorithms with the two orders of jobs.

Source: RR-7365, Algorithm 1 (*regular*), Algorithm 2 (*all-cancellation*), and section 3.2.3: MCT
takes the jobs in the order of their submission. MinMin repeatedly takes, among the 20 oldest jobs,
the one with the earliest estimated completion. Younger jobs stay where they are (*regular*), or
follow in the order of their submission (*all-cancellation*).
"""

from __future__ import annotations

from collections.abc import Iterator

from wfrun.engine.jobs.reallocation.queues import Limits, Placed, QueueOffer, Queues, WaitingJob
from wfrun.engine.queues import JobId

MINMIN_JOBS = 20
"""Maximum number of jobs among which MinMin chooses. Limits the cost: each choice estimates all
remaining jobs."""

ALGORITHMS = ("mct-reg", "mct-can", "minmin-reg", "minmin-can")


def reallocate(queues: Queues, algorithm: str, limits: Limits = Limits()) -> list[Placed]:  # noqa: B008
    """Reallocate waiting jobs by one of `ALGORITHMS`; returns the submitted jobs, in order.

    Regular returns moved jobs only. All-cancellation returns all jobs that it has cancelled;
    settled jobs, which it does not cancel, move as with the regular algorithm. Raises KeyError for
    an unknown algorithm.
    """
    return {
        "mct-reg": _mct_regular,
        "mct-can": _mct_cancelling,
        "minmin-reg": _minmin_regular,
        "minmin-can": _minmin_cancelling,
    }[algorithm](_Round(queues, limits))


def _mct_regular(this: _Round) -> list[Placed]:
    moved = []
    for job in this.jobs:
        found = this.move_if_sooner(job, this.best_elsewhere(job))
        if found is not None:
            moved.append(found)
    return moved


def _minmin_regular(this: _Round) -> list[Placed]:
    moved = []
    for job, offer in this.in_order_of_completion(this.jobs[:MINMIN_JOBS], elsewhere=True):
        found = this.move_if_sooner(job, offer)
        if found is not None:
            moved.append(found)
    return moved


def _mct_cancelling(this: _Round) -> list[Placed]:
    jobs = this.cancel_all()
    return this.move_settled() + [this.submit_best(job) for job in jobs]


def _minmin_cancelling(this: _Round) -> list[Placed]:
    jobs = this.cancel_all()
    settled = this.move_settled()
    first = [
        this.submit(job, offer)
        for job, offer in this.in_order_of_completion(jobs[:MINMIN_JOBS], elsewhere=False)
        if offer is not None
    ]
    return settled + first + [this.submit_best(job) for job in jobs[MINMIN_JOBS:]]


class _Round:
    """One reallocation. Offers are kept until the queue of their site changes."""

    def __init__(self, queues: Queues, limits: Limits) -> None:
        self._queues = queues
        self._limits = limits
        self.jobs = sorted(queues.waiting(), key=lambda job: job.submit_s)
        """The waiting jobs, the oldest first."""
        self._settled = self._find_settled()
        self._before_s: dict[JobId, float] = {}
        """Estimated completion times of jobs at the sites where they waited."""
        self._changes = [0] * queues.sites
        self._offers: dict[tuple[JobId, int], tuple[int, QueueOffer | None]] = {}
        """By job and site: the offer, and the number of changes of the site when it was made."""

    def _find_settled(self) -> set[JobId]:
        found = {job.id for job in self.jobs if job.moves >= self._limits.most_moves}
        if self._limits.keeps_oldest:
            oldest: dict[int, WaitingJob] = {}
            for job in self.jobs:
                oldest.setdefault(job.site, job)
            found.update(job.id for job in oldest.values())
        return found

    def cancel_all(self) -> list[WaitingJob]:
        """Cancel all jobs that are not settled; returns them."""
        jobs = [job for job in self.jobs if job.id not in self._settled]
        self._before_s = {job.id: self._queues.completion_s(job) for job in jobs}
        for job in jobs:
            self._queues.cancel(job)
        self._changes = [count + 1 for count in self._changes]
        return jobs

    def move_settled(self) -> list[Placed]:
        """Move settled jobs as the regular algorithm does. They are moved before the cancelled jobs
        are submitted: otherwise younger jobs would get the processors of other sites. The oldest of
        our jobs at a site, if it waits behind other users' jobs, could then never leave."""
        jobs = [job for job in self.jobs if job.id in self._settled]
        moved = (self.move_if_sooner(job, self.best_elsewhere(job)) for job in jobs)
        return [each for each in moved if each is not None]

    def best_elsewhere(self, job: WaitingJob) -> QueueOffer | None:
        """The offer of another site with the earliest completion."""
        return self._best(job, [n for n in range(self._queues.sites) if n != job.site])

    def move_if_sooner(self, job: WaitingJob, offer: QueueOffer | None) -> Placed | None:
        """Move a job if its gain exceeds both the threshold and the transfer time of its files;
        None if it stays. A settled job moves only if the offer starts it immediately."""
        if offer is None:
            return None
        if job.id in self._settled and offer.start_s > self._queues.now_s:
            return None
        files_s = self._queues.files_s(job, offer.site)
        before_s = self._before_s[job.id] = self._queues.completion_s(job)
        gain_s = before_s - offer.completion_s
        if gain_s <= max(self._limits.threshold_s, files_s):
            return None
        self._queues.cancel(job)
        self._changes[job.site] += 1
        return self.submit(job, offer)

    def submit_best(self, job: WaitingJob) -> Placed:
        """Submit a cancelled job to the site with the earliest estimated completion."""
        offer = self._best(job, range(self._queues.sites))
        assert offer is not None, "its site has admitted it"
        return self.submit(job, offer)

    def submit(self, job: WaitingJob, offer: QueueOffer) -> Placed:
        self._queues.submit(job, offer)
        self._changes[offer.site] += 1
        return Placed(job, offer, self._before_s[job.id])

    def in_order_of_completion(
        self, jobs: list[WaitingJob], *, elsewhere: bool
    ) -> Iterator[tuple[WaitingJob, QueueOffer | None]]:
        """Yield each job with its best offer: always the remaining job whose offer has the earliest
        completion. Offers are renewed after each job. ``elsewhere``: without offers of the site
        where the job waits."""
        left = list(jobs)
        every = range(self._queues.sites)
        while left:
            offers = [
                self.best_elsewhere(job) if elsewhere else self._best(job, every) for job in left
            ]
            keys = [
                (offer is None, 0.0 if offer is None else offer.completion_s) for offer in offers
            ]
            place = min(range(len(left)), key=keys.__getitem__)
            yield left.pop(place), offers[place]

    def _best(self, job: WaitingJob, sites: list[int] | range) -> QueueOffer | None:
        """The offer with the earliest completion, including the transfer of files; the first of
        equal offers. At the job's own site no file has to be moved."""
        best: tuple[float, QueueOffer] | None = None
        for site in sites:
            offer = self._offer(job, site)
            if offer is None:
                continue
            files_s = 0.0 if site == job.site else self._queues.files_s(job, site)
            if best is None or offer.completion_s + files_s < best[0]:
                best = offer.completion_s + files_s, offer
        return None if best is None else best[1]

    def _offer(self, job: WaitingJob, site: int) -> QueueOffer | None:
        key = job.id, site
        known = self._offers.get(key)
        if known is not None and known[0] == self._changes[site]:
            return known[1]
        offer = self._queues.offer(job, site)
        self._offers[key] = self._changes[site], offer
        return offer
