"""Filters and corrections of the jobs of a log: pure functions that keep the order of the jobs.

Source of `JGC_RULES`: J. M. Ramírez-Alcaraz et al., Journal of Grid Computing 9, 2011, section 5.2
("Workload"), which cleans the logs of the Parallel Workloads Archive with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from msgspec.structs import replace

from wfrun.engine.errors import InvalidError
from wfrun.parsers.logs.workload_log import CANCELLED, FAILED, PARTIAL_FAILED, LoggedJob, Name

Rule = Callable[[LoggedJob], bool]
"""Tells whether a job is dropped."""


def _not_positive(value: Name | float | None) -> bool:
    """Whether a number is zero, negative or unknown. Always false for a word, which is a name."""
    return value is None or (not isinstance(value, str) and value <= 0)


JGC_RULES: Mapping[str, Rule] = {
    "job number not positive": lambda job: job.id <= 0,
    "submitted at a negative time": lambda job: job.submit_s < 0,
    "run time zero, negative or unknown": lambda job: _not_positive(job.runtime_s),
    "no allocated processors": lambda job: _not_positive(job.processors),
    "requested time zero, negative or unknown": lambda job: _not_positive(job.requested_s),
    "user zero, negative or unknown": lambda job: _not_positive(job.user),
    "failed": lambda job: job.status == FAILED,
    "failed after a partial execution": lambda job: job.status == PARTIAL_FAILED,
    "cancelled": lambda job: job.status == CANCELLED,
}
"""The rules of the JGC paper, in its order."""

RUNNABLE_RULES: Mapping[str, Rule] = {
    "run time zero, negative or unknown": lambda job: _not_positive(job.runtime_s),
    "number of processors zero or unknown": lambda job: _not_positive(job.size),
}
"""The minimum for a simulation: jobs that held processors for a time, however they ended."""


class Filtered(NamedTuple):
    jobs: tuple[LoggedJob, ...]
    dropped: dict[str, int]
    """Number of dropped jobs by the first rule that applies; rules that drop none are absent."""


def drop_jobs(jobs: Iterable[LoggedJob], rules: Mapping[str, Rule] = JGC_RULES) -> Filtered:
    """Return the jobs that no rule drops, and the number of jobs dropped by each rule. A job to
    which several rules apply counts for the first of them."""
    kept: list[LoggedJob] = []
    dropped: dict[str, int] = {}
    tests = tuple(rules.items())
    for job in jobs:
        for reason, applies in tests:
            if applies(job):
                dropped[reason] = dropped.get(reason, 0) + 1
                break
        else:
            kept.append(job)
    return Filtered(tuple(kept), dropped)


def clip(jobs: Iterable[LoggedJob], start_s: float, end_s: float) -> Iterator[LoggedJob]:
    """Select the jobs submitted from ``start_s`` to before ``end_s``, at their times in the log.

    Raises InvalidError when the end is before the start.
    """
    if not start_s <= end_s:
        raise InvalidError(
            f"the part of a log from {start_s} s to {end_s} s is none",
            hint="Give an end behind the start.",
        )
    return (job for job in jobs if start_s <= job.submit_s < end_s)


def shift(jobs: Iterable[LoggedJob], by_s: float) -> Iterator[LoggedJob]:
    """Add ``by_s`` seconds to each job's submission time. Raises InvalidError if ``by_s`` is not
    finite."""
    if not math.isfinite(by_s):
        raise InvalidError(f"a log cannot be shifted by {by_s} s", hint="Give a number of seconds.")
    return (replace(job, submit_s=job.submit_s + by_s) for job in jobs)


Overrun = Literal["truncate", "extend", "drop"]


def settle_overruns(jobs: Iterable[LoggedJob], how: Overrun) -> Iterator[LoggedJob]:
    """Remove the overruns from a log: jobs that ran longer than they requested.

    Real logs have many such jobs, because limits were not enforced, or only minutes late.
    ``truncate`` ends these jobs at their request, as an LRM that kills does; ``extend`` raises the
    request to the run time, which keeps the work; ``drop`` removes the jobs. A job whose request or
    run time is unknown stays unchanged.
    """
    for job in jobs:
        asked_s = job.requested_s
        if asked_s is None or job.runtime_s is None or job.runtime_s <= asked_s:
            yield job
        elif how == "truncate":
            yield replace(job, runtime_s=asked_s)
        elif how == "extend":
            yield replace(job, requested_s=job.runtime_s)
