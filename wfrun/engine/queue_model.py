"""When a site that serves its queue first come, first served would start another task.

This is the information service of thesis section 6.1.3 ("responds to queries regarding the
estimated start times"): it simulates FCFS with the expected run times of all that runs and waits
at the site. It keeps the times at which cores become free in a heap, so that a question costs
O(1) and a placement O(cores log slots). Tasks that end earlier or later than expected make it
stale; it is then rebuilt from the open attempts, at most once in a fixed share of their number,
so that the cost per task does not grow with the queue. Questions change nothing, so that a
replayed model is the same.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import NamedTuple

import msgspec


class Expected(NamedTuple):
    """A running or waiting job as the model sees it."""

    cores: int
    runtime_s: float
    started_s: float | None
    """None: still waiting."""


class _Open(msgspec.Struct):
    cores: int
    runtime_s: float
    expected_end_s: float
    started_s: float | None = None


class QueueModel:
    """The expected FCFS schedule of one site, the background load of others included."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._free_s = [float("-inf")] * slots
        self._open: dict[str, _Open] = {}
        self._background: tuple[Expected, ...] = ()
        self._drifted = 0
        """Tasks that ended at another time than expected, since the last rebuild."""

    def start_s(self, cores: int, now_s: float) -> float:
        """When a task of ``cores`` that arrives now would start, at the earliest now."""
        free = self._free_s
        if cores == 1:
            return max(now_s, free[0])
        return max(now_s, heapq.nsmallest(cores, free)[-1])

    def place(self, key: str, cores: int, runtime_s: float, now_s: float, ready_s: float) -> None:
        """A task joined the queue; its inputs will be there at ``ready_s``."""
        end_s = _reserve(self._free_s, cores, runtime_s, max(now_s, ready_s))
        self._open[key] = _Open(cores, runtime_s, end_s)

    def start(self, key: str, now_s: float) -> None:
        job = self._open.get(key)
        if job is not None:
            job.started_s = now_s

    def end(self, key: str, now_s: float) -> None:
        job = self._open.pop(key, None)
        if job is not None and abs(now_s - job.expected_end_s) > 0.05 * job.runtime_s + 1e-6:
            self._drifted += 1
            if self._drifted > max(4, len(self._open) // 4):
                self._rebuild(now_s)

    def observe(self, background: Iterable[Expected], now_s: float) -> None:
        """The whole background load of the site, running jobs first."""
        self._background = tuple(background)
        self._rebuild(now_s)

    def _rebuild(self, now_s: float) -> None:
        self._drifted = 0
        self._free_s = [now_s] * self._slots
        for job in self._background:
            _continue(self._free_s, job, now_s)
        ours = self._open.values()
        for open_job in [j for j in ours if j.started_s is not None]:
            open_job.expected_end_s = _continue(self._free_s, open_job, now_s)
        for open_job in [j for j in ours if j.started_s is None]:
            open_job.expected_end_s = _continue(self._free_s, open_job, now_s)


def _continue(free_s: list[float], job: Expected | _Open, now_s: float) -> float:
    """Reserve what is left of a job; overdue ones count as about to end."""
    done_s = 0.0 if job.started_s is None else now_s - job.started_s
    return _reserve(free_s, min(job.cores, len(free_s)), max(0.0, job.runtime_s - done_s), now_s)


def _reserve(free_s: list[float], cores: int, runtime_s: float, ready_s: float) -> float:
    """Take the ``cores`` that are free first; returns the expected end."""
    if cores == 1:
        end_s = max(free_s[0], ready_s) + runtime_s
        heapq.heapreplace(free_s, end_s)
        return end_s
    taken = [heapq.heappop(free_s) for _ in range(cores)]
    end_s = max(taken[-1], ready_s) + runtime_s
    for _ in taken:
        heapq.heappush(free_s, end_s)
    return end_s
