"""Reports of sites about other users' jobs."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine.events import BackgroundJob, EndedJob, SiteLoadObserved, SiteObserved
from wfrun.engine.fitting.information import Observed

OBSERVE_S = 60.0
"""Interval between queries of other users' jobs, in runs that use them."""
GUEST_OBSERVE_S = 1.0
"""Interval between queries of other users' jobs in runs that give processors back when another
user's job waits: runs with malleable jobs or with owners who use only idle processors (scavenge).
The interval is never shorter than ``poll_min`` of the catalog, 2 s by default."""


class Observer:
    """Turns snapshots of a site's queue into events. As the run's policies need, an event has each
    job, or only the numbers of cores of running and of queued jobs. If these have not changed, no
    event is made, since every event makes the log longer."""

    def __init__(self, site: int, observed: Observed) -> None:
        self._site = site
        self._observed = observed
        self._latest: object = ()

    def observe(
        self,
        at_s: float,
        jobs: Sequence[BackgroundJob],
        ended: Sequence[EndedJob] = (),
        planned: Sequence[tuple[str, float]] = (),
    ) -> SiteObserved | SiteLoadObserved | None:
        """The event for the present jobs of other users. ``jobs`` has the running jobs first, then
        the waiting ones in the order of the queue. None if the run does not use other users' jobs,
        or if nothing has changed.

        ``ended``: jobs that ended before the first observation, in the order of their ends.
        ``planned``: keys of our waiting attempts, each with the start that the batch system plans.
        """
        if self._observed == "nothing":
            return None
        if self._observed == "jobs":
            latest: object = (*jobs, *planned)
            event: SiteObserved | SiteLoadObserved = SiteObserved(
                at_s, self._site, tuple(jobs), tuple(ended), tuple(planned)
            )
        else:
            running = sum(job.cores for job in jobs if job.started_s is not None)
            queued = sum(job.cores for job in jobs) - running
            latest = (running, queued) if running or queued else ()
            event = SiteLoadObserved(at_s, self._site, running, queued)
        if latest == self._latest and not ended:
            return None
        self._latest = latest
        return event
