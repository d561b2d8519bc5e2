"""What sites report about other users' jobs."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine.events import BackgroundJob, SiteLoadObserved, SiteObserved
from wfrun.engine.information import Observed


class Observer:
    """Turns snapshots of a site's queue into events, with as much detail as the run uses, when they
    have changed."""

    def __init__(self, site: int, observed: Observed) -> None:
        self._site = site
        self._observed = observed
        self._latest: object = ()

    def observe(
        self, at_s: float, jobs: Sequence[BackgroundJob]
    ) -> SiteObserved | SiteLoadObserved | None:
        """The event for these jobs of others, running ones first, then the queue in order; None:
        what the run uses of them is unchanged."""
        if self._observed == "nothing":
            return None
        if self._observed == "jobs":
            latest: object = tuple(jobs)
            event: SiteObserved | SiteLoadObserved = SiteObserved(at_s, self._site, tuple(jobs))
        else:
            running = sum(job.cores for job in jobs if job.started_s is not None)
            queued = sum(job.cores for job in jobs) - running
            latest = (running, queued) if running or queued else ()
            event = SiteLoadObserved(at_s, self._site, running, queued)
        if latest == self._latest:
            return None
        self._latest = latest
        return event
