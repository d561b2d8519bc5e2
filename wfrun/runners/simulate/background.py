"""Other users' jobs at simulated sites, taken from a workload log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from random import Random

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import SiteSpec
from wfrun.parsers.logs import LoggedJob, load_of
from wfrun.sites.simulated.queues import SimulatedJob, simulated_jobs

WARM_UP_S = 2 * 86400.0
"""Time for which only the background jobs run, in seconds. Workflows then find queues in their
usual state."""
HORIZON_S = 30 * 86400.0
"""Length of the background after the warm-up, in seconds."""


def unfit(jobs: Sequence[LoggedJob], sites: Sequence[SiteSpec]) -> list[str]:
    """Return a warning for each site that is too small for some jobs. These jobs are left out at
    the site."""
    return [
        f"site {site.name}: {larger} of {len(jobs)} background jobs are larger than its "
        f"{site.slots} slots and left out"
        for site in sites
        if (larger := sum(1 for job in jobs if (job.size or 0) > site.slots))
    ]


def background_of(
    jobs: Sequence[LoggedJob], sites: Sequence[SiteSpec], load: float | None, seed: int
) -> Mapping[str, list[SimulatedJob]]:
    """Choose the jobs of other users for each site, by name of the site: a window of the log that
    begins at a random time.

    A site gets only jobs that fit it. With ``load``, the times between submissions are scaled so
    that the jobs request the fraction ``load`` of the site. The window begins at a time that
    depends on the site and on ``seed``. The log is repeated if it is shorter than the window.
    Raises InvalidError if fewer than two jobs fit a site, or if all jobs that fit have the same
    submission time.
    """
    return {spec.name: _for_site(jobs, spec, load, Random(f"{seed}/{spec.name}")) for spec in sites}


def _for_site(
    jobs: Sequence[LoggedJob], site: SiteSpec, load: float | None, random: Random
) -> list[SimulatedJob]:
    fitting = [job for job in jobs if (job.size or 0) <= site.slots]
    if len(fitting) < 2 or fitting[-1].submit_s <= fitting[0].submit_s:
        raise InvalidError(
            f"{len(fitting)} of the {len(jobs)} jobs of the background log fit site "
            f"{site.name!r} ({site.slots} slots): they make no load",
            hint="take the log of a smaller cluster, with at least two submission times",
        )
    first_s = fitting[0].submit_s
    length_s = fitting[-1].submit_s - first_s
    length_s += length_s / (len(fitting) - 1)  # from the last job to the first of the next lap
    factor = 1.0
    if load is not None:
        factor = load_of(fitting, site.slots) / load
    offset_s = random.random() * length_s
    window_s = (WARM_UP_S + HORIZON_S) / factor
    chosen = []
    simulated = simulated_jobs(fitting)
    start = next(
        (i for i, job in enumerate(fitting) if job.submit_s - first_s >= offset_s), len(fitting)
    )
    for index in count(start):
        lap, place = divmod(index, len(fitting))
        job = simulated[place]
        since_s = lap * length_s + job.submit_s - first_s - offset_s
        if since_s > window_s:
            break
        chosen.append(
            msgspec.structs.replace(
                job, submit_s=since_s * factor, requested_s=max(job.requested_s, 1.0)
            )
        )
    return chosen
