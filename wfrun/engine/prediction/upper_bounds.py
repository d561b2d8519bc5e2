"""Upper bounds of run times for requests of walltimes.

The bound of a class of jobs is a quantile of its latest run times, times a margin that is learned
from misses. The quantile is that of split conformal prediction: of ``n`` exchangeable run times,
the next one exceeds the ``ceil((n + 1) c)``-th smallest with a probability of at most ``1 - c``
(Vovk, Gammerman, Shafer 2005, proposition 2.3; Lei et al. 2018, section 2.2). Too few run times
have no such quantile, and thus no bound.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from math import ceil

COVERAGE = 0.95
"""Share of the run times that do not exceed the quantile."""
MIN_OBSERVATIONS = ceil(COVERAGE / (1 - COVERAGE))
"""Number of run times from which on the quantile is finite: 19."""
WINDOW = 50
"""Number of run times that the quantile and the margin follow from: as many as a history keeps."""
MIN_MARGIN = 1.5
"""Factor above the quantile without misses."""
MISS_MARGIN = 0.25
"""How much each run time past its quantile, among the latest, adds to the factor."""


class UpperBound:
    """The bound of one class of jobs. Cost: logarithmic in the window, except for `bound_s`."""

    __slots__ = ("_killed_s", "_latest_s", "_misses_s", "_sorted_s")

    def __init__(self) -> None:
        self._latest_s: deque[float] = deque()
        self._sorted_s: list[float] = []
        self._misses_s: deque[float] = deque(maxlen=WINDOW)
        """Each latest run time that exceeded the quantile before it; 0 for the others."""
        self._killed_s = 0.0
        """Longest time after which a job was ended by its walltime."""

    def observe(self, runtime_s: float) -> None:
        """Observe the run time of a job that has ended by itself."""
        quantile_s = self.quantile_s
        is_miss = quantile_s is not None and runtime_s > quantile_s
        self._misses_s.append(runtime_s if is_miss else 0.0)
        if len(self._latest_s) == WINDOW:
            del self._sorted_s[bisect_left(self._sorted_s, self._latest_s.popleft())]
        self._latest_s.append(runtime_s)
        insort(self._sorted_s, runtime_s)

    def miss(self, ran_s: float) -> None:
        """Note a job that was ended after this time, since its walltime was too short. From now on
        the bound is at least twice as long."""
        self._killed_s = max(self._killed_s, ran_s)

    @property
    def quantile_s(self) -> float | None:
        """The quantile; None while there are too few run times."""
        count = len(self._sorted_s)
        if count < MIN_OBSERVATIONS:
            return None
        return self._sorted_s[ceil((count + 1) * COVERAGE) - 1]

    @property
    def mean_s(self) -> float:
        """The mean of the latest run times; 0 before the first."""
        return sum(self._latest_s) / len(self._latest_s) if self._latest_s else 0.0

    @property
    def margin(self) -> float:
        """Factor above the quantile and the misses: each of the latest ones has raised it."""
        return MIN_MARGIN + MISS_MARGIN * sum(1 for missed_s in self._misses_s if missed_s)

    def bound_s(self) -> float | None:
        """The time within which the next job ends, with few exceptions; None if unknown.

        Cost: the window."""
        quantile_s = self.quantile_s
        if quantile_s is None:
            return None
        longest_s = max(quantile_s, *self._misses_s)
        return max(self.margin * longest_s, 2 * self._killed_s)
