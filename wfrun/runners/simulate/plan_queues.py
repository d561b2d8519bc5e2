"""The present queue of a cluster as jobs of a simulated one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from wfrun.sites.batch.jobs import JobInQueue
from wfrun.sites.simulated.queues import SimulatedJob

ASSUMED_S = 1800.0
"""Remaining run time of a job whose start is unknown, in seconds."""
MIN_AGE_S = 60.0
"""Minimum age of a running job, in seconds. A job that has just started is then not expected to end
at once."""


def jobs_ahead(
    jobs: Iterable[JobInQueue], slots: int, idle_cores: int, queue_cores: int, now_s: float
) -> list[SimulatedJob]:
    """The jobs that hold a site's slots, or wait for them, when a run begins.

    Running jobs hold the ``slots`` that are not idle. The queue shows no remaining run times. The
    remaining time of a running job is taken to be its age, which is the median if the density of
    run times falls as 1/t² (Harchol-Balter and Downey 1997, Exploiting Process Lifetime
    Distributions for Dynamic Load Balancing). That of a waiting job is the mean age of the running
    ones. If the queue shows when a job is killed, its time is the median of the times before that,
    which is shorter, and its requested time is what is left of the limit. Otherwise its requested
    time is its run time. Waiting jobs are narrowed to the site's share of the queue. They count
    only if slots are busy, because otherwise they wait for something else.
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
    """Jobs that hold ``busy`` cores. One further job holds the cores of running jobs that the queue
    does not list."""
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
    """Time until a running job is killed, in seconds; at least MIN_AGE_S, because systems kill
    late. None: it has no limit."""
    if job.requested_s is None:
        return None
    elapsed_s = 0.0 if job.started_s is None else now_s - job.started_s
    return max(MIN_AGE_S, job.requested_s - elapsed_s)


def _age_s(job: JobInQueue, now_s: float) -> float:
    if job.started_s is None:
        return ASSUMED_S
    return max(MIN_AGE_S, now_s - job.started_s)
