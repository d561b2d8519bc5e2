"""Policies that say which running jobs grow or shrink, and by how much (thesis section 3.2.4).

Each is a pure function of the malleable jobs that run at one site, in the order of their start. A
job may take fewer processors than it is offered. FPSMA makes each offer after the answer to the
previous one; EGS makes all offers at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

POLICIES = {
    "fpsma": "favor previously started malleable applications: the earliest started job is offered "
    "all idle processors, the latest started gives back first",
    "egs": "equi-grow & shrink: idle processors are offered, and reclaimed, equally over all "
    "running malleable jobs",
}
"""Descriptions of the malleability policies, by name."""


class SizedJob(NamedTuple):
    """The size of a running malleable job, in processors."""

    size: int
    least: int
    """Minimum size."""
    most: int
    """Maximum size."""


class Change(NamedTuple):
    """An offer to a job, or a mandatory shrink."""

    place: int
    """Position of the job in the order in which jobs were started."""
    processors: int
    """Number of processors offered or reclaimed, at least 1."""


Answer = Callable[[Change], int]
"""Callback that returns a job's answer. To an offer: the number of processors that it takes, from 0
to the offered number. To a shrink: the number that it gives back, at least the number reclaimed
unless its minimum size forbids it."""


def offers(policy: str, jobs: int, idle: int) -> list[Change]:
    """The offers of ``idle`` processors to ``jobs`` running jobs that had no offer in this pass.
    FPSMA makes one offer, of all processors to the job that started first. EGS offers equal shares;
    the remainder goes to the jobs that started first."""
    if not jobs or idle <= 0:
        return []
    if policy == "fpsma":
        return [Change(0, idle)]
    share, rest = divmod(idle, jobs)
    return [Change(n, share + (n < rest)) for n in range(jobs) if share or n < rest]


def demands(policy: str, jobs: Sequence[SizedJob], needed: int) -> list[Change]:
    """Return the mandatory shrinks that together give back ``needed`` processors, or all processors
    above the minimum sizes if these are fewer. FPSMA reclaims as many processors as possible from
    each job in turn, the latest started job first. EGS reclaims equal shares, and the remainder
    from the jobs that started last. What a job cannot give back because of its minimum size is
    reclaimed equally from the other jobs."""
    can_give = [job.size - job.least for job in jobs]
    needed = min(needed, sum(can_give))
    asked = [0] * len(jobs)
    while needed > 0:
        givers = [n for n in reversed(range(len(jobs))) if can_give[n] > asked[n]]
        share = max(1, needed // len(givers)) if policy == "egs" else needed
        for n in givers:
            part = min(share, can_give[n] - asked[n], needed)
            asked[n] += part
            needed -= part
    return [Change(n, asked[n]) for n in reversed(range(len(jobs))) if asked[n]]


def grow(policy: str, jobs: int, idle: int, answer: Answer) -> int:
    """Offer idle processors to ``jobs`` running jobs, each once. Returns the number of processors
    that no job has taken.

    With equal shares, processors that a job refuses stay idle until the next pass; under FPSMA they
    are offered to the next job.
    """
    if policy != "fpsma":
        return idle - sum(answer(offer) for offer in offers(policy, jobs, idle))
    for first in range(jobs):
        for offer in offers(policy, jobs - first, idle):
            idle -= answer(offer._replace(place=first))
    return idle


def shrink(policy: str, jobs: Sequence[SizedJob], needed: int, answer: Answer) -> int:
    """Reclaim at least ``needed`` processors if the minimum sizes allow it. Returns the number
    given back. A job may give back more than it is asked for; under FPSMA the next jobs are asked
    for less."""
    given = 0
    for demand in demands(policy, jobs, needed):
        count = demand.processors if policy != "fpsma" else min(demand.processors, needed - given)
        if count > 0:
            given += answer(Change(demand.place, count))
    return given


def reclaimable(jobs: Sequence[SizedJob]) -> int:
    """Number of processors that the jobs hold above their minimum sizes."""
    return sum(job.size - job.least for job in jobs)
