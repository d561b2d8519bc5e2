"""Sums over the open tasks of one site, kept up to date by each change: what allocation strategies
compare (Ramírez-Alcaraz et al., J. Grid Computing 9, 2011, Table 1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Weight = Literal["one", "size", "time", "work"]
"""By what the wait of a task is weighted: nothing, its cores, its expected run time in seconds, or
the product of both."""


def overdue_work(running: Iterable[tuple[float, float]], now_s: float) -> float:
    """What running tasks beyond their expected ends add to the sum of completion times weighted by
    work: they are completed now at the earliest. ``running``: (expected end, work) of each."""
    return sum(work_s * (now_s - end_s) for end_s, work_s in running if end_s < now_s)


class OpenSums:
    """Sums over tasks that were submitted and have not ended. The wait of a task is that which it
    has had, or is planned to have. Cost of a change and of a question: constant."""

    __slots__ = ("_completion", "_size", "_time", "_wait_s", "_work", "jobs", "time_s", "work_s")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all tasks."""
        self.jobs = 0
        self.time_s = 0.0
        """Sum of the expected run times."""
        self.work_s = 0.0
        """Sum of cores times expected run times."""
        self._wait_s = self._size = self._time = self._work = self._completion = 0.0

    def add(self, cores: int, runtime_s: float, submitted_s: float, wait_s: float) -> None:
        """A task is open."""
        work_s = cores * runtime_s
        self.jobs += 1
        self.time_s += runtime_s
        self.work_s += work_s
        self._completion += (submitted_s + runtime_s) * work_s
        self.wait(cores, runtime_s, wait_s)

    def remove(self, cores: int, runtime_s: float, submitted_s: float, wait_s: float) -> None:
        """A task has ended, of which the same is known."""
        if self.jobs == 1:
            self.clear()  # rounding errors do not outlive the tasks
            return
        work_s = cores * runtime_s
        self.jobs -= 1
        self.time_s -= runtime_s
        self.work_s -= work_s
        self._completion -= (submitted_s + runtime_s) * work_s
        self.wait(cores, runtime_s, -wait_s)

    def wait(self, cores: int, runtime_s: float, more_s: float) -> None:
        """The wait of a task has grown by ``more_s``, which may be negative."""
        if more_s:
            weighted = more_s * runtime_s
            self._wait_s += more_s
            self._size += more_s * cores
            self._time += weighted
            self._work += weighted * cores

    def mean_wait(self, weight: Weight) -> float:
        """Mean over the tasks of wait times weight; 0 without tasks."""
        if not self.jobs:
            return 0.0
        if weight == "one":
            total = self._wait_s
        elif weight == "size":
            total = self._size
        else:
            total = self._time if weight == "time" else self._work
        return max(0.0, total) / self.jobs

    @property
    def weighted_completion(self) -> float:
        """Sum over the tasks of completion time (submission, wait and run time) times work, in
        core-seconds times seconds. See `overdue_work` for running tasks that are overdue."""
        return self._completion + self._work
