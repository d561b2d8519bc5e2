"""Upper bounds of queue waits, from the waits of earlier jobs (thesis section 7.3.2).

They need no knowledge of the queue or of its policy. All jobs of a burst get the same bound, since
none of them has ended when the last is submitted: within bursts bounds fail, as the thesis finds.

Order statistics bound a quantile with a stated confidence (binomial method).

Source: J. Brevik, D. Nurmi, R. Wolski, "Predicting bounds on queuing delay for batch-scheduled
parallel machines", PPoPP 2006, the method BMBP. Of n independent waits the number above the
quantile q is binomial with n trials of probability 1 - q. The bound with m waits above it is below
the quantile only if at most m of the n waits are above the quantile. So m is the largest number for
which the probability of at most m waits above the quantile is at most 1 - C, with the confidence C.

BMBP takes the normal approximation for long histories. Here the probability is carried exactly from
n to n + 1, in constant time, so that no approximation is needed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from heapq import heappop, heappush, heappushpop
from math import sqrt
from typing import NamedTuple

from wfrun.engine.prediction.methods import Method
from wfrun.engine.prediction.waits.change_points import MINIMUM, SinceChange

QUANTILE = 0.95
CONFIDENCE = 0.95
"""Probability that the bound is at least the `QUANTILE` of the waits (thesis section 7.3.2)."""


class BinomialTable:
    """The number of waits above the bound of a quantile, by length of the history.

    One table serves all histories. It grows with the longest history, by a step for each further
    wait.
    """

    def __init__(self, quantile: float = QUANTILE, confidence: float = CONFIDENCE) -> None:
        self._above = 1 - quantile
        self._most = 1 - confidence
        self._lengths: list[int] = []
        """By m: length of the shortest history in which m waits may be above the bound."""
        self._length = 0
        # Of Binomial(_length, _above), at m = len(_lengths):
        self._density = 1.0
        self._cumulative = 1.0

    def shortest(self, above: int) -> int:
        """Length of the shortest history in which ``above`` waits may exceed the bound: 59, 93,
        124, … for 0, 1, 2, …, with a quantile and a confidence of 0.95."""
        while len(self._lengths) <= above:
            self._grow()
        return self._lengths[above]

    def _grow(self) -> None:
        p, m, n = self._above, len(self._lengths), self._length
        self._cumulative -= p * self._density
        self._density *= (n + 1) / (n + 1 - m) * (1 - p) if m <= n else 0.0
        self._length = n = n + 1
        if self._cumulative <= self._most:
            self._lengths.append(n)
            self._density *= (n - m) / (m + 1) * p / (1 - p)
            self._cumulative += self._density


CLUSTERS = (4, 16, 64)
"""Maximum number of processors of a job in each cluster of jobs except the last (BMBP): 1-4, 5-16,
17-64, and more."""

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
        """Number of waits above the bound; -1: no bound yet."""
        self._next = table.shortest(0)
        """Length of the history from which on one more wait is above the bound."""
        self._from: list[float] = []
        """Heap of the waits from the bound on; the smallest, which is the bound, first."""
        self._below: list[float] = []
        """Heap of the other waits, negated; the largest wait first."""

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
    """An upper bound: its title for users, and its constructor."""

    title: str
    make: Callable[[BinomialTable], Method]


BOUNDS: dict[str, BoundKind] = {
    "bmbp": BoundKind("BMBP", QuantileBound),
    "chebyshev": BoundKind("Chebyshev", lambda table: ChebyshevBound()),
}
"""The upper bounds of thesis section 7.3.2, by name."""


class WaitBounds:
    """An upper bound of the wait for each cluster of jobs; `CLUSTERS` groups jobs by requested
    processors.

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
        """Number of change points in all clusters of jobs."""
        return sum(one.changes for one in self._series)
