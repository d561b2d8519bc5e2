"""The present queue of a cluster as jobs of a simulated one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from wfrun.sites.batch.jobs import JobInQueue
from wfrun.sites.simulated.queues import SimulatedJob

ASSUMED_S = 1800.0
"""Remaining run time of a job whose start is unknown, in seconds."""
MIN_AGE_S = 60.0
"""Minimum age of a running job in seconds, so that one that has just started is not expected to end
at once."""


def jobs_ahead(
    jobs: Iterable[JobInQueue], slots: int, idle_cores: int, queue_cores: int, now_s: float
) -> list[SimulatedJob]:
    """The jobs that hold a site's slots, or wait for them, when a run begins.

    Running jobs hold the ``slots`` that are not idle. The queue shows no remaining run times. That
    of a running job is its age, the median if the density of run times falls as 1/t² (Harchol-
    Balter and Downey 1997, Exploiting Process Lifetime Distributions for
    Dynamic Load Balancing). That of
    a waiting job is the mean of the running ones. Both are shorter if the queue shows when the job
    is killed: the median of the times before that. The requested time of a simulated job is then
    what is left of the limit; otherwise it is its run time. Waiting jobs are narrowed to the site's
    share of the queue, and count only if slots are busy: otherwise they wait for something else.
    """
    listed = list(jobs)
    busy = max(0, slots - idle_cores)
    if busy == 0:
        return []
    running = [job for job in listed if job.state in ("running", "ending", "suspended")]
    ages_s = [_age_s(job, now_s) for job in running]
    ahead = _holders(running, ages_s, busy, now_s)
    mean_s = fmean(ages_s) if ages_s else ASSUMED_S
    share = min(1.0, slots / queue_cores) if queue_cores else 1.0
    for job in listed:
        if job.state == "queued":
            cores = min(slots, max(1, round(job.cores * share)))
            ahead.append(_simulated(cores, mean_s, job.requested_s))
    return ahead


def _holders(
    running: Sequence[JobInQueue], ages_s: Sequence[float], busy: int, now_s: float
) -> list[SimulatedJob]:
    """Jobs that hold ``busy`` cores; cores of jobs that are not listed end after the rest."""
    ahead, free = [], busy
    for job, age_s in sorted(zip(running, ages_s, strict=True), key=lambda pair: pair[1]):
        cores = min(job.cores, free)
        if cores:
            ahead.append(_simulated(cores, age_s, _limit_s(job, now_s)))
            free -= cores
    if free:
        ahead.append(SimulatedJob(0.0, ASSUMED_S, free, ASSUMED_S))
    return ahead


def _simulated(cores: int, median_s: float, limit_s: float | None) -> SimulatedJob:
    """A job whose remaining run time R has P(R > r) = m / (m + r), m being the median, and is known
    to be below a limit."""
    if limit_s is None:
        return SimulatedJob(0.0, median_s, cores, median_s)
    middle = (1 + median_s / (median_s + limit_s)) / 2
    return SimulatedJob(0.0, median_s * (1 - middle) / middle, cores, limit_s)


def _limit_s(job: JobInQueue, now_s: float) -> float | None:
    """What is left of the limit of a running job: always some, since systems kill late."""
    if job.requested_s is None:
        return None
    elapsed_s = 0.0 if job.started_s is None else now_s - job.started_s
    return max(MIN_AGE_S, job.requested_s - elapsed_s)


def _age_s(job: JobInQueue, now_s: float) -> float:
    if job.started_s is None:
        return ASSUMED_S
    return max(MIN_AGE_S, now_s - job.started_s)
