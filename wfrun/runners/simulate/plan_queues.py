"""Converts the present queue of a cluster into jobs of a simulated queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from wfrun.sites.batch.jobs import JobInQueue
from wfrun.sites.simulated.queues import SimulatedJob

ASSUMED_S = 1800.0
"""Assumed remaining run time of a job whose start is unknown, in seconds."""
MIN_AGE_S = 60.0
"""Minimum assumed age of a running job, in seconds. The expected remaining time of a job is its
age, so that a job that has just started would otherwise be expected to end immediately."""


def jobs_ahead(
    jobs: Iterable[JobInQueue], slots: int, idle_cores: int, queue_cores: int, now_s: float
) -> list[SimulatedJob]:
    """The jobs that hold a site's slots, or wait for them, when a run begins.

    Running jobs hold the ``slots`` that are not idle. Their remaining run times are estimated,
    because the queue does not show them. The median remaining time of a running job equals its age,
    if the density of run times falls as 1/t² (Harchol-Balter and Downey 1997, Exploiting Process
    Lifetime Distributions for Dynamic Load Balancing). A waiting job is assumed to run for the mean
    age of the running jobs.

    If the queue shows the time limit of a job, the remaining time of the job is the median under
    this limit, which is shorter, and its requested time is the time until the limit. Otherwise the
    requested time equals the remaining time.

    The sizes of waiting jobs are reduced in proportion to the site's part of the queue's cores. If
    no slot is busy, no job is returned, because the waiting jobs then wait for something else.
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
    """The running jobs that hold ``busy`` cores, the youngest first. If the listed jobs have fewer
    cores, a further assumed job holds the other cores."""
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
    """A job that runs for the median of its remaining run time R, where P(R > r) = m / (m + r) with
    m = ``median_s``. With a limit, R is conditioned on R below ``limit_s``."""
    if limit_s is None:
        return SimulatedJob(0.0, median_s, cores, median_s)
    middle = (1 + median_s / (median_s + limit_s)) / 2
    return SimulatedJob(0.0, median_s * (1 - middle) / middle, cores, limit_s)


def _limit_s(job: JobInQueue, now_s: float) -> float | None:
    """Time until the job is killed at its limit, in seconds; at least MIN_AGE_S, because systems
    kill late. None: the job has no limit."""
    if job.requested_s is None:
        return None
    elapsed_s = 0.0 if job.started_s is None else now_s - job.started_s
    return max(MIN_AGE_S, job.requested_s - elapsed_s)


def _age_s(job: JobInQueue, now_s: float) -> float:
    if job.started_s is None:
        return ASSUMED_S
    return max(MIN_AGE_S, now_s - job.started_s)
