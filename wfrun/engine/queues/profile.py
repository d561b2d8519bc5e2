"""Number of free processors over time, as planned.

The profile is a step function, stored as two lists: breakpoints in ascending order, and the level
from each breakpoint to the next. Positions are found by bisection; a search for a hole walks over
the steps.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import itemgetter

STRIDE = 32
"""Number of steps that are examined together within a long hole."""


class Profile:
    """Free processors from ``start_s`` on. The level after the last breakpoint holds for ever."""

    __slots__ = ("_free", "_times_s")

    def __init__(self, processors: int, start_s: float) -> None:
        self._times_s = [start_s]
        self._free = [processors]

    @classmethod
    def of_ends(cls, processors: int, start_s: float, ends: Sequence[tuple[float, int]]) -> Profile:
        """A profile with jobs that run from the start: (end in seconds, processors) of each, in
        order of their ends. Jobs whose end is not after ``start_s`` hold no processors."""
        first = bisect_right(ends, start_s, key=itemgetter(0))
        profile = cls(processors - sum(cores for _, cores in ends[first:]), start_s)
        times_s, free = profile._times_s, profile._free
        for end_s, cores in ends[first:]:
            level = free[-1] + cores
            if end_s == times_s[-1]:
                free[-1] = level
            else:
                times_s.append(end_s)
                free.append(level)
        return profile

    def copy(self) -> Profile:
        """A copy that changes independently."""
        other = Profile(0, 0.0)
        other._times_s, other._free = self._times_s.copy(), self._free.copy()
        return other

    def __len__(self) -> int:
        """Number of steps."""
        return len(self._times_s)

    @property
    def last_step_s(self) -> float:
        """Time of the last change of the level."""
        return self._times_s[-1]

    def steps(self) -> list[tuple[float, int]]:
        """Return the steps as (start in seconds, free processors), ascending in time; neighbouring
        numbers differ."""
        return list(zip(self._times_s, self._free, strict=True))

    def advance(self, now_s: float) -> None:
        """Remove all steps before now."""
        times_s = self._times_s
        first = bisect_right(times_s, now_s) - 1
        if first > 0:
            del times_s[:first]
            del self._free[:first]
        if first >= 0:
            times_s[0] = now_s

    def earliest_s(self, cores: int, duration_s: float, from_s: float) -> float:
        """Return the earliest time, not before ``from_s``, from which ``cores`` processors are free
        for ``duration_s``. The profile must end with ``cores`` free processors, so that such a time
        exists."""
        times_s, free = self._times_s, self._free
        count = len(times_s)
        i = max(0, bisect_right(times_s, from_s) - 1)
        while True:
            while free[i] < cores:
                i += 1
            start_s = times_s[i]
            if start_s < from_s:
                start_s = from_s
            end_s = start_s + duration_s
            i += 1
            # Skip many steps at once where the hole has as many.
            while i + STRIDE < count and times_s[i + STRIDE] < end_s:
                if min(free[i : i + STRIDE]) < cores:
                    break
                i += STRIDE
            while i < count and times_s[i] < end_s and free[i] >= cores:
                i += 1
            if i == count or times_s[i] >= end_s:
                return start_s

    def earliest_before_s(
        self, cores: int, duration_s: float, from_s: float, before_s: float, until_s: float
    ) -> float | None:
        """Like ``earliest_s``, but only for times before ``before_s`` from which the duration ends
        before ``until_s``. None if there is no such time."""
        times_s, free = self._times_s, self._free
        count = len(times_s)
        i = max(0, bisect_right(times_s, from_s) - 1)
        stop = bisect_left(times_s, min(before_s, until_s), i)
        while True:
            while i < stop and free[i] < cores:
                i += 1
            if i >= stop:
                return None
            start_s = times_s[i]
            if start_s < from_s:
                start_s = from_s
            end_s = start_s + duration_s
            if end_s >= until_s:
                return None
            i += 1
            while i < count and times_s[i] < end_s and free[i] >= cores:
                i += 1
            if i == count or times_s[i] >= end_s:
                return start_s

    def free_since_s(self, cores: int, until_s: float) -> float:
        """Start of the interval up to ``until_s`` in which ``cores`` processors are free without a
        break; ``until_s`` if there is none."""
        free = self._free
        i = bisect_left(self._times_s, until_s)
        if i == 0 or free[i - 1] < cores:
            return until_s
        while i > 0 and free[i - 1] >= cores:
            i -= 1
        return self._times_s[i]

    def add(self, start_s: float, end_s: float, cores: int) -> None:
        """Add ``cores`` free processors in [start_s, end_s); negative numbers reserve them."""
        if start_s >= end_s:
            return
        first = self._cut(start_s)
        last = self._cut(end_s)
        free = self._free
        if last == first + 1:
            free[first] += cores
        else:
            free[first:last] = [level + cores for level in free[first:last]]
        # Only the steps at both ends may now equal their neighbours.
        if free[last] == free[last - 1]:
            del free[last], self._times_s[last]
        if first > 0 and free[first] == free[first - 1]:
            del free[first], self._times_s[first]

    def give_up_holes(self, first: int) -> None:
        """Keep the first ``first`` steps. After them, keep only processors that stay free for ever,
        and mark all others as used.

        Levels then rise monotonically, so no more steps remain than there are levels, which bounds
        the size of a profile.
        """
        times_s, free = self._times_s, self._free
        level = free[-1]
        kept_s: list[float] = []
        kept: list[int] = []
        for i in range(len(free) - 1, first - 1, -1):
            level = min(level, free[i])
            if kept and kept[-1] == level:
                kept_s[-1] = times_s[i]
            else:
                kept_s.append(times_s[i])
                kept.append(level)
        if kept and first and kept[-1] == free[first - 1]:
            del kept_s[-1], kept[-1]
        times_s[first:] = reversed(kept_s)
        free[first:] = reversed(kept)

    def min_free(self, start_s: float, end_s: float) -> int:
        """The lowest level in [start_s, end_s), a non-empty interval."""
        return min(self._levels(start_s, end_s))

    def max_free(self, start_s: float, end_s: float) -> int:
        """The highest level in [start_s, end_s), a non-empty interval."""
        return max(self._levels(start_s, end_s))

    def _levels(self, start_s: float, end_s: float) -> list[int]:
        times_s = self._times_s
        first = max(0, bisect_right(times_s, start_s) - 1)
        return self._free[first : bisect_left(times_s, end_s, first + 1)]

    def _cut(self, at_s: float) -> int:
        """Index of the breakpoint at this time, which is inserted if necessary."""
        times_s = self._times_s
        i = bisect_left(times_s, at_s)
        if i == len(times_s) or times_s[i] != at_s:
            times_s.insert(i, at_s)
            self._free.insert(i, self._free[i - 1])
        return i
