"""Policies that say which running jobs grow or shrink, and by how much (thesis section 3.2.4).

Each is a pure function of the malleable jobs that run at one site, in the order of their start.
A job may take less than it is offered, so one that has to know an answer before the next offer
makes one offer at a time.
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
"""Malleability policies by name, with what they do."""


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
    """Position of the job in the order of their start."""
    processors: int
    """Processors that are offered or reclaimed; 1 or more."""


Answer = Callable[[Change], int]
"""The job's answer: the number of processors that it takes (from 0 to the offered number) or gives
back (at least the number asked for, but never below its minimum size)."""


def offers(policy: str, jobs: int, idle: int) -> list[Change]:
    """The offers to make at once to ``jobs`` running jobs, none of which has been asked in this
    pass. The remainder of equal shares goes to the jobs that started first."""
    if not jobs or idle <= 0:
        return []
    if policy == "fpsma":
        return [Change(0, idle)]
    share, rest = divmod(idle, jobs)
    return [Change(n, share + (n < rest)) for n in range(jobs) if share or n < rest]


def demands(policy: str, jobs: Sequence[SizedJob], needed: int) -> list[Change]:
    """The mandatory shrinks that together give back ``needed`` processors, or all above the minimum
    sizes if these are fewer. The remainder of equal shares is reclaimed from the jobs that started
    last. What a job at its minimum cannot give is reclaimed from the others, equally."""
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
    """Offer idle processors to ``jobs`` running jobs, each once. Returns the number that no job has
    taken.

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
    """Processors above the minimum sizes."""
    return sum(job.size - job.least for job in jobs)
