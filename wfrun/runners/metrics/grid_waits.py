"""Response times, waits and bounded slowdowns of the jobs of a simulated grid (thesis section
7.4.3)."""

from __future__ import annotations

from collections.abc import Iterator
from math import fsum

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.runners.simulate.grid.model import GridSchedule

THRESHOLD_S = 60.0
"""Minimum run time in bounded slowdowns, in seconds (thesis section 7.4.3)."""


class GridMeans(msgspec.Struct, frozen=True):
    """A column of thesis table 7.6, and further means that explain it."""

    jobs: int
    response_s: float
    wait_s: float
    slowdown: float
    """Mean bounded slowdown."""
    waited: float
    """Share of the jobs that waited."""
    long_waits: float
    """Share of the jobs that waited for more than 10,000 s."""
    utilization: float
    """Mean fraction of the processors in use, from the first to the last submission."""
    share: tuple[float, ...]
    """Fraction of the jobs that ran at each site (figure 7.11)."""


def waits_s(schedule: GridSchedule) -> list[float]:
    """Wait of each job, in seconds: time from submission to start."""
    starts = zip(schedule.jobs, schedule.start_s, strict=True)
    return [start_s - job.submit_s for job, start_s in starts]


def responses_s(schedule: GridSchedule) -> list[float]:
    """Response time of each job, in seconds: time from submission to end."""
    return [end_s - job.submit_s for job, end_s in zip(schedule.jobs, schedule.end_s, strict=True)]


def slowdowns(schedule: GridSchedule, threshold_s: float = THRESHOLD_S) -> list[float]:
    """Bounded slowdown of each job, with the minimum run time ``threshold_s`` (equation 7.2)."""
    return list(_slowdowns(schedule, threshold_s))


def _slowdowns(schedule: GridSchedule, threshold_s: float) -> Iterator[float]:
    for job, start_s, end_s in zip(schedule.jobs, schedule.start_s, schedule.end_s, strict=True):
        yield max(1.0, (end_s - job.submit_s) / max(threshold_s, end_s - start_s))


def grid_means(schedule: GridSchedule) -> GridMeans:
    """The means over all jobs. Raises InvalidError for a schedule without jobs."""
    count = len(schedule.jobs)
    if not count:
        raise InvalidError("a schedule without jobs has no means")
    waits = waits_s(schedule)
    by_site = [0] * len(schedule.sites)
    for site in schedule.site:
        by_site[site] += 1
    return GridMeans(
        count,
        fsum(responses_s(schedule)) / count,
        fsum(waits) / count,
        fsum(_slowdowns(schedule, THRESHOLD_S)) / count,
        sum(wait > 0 for wait in waits) / count,
        sum(wait > 10_000 for wait in waits) / count,
        _utilization(schedule),
        tuple(jobs / count for jobs in by_site),
    )


def _utilization(schedule: GridSchedule) -> float:
    first_s, last_s = schedule.jobs[0].submit_s, schedule.jobs[-1].submit_s
    if not last_s > first_s:
        return 0.0
    rows = zip(schedule.jobs, schedule.start_s, schedule.end_s, strict=True)
    used = fsum(job.cores * max(0.0, min(end, last_s) - start) for job, start, end in rows)
    return used / (sum(spec.slots for spec in schedule.sites) * (last_s - first_s))
