"""Sums over the open tasks of one site, updated by each change. Allocation strategies compare the
sums of sites (Ramírez-Alcaraz et al., J. Grid Computing 9, 2011, Table 1)."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Generic, Literal, TypeVar

Weight = Literal["one", "size", "time", "work"]
"""Weight of the wait of a task: 1, its cores, its expected run time in seconds, or its work: cores
times expected run time."""


KeyT = TypeVar("KeyT", int, str)
"""Identifies a task."""

TICKS = 1e6
"""Number of units of time in a second, and of work in a core-second."""


class Overdue(Generic[KeyT]):
    """The expected completions of tasks, and the delay of overdue tasks.

    A task is overdue once its expected completion has passed. Its earliest possible completion is
    then now. `work` is the amount by which overdue tasks raise the sum of completion times weighted
    by work.

    Callers must not pass decreasing times to `work`. Cost of a change or of a call of `work`: O(log
    n), amortized; before the first call a change costs one entry of a dictionary.

    Sums are whole numbers of units (`TICKS`). They are therefore exact, and do not depend on when
    `work` was called: a replay, which never calls `work`, continues with equal sums.
    """

    __slots__ = ("_due", "_expected", "_late", "_moment", "_work")

    def __init__(self) -> None:
        self._expected: dict[KeyT, tuple[float, float]] = {}
        """(completion in seconds, work in core-seconds) by task."""
        self._due: list[tuple[float, KeyT]] | None = None
        """Heap of the completions of tasks that are not overdue. Entries of tasks that have changed
        are stale. None: the next call of `work` builds the heap."""
        self._late: set[KeyT] = set()
        """Overdue tasks, as of the latest call of `work`."""
        self._work = 0
        """Sum of the work of the overdue tasks, in units of `TICKS`."""
        self._moment = 0
        """Sum over the overdue tasks of work × expected completion, in units of `TICKS` squared."""

    def expect(self, key: KeyT, completion_s: float, work_s: float) -> None:
        """Expect a task to be completed at ``completion_s``. ``work_s``: cores times run time."""
        if key in self._late:
            self._count(key, -1)
        self._expected[key] = (completion_s, work_s)
        if self._due is not None:
            heappush(self._due, (completion_s, key))
            if len(self._due) > 2 * len(self._expected) + 16:
                self._due = None  # most of it is stale

    def remove(self, key: KeyT) -> None:
        """Forget a task, which may be unknown."""
        if key in self._late:
            self._count(key, -1)
        self._expected.pop(key, None)

    def work(self, now_s: float) -> float:
        """Return the sum over the overdue tasks of work × time since the expected completion, in
        core-seconds × seconds."""
        if self._due is None:
            late = self._late
            self._due = [(end_s, k) for k, (end_s, _) in self._expected.items() if k not in late]
            heapify(self._due)
        due = self._due
        while due and due[0][0] < now_s:
            end_s, key = heappop(due)
            entry = self._expected.get(key)
            if entry is not None and entry[0] == end_s and key not in self._late:
                self._count(key, 1)
        return (_ticks(now_s) * self._work - self._moment) / TICKS**2

    def _count(self, key: KeyT, sign: int) -> None:
        """Add a task to the sums over overdue tasks (``sign`` 1), or subtract it (-1)."""
        completion_s, work_s = self._expected[key]
        work = sign * _ticks(work_s)
        self._work += work
        self._moment += work * _ticks(completion_s)
        if sign > 0:
            self._late.add(key)
        else:
            self._late.remove(key)


def _ticks(number: float) -> int:
    return round(number * TICKS)


class OpenSums:
    """Sums over tasks that were submitted and have not ended. Until a task starts, its wait is the
    planned wait; then it is the actual wait. All methods take constant time."""

    __slots__ = ("_completion", "_size", "_time", "_wait_s", "_work", "jobs", "time_s", "work_s")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all tasks."""
        self.jobs = 0
        self.time_s = 0.0
        """Sum of the expected run times in seconds."""
        self.work_s = 0.0
        """Sum of cores times expected run time, in core-seconds."""
        self._wait_s = self._size = self._time = self._work = self._completion = 0.0

    def add(self, cores: int, runtime_s: float, submitted_s: float, wait_s: float) -> None:
        """Add a task that was submitted. ``wait_s``: its planned wait."""
        work_s = cores * runtime_s
        self.jobs += 1
        self.time_s += runtime_s
        self.work_s += work_s
        self._completion += (submitted_s + runtime_s) * work_s
        self.wait(cores, runtime_s, wait_s)

    def remove(self, cores: int, runtime_s: float, submitted_s: float, wait_s: float) -> None:
        """Remove a task that has ended. Cores, run time and submission are as in ``add``;
        ``wait_s``: its latest wait."""
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
        """Add ``more_s``, which may be negative, to the wait of a task."""
        if more_s:
            weighted = more_s * runtime_s
            self._wait_s += more_s
            self._size += more_s * cores
            self._time += weighted
            self._work += weighted * cores

    def mean_wait(self, weight: Weight) -> float:
        """Return the mean over the tasks of wait × weight; 0 without tasks."""
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
        """Sum over the tasks of completion time × work, in seconds × core-seconds. The completion
        time is submission + wait + run time. See `Overdue` for tasks that are overdue."""
        return self._completion + self._work
