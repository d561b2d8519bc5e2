"""Optimal schedules of a few moldable jobs, by trying everything, and random jobs.

Written from the definitions of SPAA 2004, section 2, and from nothing in
`wfrun.engine.jobs.packing`: some optimal schedule for either criterion is found by giving the jobs
sizes, and starting them in some order, each as early as the processors that are left to it allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, permutations, product
from random import Random
from typing import NamedTuple

from wfrun.engine.jobs.packing import PackedJob


class Optimum(NamedTuple):
    makespan_s: float
    weighted_s: float


def optimum(jobs: Sequence[PackedJob], processors: int) -> Optimum:
    """The least last completion, and the least weighted sum of completions."""
    choices = [list(zip(job.sizes, job.times_s, strict=True)) for job in jobs]
    makespan_s = weighted_s = float("inf")
    for sizes in product(*choices):
        for order in permutations(range(len(jobs))):
            placed: list[tuple[float, float, int]] = []
            last_s = total_s = 0.0
            for number in order:
                size, time_s = sizes[number]
                start_s = earliest(placed, size, time_s, processors)
                placed.append((start_s, start_s + time_s, size))
                last_s = max(last_s, start_s + time_s)
                total_s += jobs[number].weight * (start_s + time_s)
            makespan_s, weighted_s = min(makespan_s, last_s), min(weighted_s, total_s)
    return Optimum(makespan_s, weighted_s)


def earliest(
    placed: Sequence[tuple[float, float, int]], size: int, time_s: float, processors: int
) -> float:
    """The first moment from which ``size`` processors are free for ``time_s``."""
    for start_s in sorted({0.0, *(end for _, end, _ in placed)}):
        moments = [
            start_s,
            *(begin for begin, _, _ in placed if start_s < begin < start_s + time_s),
        ]
        if all(
            sum(width for begin, end, width in placed if begin <= moment < end) + size <= processors
            for moment in moments
        ):
            return start_s
    raise AssertionError("the job is wider than the processors")


def check(
    jobs: Sequence[PackedJob],
    starts_s: Sequence[float],
    times_s: Sequence[float],
    sizes: Sequence[int],
    assigned: Sequence[Sequence[int]],
    processors: int,
) -> None:
    """Check that a schedule has every job once, with one of its sizes, and no processor twice."""
    assert len(starts_s) == len(times_s) == len(sizes) == len(assigned) == len(jobs)
    slots: dict[int, list[tuple[float, float]]] = {}
    for job, start_s, time_s, size, own in zip(
        jobs, starts_s, times_s, sizes, assigned, strict=True
    ):
        assert dict(zip(job.sizes, job.times_s, strict=True))[size] == time_s
        assert start_s >= 0
        assert len(set(own)) == len(own) == size
        for processor in own:
            assert 0 <= processor < processors
            slots.setdefault(processor, []).append((start_s, start_s + time_s))
    for intervals in slots.values():
        intervals.sort()
        for (_, end_s), (begin_s, _) in pairwise(intervals):
            assert begin_s >= end_s


def monotonic_job(random: Random, processors: int) -> PackedJob:
    """A job whose run time does not grow, and whose work does not fall with the processors."""
    times_s = [random.choice([random.uniform(1, 10), float(random.randint(1, 8))])]
    for size in range(2, processors + 1):
        perfect = times_s[-1] * (size - 1) / size
        times_s.append(random.choice([perfect, times_s[-1], random.uniform(perfect, times_s[-1])]))
    return PackedJob(range(1, processors + 1), times_s, random.uniform(1, 10))


def any_job(random: Random, processors: int) -> PackedJob:
    """A job with some sizes, rigid or moldable, with any speedup."""
    count = random.randint(1, processors)
    sizes = sorted(random.sample(range(1, processors + 1), count))
    times_s = sorted((random.uniform(0.5, 10) for _ in sizes), reverse=True)
    return PackedJob(sizes, times_s, random.uniform(1, 10))
