"""Moldable jobs to be packed, and packed schedules."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from wfrun.engine.errors import InfeasibleError


class PackedJob:
    """A job that starts with one of several numbers of processors.

    ``sizes`` ascend, and the run time ``times_s`` never grows with the size. The work is processors
    times run time. A job is *monotonic* if its work never falls with the size; the guarantees of
    `wfrun.engine.jobs.packing.dual` hold for monotonic jobs only.
    """

    __slots__ = ("_least", "_negated", "sizes", "times_s", "weight")

    def __init__(self, sizes: Sequence[int], times_s: Sequence[float], weight: float = 1.0) -> None:
        self.sizes = tuple(sizes)
        self.times_s = tuple(times_s)
        self.weight = weight
        self._negated = [-time_s for time_s in times_s]
        least, best = [], float("inf")
        for size, time_s in zip(reversed(self.sizes), reversed(self.times_s), strict=True):
            best = min(best, size * time_s)
            least.append(best)
        self._least = least[::-1]

    def choice(self, limit_s: float) -> int | None:
        """Index in ``sizes`` of the smallest size with which the job takes at most ``limit_s``
        seconds: the γ of the paper. None if it takes longer with every size."""
        place = bisect_left(self._negated, -limit_s)
        return place if place < len(self.sizes) else None

    def least_work(self, limit_s: float) -> float | None:
        """The least processor seconds with which the job takes at most ``limit_s``; None if it
        takes longer with every size."""
        place = self.choice(limit_s)
        return None if place is None else self._least[place]

    def work(self, place: int) -> float:
        """Processor-seconds with the size at index ``place`` of ``sizes``."""
        return self.sizes[place] * self.times_s[place]

    @property
    def shortest_s(self) -> float:
        """The run time with the most processors."""
        return self.times_s[-1]

    def within(self, processors: int) -> PackedJob:
        """The job with only its sizes up to ``processors``. Raises InfeasibleError if there is
        none."""
        if self.sizes[-1] <= processors:
            return self
        count = sum(size <= processors for size in self.sizes)
        if not count:
            raise InfeasibleError(
                f"a job needs at least {self.sizes[0]} processors, the allocation has {processors}",
                hint="offer it smaller sizes, or a wider allocation",
            )
        return PackedJob(self.sizes[:count], self.times_s[:count], self.weight)


class Packing(NamedTuple):
    """The result of a packing algorithm: the list for a list schedule, and the size of each job."""

    order: tuple[int, ...]
    """Numbers of all jobs, the first to start first."""
    places: tuple[int, ...]
    """By job: index of the chosen size among the sizes of the job."""


class PackedSchedule(NamedTuple):
    """Starts and run times of jobs in an allocation; sequences by job."""

    starts_s: Sequence[float]
    times_s: Sequence[float]
    sizes: Sequence[int]

    @property
    def ends_s(self) -> list[float]:
        """Completion times in seconds, by job."""
        return [start + time for start, time in zip(self.starts_s, self.times_s, strict=True)]

    @property
    def makespan_s(self) -> float:
        """The last completion, C_max."""
        return max(self.ends_s, default=0.0)

    def weighted_s(self, jobs: Sequence[PackedJob]) -> float:
        """The weighted sum of completions, Σ w C."""
        return sum(job.weight * end for job, end in zip(jobs, self.ends_s, strict=True))


def list_schedule(
    jobs: Sequence[PackedJob], packing: Packing, processors: int, begin_s: float = 0.0
) -> PackedSchedule:
    """Return the schedule of a list algorithm: whenever processors are free, from ``begin_s`` on,
    the first job of the list that fits on them starts (M. R. Garey, R. L. Graham, SIAM J. Computing
    4, 1975).

    Cost: the number of completions times the number of waiting jobs.
    """
    sizes = [job.sizes[place] for job, place in zip(jobs, packing.places, strict=True)]
    times_s = [job.times_s[place] for job, place in zip(jobs, packing.places, strict=True)]
    return list_starts(packing.order, sizes, times_s, processors, begin_s)


def list_starts(
    order: Sequence[int],
    sizes: Sequence[int],
    times_s: Sequence[float],
    processors: int,
    begin_s: float = 0.0,
) -> PackedSchedule:
    """`list_schedule` for jobs whose sizes are chosen already. Raises InfeasibleError for a job
    that is wider than the allocation."""
    starts_s = [begin_s] * len(sizes)
    waiting, free, now_s = list(order), processors, begin_s
    ends: list[tuple[float, int]] = []
    while waiting:
        left: list[int] = []
        for index, job in enumerate(waiting):
            size = sizes[job]
            if size <= free:
                free -= size
                starts_s[job] = now_s
                heappush(ends, (now_s + times_s[job], size))
                if not free:
                    left.extend(waiting[index + 1 :])
                    break
            else:
                left.append(job)
        waiting = left
        if not ends:
            if waiting:
                raise InfeasibleError(
                    f"a job needs {sizes[waiting[0]]} processors, the allocation has {processors}",
                    hint="offer it smaller sizes, or a wider allocation",
                )
            break
        now_s, size = heappop(ends)
        free += size
        while ends and ends[0][0] <= now_s:
            free += heappop(ends)[1]
    return PackedSchedule(starts_s, times_s, sizes)


def assign(schedule: PackedSchedule, processors: int) -> list[tuple[int, ...]]:
    """Return the processors of each job, numbered from 0: the lowest free processors. No processor
    has two jobs at a time; a job that ends when another job starts gives up its processors
    first."""
    free = list(range(processors))
    found: list[tuple[int, ...]] = [()] * len(schedule.sizes)
    running: list[tuple[float, int]] = []
    starts = sorted(range(len(schedule.sizes)), key=schedule.starts_s.__getitem__)
    for job in starts:
        while running and running[0][0] <= schedule.starts_s[job]:
            for processor in found[heappop(running)[1]]:
                heappush(free, processor)
        found[job] = tuple(heappop(free) for _ in range(schedule.sizes[job]))
        heappush(running, (schedule.starts_s[job] + schedule.times_s[job], job))
    return found
