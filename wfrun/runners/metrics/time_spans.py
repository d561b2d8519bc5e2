"""The times during which a condition held."""

from __future__ import annotations

from array import array
from bisect import bisect_right


class TimeSpans:
    """Disjoint spans of time, in seconds, added in order. Spans that touch become one."""

    def __init__(self) -> None:
        self._begins_s = array("d")
        self._ends_s = array("d")
        self._before_s = array("d")
        """Sum of the lengths of all earlier spans."""
        self._since_s: float | None = None
        """Begin of the span that is open now."""

    def set(self, holds: bool, at_s: float) -> None:
        """The condition holds, or does not, from now on."""
        if holds and self._since_s is None:
            self._since_s = at_s
            if self._ends_s and self._ends_s[-1] >= at_s:
                self._since_s = self._begins_s.pop()
                self._ends_s.pop()
                self._before_s.pop()
        elif not holds and self._since_s is not None:
            if at_s > self._since_s:
                self._before_s.append(self._until(at_s) - (at_s - self._since_s))
                self._begins_s.append(self._since_s)
                self._ends_s.append(at_s)
            self._since_s = None

    def within(self, begin_s: float, end_s: float) -> float:
        """The time between two moments during which the condition held; the second is not later
        than the present. Cost: the logarithm of the number of spans."""
        return max(0.0, self._until(end_s) - self._until(begin_s))

    def _until(self, at_s: float) -> float:
        """The time until a moment during which the condition held."""
        open_s = 0.0 if self._since_s is None else max(0.0, at_s - self._since_s)
        index = bisect_right(self._begins_s, at_s) - 1
        if index < 0:
            return open_s
        span_s = min(at_s, self._ends_s[index]) - self._begins_s[index]
        return self._before_s[index] + span_s + open_s
