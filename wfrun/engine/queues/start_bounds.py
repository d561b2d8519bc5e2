"""Lower bounds of the starts of jobs in a plan."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class StartBounds:
    """For jobs of one number of processors: the time before which a job of a length, and therefore
    any longer one, has no start. A query or a change costs a binary search."""

    __slots__ = ("_bounds_s", "_lengths_s")

    def __init__(self) -> None:
        self._lengths_s: list[float] = []
        """Ascending, and so are the bounds."""
        self._bounds_s: list[float] = []

    def bound_s(self, length_s: float) -> float:
        """The latest known bound for a job of this length, in seconds; -inf without one."""
        place = bisect_right(self._lengths_s, length_s)
        return self._bounds_s[place - 1] if place else float("-inf")

    def add(self, length_s: float, bound_s: float) -> None:
        """Add a bound that is later than the known one for this length."""
        lengths_s, bounds_s = self._lengths_s, self._bounds_s
        first = last = bisect_right(lengths_s, length_s)
        while last < len(bounds_s) and bounds_s[last] <= bound_s:
            last += 1
        lengths_s[first:last] = [length_s]
        bounds_s[first:last] = [bound_s]

    def forget(self, since_s: float) -> None:
        """Starts from this time on are possible again."""
        first = bisect_left(self._bounds_s, since_s)
        if first < len(self._bounds_s):
            self._bounds_s[first:] = [since_s]
            del self._lengths_s[first + 1 :]
