"""Intervals of run times with a stated coverage, by conformal prediction.

The bound of a class is an order statistic of its latest run times. If run times are exchangeable,
the next one is below the k-th smallest of n with a probability of at least k / (n + 1) (Vovk,
Gammerman, Shafer: Algorithmic Learning in a Random World, 2005). The run times of a class are not
exchangeable: they come in series, and users change what they run. Therefore a bound aims half way
between its coverage and 1, and is multiplied by a margin. Each miss enlarges the margin and each
hit reduces it, at rates that balance at the coverage (adaptive conformal inference, Gibbs and
Candès 2021).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Sequence
from math import ceil, exp, log

from wfrun.engine.prediction.classes import CLASSIFICATIONS
from wfrun.engine.prediction.job import Job, Prediction, Predictor

WINDOW = 50
"""Number of latest run times of a class from which its bounds are made."""
COVERAGE = 0.95
"""Default coverage of each bound of an interval, and the coverage for which margins are learned."""
_RATE = 0.3
"""Change of the logarithm of a margin by a miss. A hit changes it by -`_RATE` (1 - `COVERAGE`) /
`COVERAGE`, so that the margin is stable if the share of misses is 1 - `COVERAGE`."""
_MAX_MARGIN = log(10.0)
"""Maximum logarithm of a margin, for a factor of 10. After a change of a class, its window soon has
new values."""
_LAG = 20
"""Number of latest bounds whose tightest is compared with a run time. It stands for the bound at
the submission of the job: the present bound also includes jobs of the class that ended since."""


class ClassBounds:
    """Bounds of the next run time of one class. Cost: constant."""

    __slots__ = ("_above", "_below", "_lowers_s", "_sorted_s", "_uppers_s", "_window_s")

    def __init__(self, runtimes_s: Iterable[float] = ()) -> None:
        self._window_s: list[float] = []
        self._sorted_s: list[float] = []
        self._above = self._below = 0.0
        """Logarithms of the margins."""
        self._uppers_s: list[float] = []
        """The latest upper bounds."""
        self._lowers_s: list[float] = []
        """The latest lower bounds."""
        for runtime_s in runtimes_s:
            self.observe(runtime_s)

    @property
    def observations(self) -> int:
        """Number of run times from which the bounds are made."""
        return len(self._window_s)

    def observe(self, runtime_s: float) -> None:
        """Observe the next run time of the class."""
        upper_s, lower_s = self.upper_s(), self.lower_s()
        if upper_s is not None and lower_s is not None:
            uppers_s, lowers_s = self._uppers_s, self._lowers_s
            uppers_s.append(upper_s)
            lowers_s.append(lower_s)
            self._above = _learned(self._above, is_miss=runtime_s > min(uppers_s))
            self._below = _learned(self._below, is_miss=runtime_s < max(lowers_s))
            if len(uppers_s) == _LAG:
                del uppers_s[0], lowers_s[0]
        ordered_s = self._sorted_s
        if len(self._window_s) == WINDOW:
            del ordered_s[bisect_left(ordered_s, self._window_s.pop(0))]
        self._window_s.append(runtime_s)
        insort(ordered_s, runtime_s)

    def upper_s(self, coverage: float = COVERAGE) -> float | None:
        """Return a bound that at least the share ``coverage`` of run times does not exceed. Return
        None if there are too few observations: a coverage of 0.95 needs 19."""
        count = len(self._sorted_s)
        if ceil((count + 1) * coverage) > count:
            return None
        rank = min(count, ceil((count + 1) * (1 + coverage) / 2))
        return self._sorted_s[rank - 1] * exp(self._above)

    def lower_s(self, coverage: float = COVERAGE) -> float | None:
        """Return a bound that at least the share ``coverage`` of run times reaches; None as for
        ``upper_s``."""
        count = len(self._sorted_s)
        if ceil((count + 1) * coverage) > count:
            return None
        rank = min(count, ceil((count + 1) * (1 + coverage) / 2))
        return self._sorted_s[count - rank] * exp(-self._below)

    def around(self, prediction: Prediction) -> Prediction:
        """Return the prediction with the interval between the two bounds, widened to include its
        value. Without bounds it is unchanged."""
        upper_s, lower_s = self.upper_s(), self.lower_s()
        if upper_s is None or lower_s is None:
            return prediction
        value_s = prediction.value_s
        return prediction._replace(low_s=min(lower_s, value_s), high_s=max(upper_s, value_s))


def _learned(margin: float, *, is_miss: bool) -> float:
    change = _RATE if is_miss else -_RATE * (1 - COVERAGE) / COVERAGE
    return min(_MAX_MARGIN, max(0.0, margin + change))


class Intervals:
    """Adds an interval to each prediction of a predictor.

    Bounds come from the first of the job's classes with enough observations. If there is no such
    class, the interval is (0, inf). Two bounds of coverage 0.95 give an interval with a coverage of
    at least 0.9. Cost: that of the predictor, and constant for each classification.
    """

    def __init__(
        self, predictor: Predictor, classifications: Sequence[str] = ("application", "user-site")
    ) -> None:
        """``classifications``: names in ``CLASSIFICATIONS``, the most specific first. More general
        classes say little about one job: the run times at one site differ by orders of
        magnitude."""
        self._predictor = predictor
        self._levels: list[tuple[str, dict[Hashable, ClassBounds]]] = [
            (name, {}) for name in classifications
        ]

    def observe(self, job: Job, runtime_s: float) -> None:
        for name, classes in self._levels:
            key = CLASSIFICATIONS[name].key(job)
            bounds = classes.get(key)
            if bounds is None:
                bounds = classes[key] = ClassBounds()
            bounds.observe(runtime_s)
        self._predictor.observe(job, runtime_s)

    def predict(self, job: Job) -> Prediction | None:
        found = self._predictor.predict(job)
        if found is None:
            return None
        bounds = self._bounds(job)
        return found if bounds is None else bounds.around(found)

    def _bounds(self, job: Job) -> ClassBounds | None:
        """The bounds of the first class with enough observations."""
        for name, classes in self._levels:
            bounds = classes.get(CLASSIFICATIONS[name].key(job))
            if bounds is not None and bounds.upper_s() is not None:
                return bounds
        return None
