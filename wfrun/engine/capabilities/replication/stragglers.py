"""Stragglers: tasks that run for much longer than others of their class.

They are replicated like the backup tasks of J. Dean and S. Ghemawat (MapReduce, OSDI 2004, section
3.6), here by a quantile of the run times of their class.
"""

from __future__ import annotations

from bisect import insort
from collections import deque

MIN_OBSERVATIONS = 5
"""Number of observed run times of a class that a quantile needs."""

MAX_KEPT = 500
"""Maximum number of run times kept per class, the latest ones."""


class RuntimeDistribution:
    """The latest run times of one class of tasks, on the reference processor."""

    __slots__ = ("_latest", "_sorted")

    def __init__(self) -> None:
        self._latest: deque[float] = deque()
        self._sorted: list[float] = []

    def observe(self, runtime_s: float) -> None:
        """Add the run time of a task of the class."""
        insort(self._sorted, runtime_s)
        self._latest.append(runtime_s)
        if len(self._latest) > MAX_KEPT:
            self._sorted.remove(self._latest.popleft())

    def quantile_s(self, share: float) -> float | None:
        """The smallest run time that at least this share of tasks does not exceed; None after too
        few observations."""
        count = len(self._sorted)
        return (
            None if count < MIN_OBSERVATIONS else self._sorted[min(count - 1, int(share * count))]
        )
