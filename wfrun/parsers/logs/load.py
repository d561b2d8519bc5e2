"""The load that a log offers to a machine, and logs scaled to another load."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec.structs import replace

from wfrun.engine.errors import InvalidError
from wfrun.parsers.logs.workload_log import LoggedJob


def load_of(jobs: Iterable[LoggedJob], processors: int) -> float:
    """The offered load: the work of the jobs relative to the capacity of the machine while they
    arrive.

    The work of a job is its number of processors (`LoggedJob.size`) times its run time, or 0 if
    either is unknown or negative. The capacity is ``processors`` times the period from the first to
    the last submission. The period does not extend to the last end, so that the load is
    proportional to the arrival rate. At a load above 1 the machine is overloaded.

    Raises InvalidError if all jobs are submitted at once, or ``processors`` is not positive.
    """
    work, first_s, last_s = 0.0, math.inf, -math.inf
    for job in jobs:
        work += (job.size or 0) * max(job.runtime_s or 0.0, 0.0)
        first_s = min(first_s, job.submit_s)
        last_s = max(last_s, job.submit_s)
    if not last_s > first_s:
        raise InvalidError(
            "a load needs jobs that are submitted at two times or more",
            hint="Take a longer part of the log.",
        )
    if processors < 1:
        raise InvalidError(
            f"a machine of {processors} processors has no load",
            hint="Give the number of processors that the jobs are for, such as MaxProcs.",
        )
    return work / (processors * (last_s - first_s))


def scale_load(jobs: Iterable[LoggedJob], target: float, processors: int) -> tuple[LoggedJob, ...]:
    """Scale a log such that its `load_of` is ``target``.

    All times between submissions, and think times, are multiplied by the same factor. Hence days
    and weeks get shorter or longer by this factor. The first submission keeps its time. Logged
    waits become unknown, since they belong to the old load. Jobs keep their sizes, run times,
    estimates, and their order.

    Rejected alternatives: longer run times, which no longer fit the users' estimates and change
    response times without any queueing; larger jobs, which pack differently; dropping or repeating
    jobs at random, which breaks up users' sessions.

    Raises InvalidError if the target is not positive, or the jobs offer no load at all.
    """
    if not 0 < target < math.inf:
        raise InvalidError(
            f"a load of {target} cannot be reached",
            hint="Give one above 0; 0.7 keeps 70% of the processors busy.",
        )
    before = tuple(jobs)
    load = load_of(before, processors)
    if load == 0:
        raise InvalidError(
            "the jobs offer no load: their run times or processors are all unknown or 0",
            hint="Take a log that has both.",
        )
    factor = load / target
    first_s = min(job.submit_s for job in before)
    return tuple(
        replace(
            job,
            submit_s=first_s + (job.submit_s - first_s) * factor,
            think_s=None if job.think_s is None else job.think_s * factor,
            wait_s=None,
        )
        for job in before
    )
