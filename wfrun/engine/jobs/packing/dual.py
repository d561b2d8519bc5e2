"""The makespan of moldable jobs by dual approximation, within 3/2 of the optimum.

For a length L the algorithm proves that no schedule of length L exists, or finds one of at most
3L/2. In a schedule of length L on m processors, all jobs that take longer than L/2 run at the time
L/2, so together they have at most m processors: they are the *first shelf*. The other jobs are the
*second shelf*. A knapsack finds the division of the jobs between the shelves with the least total
work; if this work exceeds m·L, L is too short. Bisection finds the largest length that is rejected,
a lower bound of the optimum, and the smallest that is accepted.

Source: P.-F. Dutot, G. Mounié, D. Trystram, *Scheduling Parallel Tasks: Approximation Algorithms*,
Handbook of Scheduling, chapter 28, CRC Press, 2004; G. Mounié, C. Rapine, D. Trystram, *A 3/2-
approximation algorithm for scheduling independent monotonic malleable tasks*, SIAM J. Computing 37,
2007. The bound is valid for all jobs; the ratio 3/2 holds for monotonic jobs with all sizes from 1.
The knapsack is exact, by integer dynamic programming.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import NamedTuple

from wfrun.engine.jobs.packing.job import PackedJob, PackedSchedule, Packing, list_schedule

TOLERANCE = 1e-3
"""Maximum relative difference between the smallest accepted length and the largest rejected one."""

_ROUNDING = 1e-9
"""Relative rounding error of sums that comparisons tolerate."""


class Shelves(NamedTuple):
    """A division of the jobs into shelves, by job number."""

    length_s: float
    first: list[int]
    """Jobs that take at most ``length_s``."""
    second: list[int]
    """Jobs that take at most half of ``length_s``."""
    small: list[int]
    """Jobs that take at most half of ``length_s`` on one processor."""

    def places(self, jobs: Sequence[PackedJob]) -> tuple[int, ...]:
        """By job: index, among its sizes, of the smallest size whose run time its shelf allows."""
        found = [0] * len(jobs)
        for limit_s, members in (
            (self.length_s, self.first), (self.length_s / 2, self.second),
        ):  # fmt: skip
            for number in members:
                found[number] = jobs[number].choice(limit_s) or 0
        return tuple(found)

    @property
    def order(self) -> tuple[int, ...]:
        """All jobs: the first shelf, then the second shelf, then the small jobs."""
        return (*self.first, *self.second, *self.small)


class Dual(NamedTuple):
    """The result of the bisection."""

    lower_s: float
    """Lower bound: no schedule is shorter."""
    shelves: Shelves
    """The division for the smallest accepted length."""
    schedule: PackedSchedule
    """A schedule. With monotonic jobs its makespan is at most 3/2 of the accepted length."""

    @property
    def length_s(self) -> float:
        """The smallest accepted length. It is at most `TOLERANCE` above a rejected length or the
        lower bound."""
        return self.shelves.length_s

    def packing(self, jobs: Sequence[PackedJob]) -> Packing:
        """The sizes, with the jobs in the order of the shelves, for list algorithms."""
        return Packing(self.shelves.order, self.shelves.places(jobs))


def dual_approximation(
    jobs: Sequence[PackedJob], processors: int, tolerance: float = TOLERANCE
) -> Dual:
    """Find bounds of the makespan, and a schedule. There is at least one job, and each can run on
    ``processors`` processors."""
    work = sum(min(map(job.work, range(len(job.sizes)))) for job in jobs)
    lower_s = max(*(job.shortest_s for job in jobs), work / processors)
    length_s = lower_s
    while (found := divide(jobs, processors, length_s)) is None:
        lower_s, length_s = length_s, 2 * length_s
    while length_s > lower_s * (1 + tolerance):
        middle_s = (lower_s + length_s) / 2
        if (better := divide(jobs, processors, middle_s)) is None:
            lower_s = middle_s
        else:
            found, length_s = better, middle_s
    schedule = _Layout(jobs, processors, found).schedule()
    if schedule is None:
        packing = Packing(found.order, found.places(jobs))
        schedule = list_schedule(jobs, packing, processors)
    return Dual(lower_s, found, schedule)


def divide(jobs: Sequence[PackedJob], processors: int, length_s: float) -> Shelves | None:
    """Divide the jobs between the shelves so that the total work is least; None if every schedule
    is longer than ``length_s``."""
    half_s, work = length_s / 2, 0.0
    found = Shelves(length_s, [], [], [])
    free, either = processors, []
    gains: list[float] = []
    for number, job in enumerate(jobs):
        whole = job.choice(length_s)
        if whole is None:
            return None
        in_second = job.least_work(half_s)
        if in_second is None:
            found.first.append(number)
            free -= job.sizes[whole]
            work += job.least_work(length_s) or 0.0
        elif job.sizes[0] == 1 and job.times_s[0] <= half_s:
            found.small.append(number)
            work += in_second
        else:
            either.append(number)
            gains.append(in_second - (job.least_work(length_s) or 0.0))
            work += in_second
    if free < 0:
        return None
    costs = [jobs[number].sizes[jobs[number].choice(length_s) or 0] for number in either]
    chosen = set(knapsack(costs, gains, free))
    work -= sum(gains[index] for index in chosen)
    if work > processors * length_s * (1 + _ROUNDING):
        return None
    for index, number in enumerate(either):
        (found.first if index in chosen else found.second).append(number)
    return found


class _Part(NamedTuple):
    """A job with one of its sizes. ``place``: index of the size among the sizes of the job."""

    number: int
    place: int


class _Layout:
    """Turns a division of the jobs into a schedule of 3/2 of its length (SIAM 2007, section 4).

    The second shelf may need more processors than there are. Three changes make room until none is
    possible: a job of the first shelf gets fewer processors and runs longer, two jobs of the first
    shelf share a processor, or a job of the second shelf moves to free processors.
    """

    def __init__(self, jobs: Sequence[PackedJob], processors: int, shelves: Shelves) -> None:
        self._jobs = jobs
        self._length_s = shelves.length_s
        self._limit_s = 1.5 * shelves.length_s * (1 + _ROUNDING)
        places = shelves.places(jobs)
        self._first = [_Part(number, places[number]) for number in shelves.first]
        self._second = [_Part(number, places[number]) for number in shelves.second]
        self._small = shelves.small
        self._full: list[tuple[_Part, ...]] = []
        """Groups of jobs with processors of their own. The jobs of a group run one after another;
        the first one uses all processors of the group."""
        self._free = processors - sum(map(self._size, self._first))
        self._processors = processors

    def _size(self, part: _Part) -> int:
        return self._jobs[part.number].sizes[part.place]

    def _time_s(self, part: _Part) -> float:
        return self._jobs[part.number].times_s[part.place]

    def schedule(self) -> PackedSchedule | None:
        """The schedule; None if the second shelf does not fit, which happens to jobs that are not
        monotonic."""
        while self._narrow() or self._pair() or self._lift():
            pass
        return self._placed()

    def _narrow(self) -> bool:
        """Give fewer processors to a job of the first shelf that takes at most 3/4 of the length.
        Returns whether it was possible."""
        for part in self._first:
            if self._time_s(part) <= 0.75 * self._length_s and self._size(part) > 1:
                place = self._jobs[part.number].choice(self._limit_s)
                if place is not None and place < part.place:
                    narrower = _Part(part.number, place)
                    self._first.remove(part)
                    self._full.append((narrower,))
                    self._free += self._size(part) - self._size(narrower)
                    return True
        return False

    def _pair(self) -> bool:
        """Run a job of the first shelf after another job of the first shelf, if it has one
        processor and takes at most 3/4 of the length. Returns whether it was possible."""
        single = [
            part for part in self._first
            if self._size(part) == 1 and self._time_s(part) <= 0.75 * self._length_s
        ]  # fmt: skip
        if not single:
            return False
        part = single[0]
        others = [other for other in self._first if other is not part]
        other = min(others, key=self._time_s, default=None)
        if other is None or self._time_s(other) + self._time_s(part) > self._limit_s:
            return False
        self._first.remove(part)
        self._first.remove(other)
        self._full.append((other, part))
        self._free += 1
        return True

    def _lift(self) -> bool:
        """Move a job of the second shelf to processors that are free from the beginning. Returns
        whether it was possible."""
        for part in self._second:
            place = self._jobs[part.number].choice(self._limit_s)
            if place is None or self._jobs[part.number].sizes[place] > self._free:
                continue
            lifted = _Part(part.number, place)
            self._second.remove(part)
            if self._time_s(lifted) > self._length_s:
                self._full.append((lifted,))
            else:
                self._first.append(lifted)
            self._free -= self._size(lifted)
            return True
        return False

    def _placed(self) -> PackedSchedule | None:
        """Assign jobs to processors: the first shelf at the start, the second shelf at the end, and
        each small job between them where there is most room. Then all jobs start as early as their
        processors allow. None if the second shelf does not fit."""
        count = self._processors
        queues: list[list[int]] = [[] for _ in range(count)]
        busy_s = [0.0] * count
        places = [0] * len(self._jobs)
        used = 0

        def put(part: _Part, processors: Sequence[int]) -> None:
            places[part.number] = part.place
            for processor in processors:
                queues[processor].append(part.number)
                busy_s[processor] += self._time_s(part)

        for first, *behind in (*((part,) for part in self._first), *self._full):
            put(first, range(used, used + self._size(first)))
            for part in behind:
                put(part, range(used, used + 1))
            used += self._size(first)
        room = sorted(range(count), key=busy_s.__getitem__)
        tops: list[tuple[_Part, list[int]]] = []
        for part in sorted(self._second, key=self._time_s, reverse=True):
            fitting = room[: self._size(part)]
            room = room[self._size(part) :]
            if len(fitting) < self._size(part) or any(
                busy_s[processor] + self._time_s(part) > self._limit_s for processor in fitting
            ):
                return None
            tops.append((part, fitting))
        reserved_s = [0.0] * count
        for part, processors in tops:
            for processor in processors:
                reserved_s[processor] = self._time_s(part)
        for number in sorted(self._small, key=lambda n: self._jobs[n].times_s[0], reverse=True):
            processor = min(range(count), key=lambda p: busy_s[p] + reserved_s[p])
            put(_Part(number, 0), [processor])
        for part, processors in tops:
            put(part, processors)
        return self._compact(queues, places)

    def _compact(self, queues: list[list[int]], places: list[int]) -> PackedSchedule:
        """Start each job as soon as all jobs before it on its processors have ended."""
        sizes = [job.sizes[place] for job, place in zip(self._jobs, places, strict=True)]
        times_s = [job.times_s[place] for job, place in zip(self._jobs, places, strict=True)]
        starts_s, next_of, free_s = [0.0] * len(sizes), [0] * len(queues), [0.0] * len(queues)
        of_job: list[list[int]] = [[] for _ in sizes]
        for processor, queue in enumerate(queues):
            for number in queue:
                of_job[number].append(processor)
        ready = list(range(len(queues)))
        while ready:
            processor = ready.pop()
            if next_of[processor] == len(queues[processor]):
                continue
            number = queues[processor][next_of[processor]]
            own = of_job[number]
            if any(next_of[p] == len(queues[p]) or queues[p][next_of[p]] != number for p in own):
                continue
            starts_s[number] = max(free_s[p] for p in own)
            for p in own:
                free_s[p] = starts_s[number] + times_s[number]
                next_of[p] += 1
                ready.append(p)
        return PackedSchedule(starts_s, times_s, sizes)


def knapsack(costs: Sequence[int], values: Sequence[float], capacity: int) -> list[int]:
    """The numbers of the items with the largest total value whose costs sum to at most
    ``capacity``, ascending. Costs are at least 1; items without value are left out. Cost: items ×
    capacity."""
    row = [0.0] * (capacity + 1)
    rows = [row]
    for cost, value in zip(costs, values, strict=True):
        if value > 0 and cost <= capacity:
            taken = map(add, row, [value] * (capacity + 1 - cost))
            row = row[:cost] + list(map(max, row[cost:], taken))
        rows.append(row)
    found, left = [], capacity
    for item in range(len(costs) - 1, -1, -1):
        if rows[item + 1] is not rows[item] and rows[item + 1][left] > rows[item][left]:
            found.append(item)
            left -= costs[item]
    return found[::-1]
