"""Stragglers: tasks that run for much longer than others of their class.

Their replicas are the backup tasks of J. Dean and S. Ghemawat (MapReduce, OSDI 2004, section 3.6).
Here a task is a straggler by comparison to a quantile of the run times of its class.
"""

from __future__ import annotations

from bisect import insort
from collections import deque

MIN_OBSERVATIONS = 5
"""Minimum number of observed run times of a class for a quantile: one of fewer is too uncertain."""

MAX_KEPT = 500
"""Maximum number of run times kept per class, the latest ones: an observation costs time in
proportion, and quantiles follow changes."""


class RuntimeDistribution:
    """The latest run times of one class of tasks, in seconds on the reference processor."""

    __slots__ = ("_latest", "_sorted")

    def __init__(self) -> None:
        self._latest: deque[float] = deque()
        self._sorted: list[float] = []

    def observe(self, runtime_s: float) -> None:
        """Add the run time of a task that has ended."""
        insort(self._sorted, runtime_s)
        self._latest.append(runtime_s)
        if len(self._latest) > MAX_KEPT:
            self._sorted.remove(self._latest.popleft())

    def quantile_s(self, share: float) -> float | None:
        """The smallest run time that more than this share of the observed ones do not exceed; the
        largest one for a share of 1. None after fewer than `MIN_OBSERVATIONS`."""
        count = len(self._sorted)
        return (
            None if count < MIN_OBSERVATIONS else self._sorted[min(count - 1, int(share * count))]
        )
