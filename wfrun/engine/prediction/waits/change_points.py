"""The part of a series of waits that follows its last change point.

Source: BMBP (Brevik, Nurmi, Wolski, PPoPP 2006). A bound of the quantile 0.95 is exceeded now and
then, but it is exceeded many times in a row only if the waits have changed. The length of a rare
run depends on the autocorrelation of the series: three independent waits in a row exceed the
quantile with a probability of 0.05 cubed, but after one long wait another one is likely. BMBP looks
the length up in a table made by Monte Carlo simulation for autocorrelated series. ``RARE_RUNS`` is
such a table, made by numerical integration for series of normal values (the logarithms of the
waits): the length of the shortest run above the quantile 0.95 whose probability is at most 0.05
cubed. BMBP takes the autocorrelation of its training data; here it is that of all waits so far,
since a predictor in use never stops training.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from math import log1p

from wfrun.engine.prediction.methods import Method

MINIMUM = 59
"""Length of the shortest history that bounds the quantile 0.95 with confidence 0.95, and
number of waits that are kept after a change point."""

RARE_RUNS = (
    (0.0, 3), (0.2, 4), (0.4, 5), (0.5, 6), (0.6, 7), (0.7, 9), (0.8, 12), (0.85, 16), (0.9, 23),
    (0.95, 42), (0.97, 67), (0.98, 98), (0.99, 189),
)  # fmt: skip
"""Rows of (autocorrelation, number of consecutive waits above the quantile 0.95 that is rare up to
this autocorrelation). The last row also holds for larger autocorrelations: a larger number would
never detect a change."""


class Autocorrelation:
    """Correlation of neighbouring values of a series. Cost of a value: constant."""

    __slots__ = ("_before", "_count", "_products", "_squares", "_sum")

    def __init__(self) -> None:
        self._count = 0
        self._sum = self._squares = self._products = 0.0
        self._before = 0.0

    def observe(self, value: float) -> None:
        if self._count:
            self._products += value * self._before
        self._before = value
        self._count += 1
        self._sum += value
        self._squares += value * value

    def value(self) -> float:
        """The autocorrelation; 0 for a series that is constant or has fewer than two values."""
        if self._count < 2:
            return 0.0
        mean = self._sum / self._count
        variance = self._squares / self._count - mean * mean
        if variance <= 1e-9:
            return 0.0
        covariance = self._products / (self._count - 1) - mean * mean
        return max(-1.0, min(1.0, covariance / variance))


def rare_run(autocorrelation: float) -> int:
    """Number of consecutive waits above the quantile 0.95 that is rare at an autocorrelation."""
    row = bisect_left(RARE_RUNS, (autocorrelation, 0))
    return RARE_RUNS[min(row, len(RARE_RUNS) - 1)][1]


class SinceChange:
    """A bound of the waits since the last change point.

    A change point is the end of `rare_run` consecutive waits above the bound. The method then
    begins anew with the last 59 waits. Cost of a wait: that of the method; of a change point: that
    of 59 waits.
    """

    def __init__(self, make: Callable[[], Method]) -> None:
        self._make = make
        self._method = make()
        self._latest_s: deque[float] = deque(maxlen=MINIMUM)
        self._autocorrelation = Autocorrelation()
        self._exceeded = 0
        """Number of waits in a row, up to the last one, that exceeded the bound."""
        self.changes = 0
        """Number of change points."""

    def observe(self, wait_s: float) -> None:
        bound_s = self._method.predict()
        self._latest_s.append(wait_s)
        self._autocorrelation.observe(log1p(wait_s))
        self._exceeded = self._exceeded + 1 if bound_s is not None and wait_s > bound_s else 0
        if self._exceeded and self._exceeded >= rare_run(self._autocorrelation.value()):
            self._forget()
        else:
            self._method.observe(wait_s)

    def predict(self) -> float | None:
        return self._method.predict()

    def _forget(self) -> None:
        self.changes += 1
        self._exceeded = 0
        self._method = self._make()
        for wait_s in self._latest_s:
            self._method.observe(wait_s)
