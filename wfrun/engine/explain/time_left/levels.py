"""The unfinished tasks of a level of a workflow, and the time that successive levels take."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, inf, sqrt
from typing import NamedTuple

from wfrun.engine.explain.time_left.idle import Idle
from wfrun.engine.explain.time_left.runtimes import DEVIATIONS, Runtime

OVERDUE = 0.25
"""Expected remaining time of a task that has run longer than expected, as a share of the time that
it has run."""


class TimeLeft(NamedTuple):
    """The time until the run ends, in seconds."""

    value_s: float
    low_s: float
    high_s: float


class Level:
    """The unfinished tasks of one level of a workflow."""

    __slots__ = ("longest_s", "longest_variance", "slot_s", "variance", "waiting_cores")

    def __init__(self) -> None:
        self.slot_s = 0.0
        """Slot-seconds that the tasks need."""
        self.variance = 0.0
        """Variance of ``slot_s``."""
        self.longest_s = 0.0
        """Expected time left of the longest task, in seconds."""
        self.longest_variance = 0.0
        self.waiting_cores = 0
        """Total cores of the tasks that have not started."""

    def add_running(self, cores: int, left_s: float, deviation_s: float) -> None:
        """Add the time left of a running task."""
        self.slot_s += cores * left_s
        self.variance += (cores * deviation_s) ** 2
        self._lengthen(left_s, deviation_s**2)

    def add_waiting(
        self, cores: int, count: int, runtime: Runtime, speed_ratio: float, idle: Idle
    ) -> None:
        """Add ``count`` tasks of one group that have not started."""
        mean_s, deviation_s = runtime.mean_s / speed_ratio, runtime.deviation_s / speed_ratio
        error_s = runtime.error_s / speed_ratio
        used_s = cores * mean_s
        # Idle slots cost each task a constant time, as where batch systems are slow, or a part of
        # its own, as where the policy uses few slots. The observations do not say which.
        self.slot_s += count * min(used_s + idle.per_task_s, used_s * idle.ratio if used_s else inf)
        self.variance += cores**2 * (count * deviation_s**2 + (count * error_s) ** 2)
        self.waiting_cores += count * cores
        self._lengthen(mean_s, deviation_s**2 + error_s**2)

    def _lengthen(self, runtime_s: float, variance: float) -> None:
        if runtime_s > self.longest_s:
            self.longest_s, self.longest_variance = runtime_s, variance


def left_of(elapsed_s: float, mean_s: float, deviation_s: float) -> tuple[float, float]:
    """Expected time left of a running task, and its standard deviation."""
    left_s, overdue_s = mean_s - elapsed_s, OVERDUE * elapsed_s
    if left_s >= 0:
        return left_s, deviation_s
    return overdue_s, overdue_s


def of_work(slot_s: float, variance: float, slots: int) -> TimeLeft:
    """Return the time that ``slot_s`` slot-seconds of work take if all ``slots`` slots are busy."""
    value_s, deviation_s = slot_s / slots, DEVIATIONS * sqrt(variance) / slots
    return TimeLeft(value_s, max(0.0, value_s - deviation_s), value_s + deviation_s)


def of_levels(levels: Iterable[Level], slots: int) -> TimeLeft:
    """The time for levels that run one after another."""
    value_s = later_s = variance = 0.0
    for level in levels:
        by_work_s = level.slot_s / slots
        if by_work_s >= level.longest_s:
            value_s += by_work_s
            variance += level.variance / slots**2
            # The last tasks do not fill all slots.
            waves = ceil(level.waiting_cores / slots)
            later_s += max(0.0, waves * level.longest_s - by_work_s)
        else:
            value_s += level.longest_s
            variance += level.longest_variance
    deviation_s = DEVIATIONS * sqrt(variance)
    return TimeLeft(value_s, max(0.0, value_s - deviation_s), value_s + later_s + deviation_s)
