"""Jobs, the grid and its scheduler, and the schedule that results."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import SiteSpec
from wfrun.engine.prediction.job import Predictor
from wfrun.engine.protocols import Placement
from wfrun.engine.queues import Lrm
from wfrun.parsers.logs import LoggedJob
from wfrun.runners.simulate.grid.estimates import Estimates, LrmEstimates


class GridJob(msgspec.Struct, frozen=True, gc=False):
    """A rigid parallel job."""

    submit_s: float
    runtime_s: float
    """Run time on a processor of speed 1, in seconds."""
    cores: int = 1
    owner: str = ""
    application: str = ""
    estimate_s: float | None = None
    """Run time that the user requested, in seconds; None: no request."""


class Scheduler(NamedTuple):
    """A grid scheduler: its policy, and the source of its expected run times."""

    policy: type[Placement]
    predictor: Predictor | None = None
    """Predictor of run times for the policy and the queues. None: policy and queues know the actual
    run times."""
    per_site: bool = True
    """Whether the run time of a job is predicted for each site, from jobs that have ended at that
    site. False: one prediction for all sites, from run times of jobs at any site, scaled to speed
    1."""
    corrected: bool = True
    """Whether predictions of waiting and running jobs are renewed after each end of a job (thesis
    section 7.3.1). False: a prediction stays as it was at submission. Takes effect only in the
    plans of first-come, first-served queues."""
    estimates: Callable[[Lrm], Estimates] = LrmEstimates
    """Makes the `Estimates` of a site from its LRM. Not used for first-come, first-served queues,
    whose estimates are `FcfsEstimates`."""
    blocks: bool = False
    """Whether the first job of the global queue blocks the jobs behind it. False: all jobs of the
    queue are eligible. Only policies that bind late have a global queue."""


class GridSchedule(NamedTuple):
    """Sites and times of all simulated jobs. Lists are in the order of the jobs. Times in
    seconds."""

    jobs: Sequence[GridJob]
    sites: Sequence[SiteSpec]
    site: array[int]
    start_s: array[float]
    end_s: array[float]


def grid_jobs(logged: Iterable[LoggedJob]) -> list[GridJob]:
    """Convert the jobs of a log, in their order. Raises InvalidError for a job without run time or
    processors; `wfrun.parsers.logs.drop_jobs` removes such jobs."""
    found = []
    for job in logged:
        if not job.size or job.runtime_s is None:
            raise InvalidError(
                f"job {job.id} cannot be simulated: the log does not give its run time and "
                "processors",
                hint="leave such jobs out: drop_jobs(jobs, RUNNABLE_RULES)",
            )
        owner = "" if job.user is None else str(job.user)
        application = "" if job.application is None else str(job.application)
        estimate_s = job.requested_s if job.requested_s and job.requested_s > 0 else None
        found.append(GridJob(job.submit_s, job.runtime_s, job.size, owner, application, estimate_s))
    return found
