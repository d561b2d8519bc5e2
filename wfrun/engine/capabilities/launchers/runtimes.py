"""Run times of tasks, estimated from those of the same kind."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

MIN_OBSERVATIONS = 3
"""Minimum number of observed run times of a kind. From this number on, their mean replaces the
documented run time."""


class Observed(NamedTuple):
    """Number, mean and standard deviation of the observed run times of one kind of task, or of all
    tasks: in seconds on the reference processor, or as ratios to the documented run times."""

    tasks: int
    mean_s: float
    deviation_s: float
    """Standard deviation of the sample; 0 for a single one."""


class RuntimeEstimates:
    """Mean run times on the reference processor, by kind: workflow and name of the task."""

    def __init__(self) -> None:
        self._means: dict[tuple[int, str], tuple[int, float, float]] = {}
        """By kind: number of observations, their mean, and the sum of the squared deviations from
        it (Welford 1962)."""
        self.longest_s: float | None = None
        """Longest run time observed or expected, on the reference processor; None if nothing is
        known."""

    def observe(self, kind: tuple[int, str], elapsed_s: float, speed_ratio: float) -> None:
        """Observe the run time of a task at a site of this speed."""
        count, mean_s, squares = self._means.get(kind, (0, 0.0, 0.0))
        difference_s = elapsed_s * speed_ratio - mean_s
        mean_s += difference_s / (count + 1)
        squares += difference_s * (elapsed_s * speed_ratio - mean_s)
        self._means[kind] = count + 1, mean_s, squares
        self.expect_at_least(elapsed_s, speed_ratio)

    def expect_at_least(self, runtime_s: float, speed_ratio: float = 1.0) -> None:
        """Note that a task is expected to run for this time at a site of this speed."""
        self.longest_s = max(self.longest_s or 0.0, runtime_s * speed_ratio)

    def expected_s(
        self, kind: tuple[int, str], documented_s: float | None, speed_ratio: float
    ) -> float | None:
        """Expected run time in seconds at a site of this speed: the mean of the kind, or the
        documented run time while fewer than `MIN_OBSERVATIONS` tasks were observed; None if nothing
        is known."""
        count, mean_s, _ = self._means.get(kind, (0, 0.0, 0.0))
        if count >= MIN_OBSERVATIONS or (count and documented_s is None):
            return mean_s / speed_ratio
        return None if documented_s is None else documented_s / speed_ratio

    def observed(self, kind: tuple[int, str]) -> Observed | None:
        """The observed run times of a kind; None if there are none."""
        found = self._means.get(kind)
        if found is None:
            return None
        count, mean_s, squares = found
        return Observed(count, mean_s, sqrt(squares / (count - 1)) if count > 1 else 0.0)

    def all_observed(self) -> Observed | None:
        """The observed run times of all kinds together; None if there are none."""
        found = self._means.values()
        count = sum(each for each, _, _ in found)
        if not count:
            return None
        mean_s = sum(each * mean for each, mean, _ in found) / count
        squares = sum(own + each * (mean - mean_s) ** 2 for each, mean, own in found)
        return Observed(count, mean_s, sqrt(squares / (count - 1)) if count > 1 else 0.0)
