"""The algorithms that DEMT is compared with (P.-F. Dutot, L. Eyraud, G. Mounié, D. Trystram,
*Bi-criteria Algorithm for Scheduling Jobs on Cluster Platforms*, SPAA 2004, section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine.jobs.packing.dual import Dual
from wfrun.engine.jobs.packing.job import PackedJob, Packing


def gang(jobs: Sequence[PackedJob]) -> Packing:
    """Each job with its largest size, by decreasing weight over run time. Optimal if all jobs can
    use all processors with linear speedup."""
    places = tuple(len(job.sizes) - 1 for job in jobs)
    return Packing(_by_ratio(jobs, places), places)


def sequential(jobs: Sequence[PackedJob]) -> Packing:
    """Each job with its smallest size, normally one processor; the longest job first."""
    order = sorted(range(len(jobs)), key=lambda number: -jobs[number].times_s[0])
    return Packing(tuple(order), (0,) * len(jobs))


def shelf_list(jobs: Sequence[PackedJob], dual: Dual) -> Packing:
    """The sizes of the dual approximation, in the order of its shelves."""
    return dual.packing(jobs)


def weighted_list(jobs: Sequence[PackedJob], dual: Dual) -> Packing:
    """The sizes of the dual approximation, by decreasing weight over run time: the weighted LPTF of
    the paper."""
    places = dual.shelves.places(jobs)
    return Packing(_by_ratio(jobs, places), places)


def area_list(jobs: Sequence[PackedJob], dual: Dual) -> Packing:
    """The sizes of the dual approximation, the smallest work first (SAF)."""
    places = dual.shelves.places(jobs)
    order = sorted(range(len(jobs)), key=lambda number: jobs[number].work(places[number]))
    return Packing(tuple(order), places)


def _by_ratio(jobs: Sequence[PackedJob], places: Sequence[int]) -> tuple[int, ...]:
    """The jobs by decreasing weight over run time."""

    def ratio(number: int) -> float:
        return jobs[number].weight / jobs[number].times_s[places[number]]

    return tuple(sorted(range(len(jobs)), key=ratio, reverse=True))
