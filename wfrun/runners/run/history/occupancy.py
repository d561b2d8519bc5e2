"""Estimates how long cores stay occupied after the end of a task, from the starts of tasks at a
full site. Causes are the batch system's prologue and epilogue, the start of a job and of its shell,
and the wait for the next scheduling pass."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from math import inf
from typing import NamedTuple


class Stay(NamedTuple):
    """Submission, start and end of an attempt at a site, in seconds since the epoch, and its
    cores."""

    submitted_s: float
    started_s: float
    ended_s: float
    cores: int


class Capacity(NamedTuple):
    """A change of the number of cores that tasks may use at the site, by ``cores``. Negative:
    fewer."""

    at_s: float
    cores: int


def holds_s(stays: Iterable[Stay], capacity: Iterable[Capacity], start_s: float) -> Iterator[float]:
    """Yield the times, in seconds, from the end of a task to the start of the next task on its
    cores.

    Only tasks that waited for cores alone count: tasks submitted before their cores became free,
    and started more than ``start_s`` after their submission. ``start_s`` is the time of a start at
    a site with free cores. Logs do not say which cores a task used. Tasks are assumed to take cores
    in the order in which the cores became free; this assumption does not change the sum of the
    times.
    """
    events: list[tuple[float, int, int, float]] = []
    for at_s, cores in capacity:
        events.append((at_s, 0, cores, -inf))
    for submitted_s, started_s, ended_s, cores in stays:
        events.append((ended_s, 0, cores, ended_s))
        events.append((started_s, 1, cores, submitted_s))
    free = _FreeCores()
    for at_s, is_start, cores, since_s in sorted(events):
        if not is_start:
            free.add(cores, since_s)
            continue
        freed_s = free.take(cores)
        if since_s <= freed_s and at_s - since_s > start_s:
            yield at_s - freed_s


class _FreeCores:
    """Free cores in the order in which they became free. Cores that no task has used have been free
    since -inf."""

    def __init__(self) -> None:
        self._groups: deque[tuple[float, int]] = deque()

    def add(self, cores: int, since_s: float) -> None:
        """Add cores that became free at ``since_s``. A negative number removes the cores that
        became free first."""
        if cores > 0:
            self._groups.append((since_s, cores))
        else:
            self.take(-cores)

    def take(self, cores: int) -> float:
        """Take the cores that became free first. Returns the time at which the last of them became
        free; -inf if there are too few cores."""
        freed_s = -inf
        while cores > 0 and self._groups:
            freed_s, there = self._groups.popleft()
            if there > cores:
                self._groups.appendleft((freed_s, there - cores))
            cores -= there
        return freed_s if cores <= 0 else -inf
