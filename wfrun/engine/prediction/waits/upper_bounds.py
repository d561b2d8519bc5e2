"""Upper bounds of queue waits, from the waits of earlier jobs (thesis section 7.3.2).

They need no knowledge of the queue or of its policy. All jobs of a burst get the same bound, since
none of them has ended when the last is submitted: within bursts bounds fail, as the thesis finds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from heapq import heappop, heappush, heappushpop
from math import sqrt
from typing import NamedTuple

from wfrun.engine.prediction.methods import Method
from wfrun.engine.prediction.waits.binomial import BinomialTable
from wfrun.engine.prediction.waits.change_points import MINIMUM, SinceChange

CLUSTERS = (4, 16, 64)
"""Largest numbers of processors of the clusters of jobs but the last (BMBP): 1-4, 5-16, 17-64, and
more."""

DEVIATIONS = 2 * sqrt(5)
"""Number of standard deviations above the mean that at most 5% of the waits exceed (Chebyshev's
inequality, thesis section 7.3.2)."""


class QuantileBound:
    """The order statistic that is at least the quantile 0.95 with a confidence of 0.95 (BMBP).

    Cost of a wait: O(log n). The waits are in two heaps: those from the bound on, and those below.
    """

    __slots__ = ("_above", "_below", "_count", "_from", "_next", "_table")

    def __init__(self, table: BinomialTable) -> None:
        self._table = table
        self._count = 0
        self._above = -1
        """Number of waits above the bound; -1 while there is none."""
        self._next = table.shortest(0)
        """Length of the history of which one more wait is above the bound."""
        self._from: list[float] = []
        """The waits from the bound on; the least, which is the bound, first."""
        self._below: list[float] = []
        """The others, negative; the largest first."""

    def observe(self, wait_s: float) -> None:
        self._count += 1
        heappush(self._below, -(heappushpop(self._from, wait_s) if self._from else wait_s))
        if self._count == self._next:
            self._above += 1
            self._next = self._table.shortest(self._above + 1)
            heappush(self._from, -heappop(self._below))

    def predict(self) -> float | None:
        return self._from[0] if self._from else None


class ChebyshevBound:
    """Mean + 2 sqrt(5) standard deviations, once there are as many waits as `QuantileBound` needs.

    Cost of a wait: constant.
    """

    __slots__ = ("_count", "_mean_s", "_squares")

    def __init__(self) -> None:
        self._count = 0
        self._mean_s = self._squares = 0.0

    def observe(self, wait_s: float) -> None:
        self._count += 1
        before_s = wait_s - self._mean_s
        self._mean_s += before_s / self._count
        self._squares += before_s * (wait_s - self._mean_s)

    def predict(self) -> float | None:
        if self._count < MINIMUM:
            return None
        return self._mean_s + DEVIATIONS * sqrt(self._squares / self._count)


class BoundKind(NamedTuple):
    """An entry of the registry."""

    title: str
    make: Callable[[BinomialTable], Method]


BOUNDS: dict[str, BoundKind] = {
    "bmbp": BoundKind("BMBP", QuantileBound),
    "chebyshev": BoundKind("Chebyshev", lambda table: ChebyshevBound()),
}
"""The upper bounds of thesis section 7.3.2, by name."""


class WaitBounds:
    """An upper bound for each cluster of jobs by requested processors.

    Waits are observed when their jobs end, as in the thesis, or when they start.
    """

    def __init__(self, name: str = "bmbp") -> None:
        kind, table = BOUNDS[name], BinomialTable()
        self._series = [SinceChange(lambda: kind.make(table)) for _ in range(len(CLUSTERS) + 1)]

    def observe(self, cores: int, wait_s: float) -> None:
        """Observe the wait of a job that requested ``cores`` processors."""
        self._series[bisect_left(CLUSTERS, cores)].observe(wait_s)

    def predict(self, cores: int) -> float | None:
        """A bound for a job that is submitted now; None with fewer than 59 waits of its cluster."""
        return self._series[bisect_left(CLUSTERS, cores)].predict()

    @property
    def changes(self) -> int:
        """Number of change points of all clusters."""
        return sum(one.changes for one in self._series)
