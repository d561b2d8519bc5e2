"""Tasks that run for much longer than others of their class.

Stragglers are replicated as J. Dean and S. Ghemawat do with backup tasks (MapReduce, OSDI 2004,
section 3.6), here by a quantile of the run times of their class.
"""

from __future__ import annotations

from bisect import insort
from collections import deque

MIN_OBSERVATIONS = 5
"""Number of run times of a class that show what is usual there."""

MAX_KEPT = 500
"""Maximum number of run times of a class that are remembered, the latest."""


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
        """The smallest run time that this share of them does not exceed; None: too few were
        seen."""
        count = len(self._sorted)
        return (
            None if count < MIN_OBSERVATIONS else self._sorted[min(count - 1, int(share * count))]
        )
