"""Metrics of jobs in the queues of sites."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import fsum

import msgspec

from wfrun.engine.errors import InvalidError

THRESHOLD_S = 10.0
"""Minimum run time of a job in bounded slowdowns, in seconds."""


class JobTiming(msgspec.Struct, frozen=True, gc=False):
    """A job that has run at one site, on all of its cores from start to end."""

    submit_s: float
    start_s: float
    end_s: float
    cores: int = 1
    site: int = 0

    @property
    def runtime_s(self) -> float:
        return self.end_s - self.start_s

    @property
    def wait_s(self) -> float:
        """Time from submission to start, in seconds."""
        return self.start_s - self.submit_s

    @property
    def response_s(self) -> float:
        """Time from submission to end, in seconds; also called turnaround time."""
        return self.end_s - self.submit_s


def slowdown(job: JobTiming) -> float | None:
    """Response time divided by run time; None if the run time is 0."""
    return job.response_s / job.runtime_s if job.runtime_s > 0 else None


def bounded_slowdown(job: JobTiming, threshold_s: float = THRESHOLD_S) -> float:
    """max(1, response time / max(run time, ``threshold_s``)).

    Source: Feitelson, Rudolph, Schwiegelshohn, Sevcik and Wong, *Theory and Practice in Parallel
    Job Scheduling*, 1997, section 2.3. Raises InvalidError if the threshold is not positive.
    """
    check_threshold(threshold_s)
    return max(1.0, job.response_s / max(job.runtime_s, threshold_s))


def check_threshold(threshold_s: float) -> None:
    if not threshold_s > 0:
        raise InvalidError(
            f"the threshold of a bounded slowdown is {threshold_s} s",
            hint="use a positive number of seconds; 10 is usual",
        )


def total_makespan_s(jobs: Iterable[JobTiming]) -> float:
    """Time from the first submission to the last end, in seconds. Raises InvalidError for no
    jobs."""
    known = list(jobs)
    if not known:
        raise InvalidError("without jobs there is no makespan")
    return max(job.end_s for job in known) - min(job.submit_s for job in known)


def busy_cores(jobs: Iterable[JobTiming], site: int | None = None) -> list[tuple[float, int]]:
    """Cores in use over time, as a step function. ``site`` is the number of a site; None: all sites
    together.

    Returns a point (time in seconds, cores in use from then on) for each change, ascending; the
    last point has 0 cores.
    """
    changes: dict[float, int] = {}
    for job in jobs:
        if site is None or job.site == site:
            changes[job.start_s] = changes.get(job.start_s, 0) + job.cores
            changes[job.end_s] = changes.get(job.end_s, 0) - job.cores
    points = []
    cores = 0
    for at_s in sorted(changes):
        if changes[at_s]:
            cores += changes[at_s]
            points.append((at_s, cores))
    return points


def utilization(
    jobs: Iterable[JobTiming], slots: int, edges_s: Sequence[float], site: int | None = None
) -> list[float]:
    """Mean fraction of the ``slots`` in use in each interval between successive ``edges_s``. The
    edges are times in seconds, and must ascend. ``site`` is the number of a site; None: all sites
    together.

    A fraction exceeds 1 if jobs use more cores than there are slots. Raises InvalidError if there
    are no slots, or if the edges do not ascend.
    """
    if slots <= 0 or any(not begin < end for begin, end in pairwise(edges_s)):
        raise InvalidError(
            f"there is no utilization of {slots} slots between the times {list(edges_s)[:4]}…",
            hint="give a positive number of slots, and ascending times",
        )
    points = busy_cores(jobs, site)
    shares = []
    position, cores = 0, 0
    for begin_s, end_s in pairwise(edges_s):
        used_core_s = []
        now_s = begin_s
        while position < len(points) and points[position][0] < end_s:
            at_s, after = points[position]
            if at_s > now_s:
                used_core_s.append(cores * (at_s - now_s))
                now_s = at_s
            cores = after
            position += 1
        used_core_s.append(cores * (end_s - now_s))
        shares.append(fsum(used_core_s) / (slots * (end_s - begin_s)))
    return shares
