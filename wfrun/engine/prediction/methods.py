"""Methods that predict the next value of a series of run times (thesis section 7.2.1)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import NamedTuple, Protocol

ALPHA = 0.5
"""Weight of the latest run time in exponential smoothing (thesis section 7.2.1)."""
WINDOW = 5
"""Number of run times of the sliding median (thesis section 7.2.1)."""


class Method(Protocol):
    """A prediction method. One object serves one series of run times."""

    def observe(self, runtime_s: float) -> None:
        """Observe the next run time of the series."""

    def predict(self) -> float | None:
        """The expected next run time in seconds; None before the first observation."""


class ExponentialSmoothing:
    """A mean in which the weight of each run time is half that of the next one (ES, method 1)."""

    __slots__ = ("_mean_s",)

    def __init__(self) -> None:
        self._mean_s: float | None = None

    def observe(self, runtime_s: float) -> None:
        mean_s = self._mean_s
        self._mean_s = runtime_s if mean_s is None else ALPHA * runtime_s + (1 - ALPHA) * mean_s

    def predict(self) -> float | None:
        return self._mean_s


class RunningMean:
    """The mean of all run times (RM, method 2)."""

    __slots__ = ("_count", "_mean_s")

    def __init__(self) -> None:
        self._count = 0
        self._mean_s = 0.0

    def observe(self, runtime_s: float) -> None:
        self._count += 1
        self._mean_s += (runtime_s - self._mean_s) / self._count

    def predict(self) -> float | None:
        return self._mean_s if self._count else None


class SlidingMedian:
    """The median of the last five run times (SM, method 3)."""

    __slots__ = ("_sorted_s", "_window_s")

    def __init__(self) -> None:
        self._window_s: list[float] = []  # a deque takes 600 bytes
        self._sorted_s: list[float] = []

    def observe(self, runtime_s: float) -> None:
        if len(self._window_s) == WINDOW:
            del self._sorted_s[bisect_left(self._sorted_s, self._window_s.pop(0))]
        self._window_s.append(runtime_s)
        insort(self._sorted_s, runtime_s)

    def predict(self) -> float | None:
        ordered = self._sorted_s
        if not ordered:
            return None
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


class Last:
    """The last run time (method 4)."""

    __slots__ = ("_last_s",)

    def __init__(self) -> None:
        self._last_s: float | None = None

    def observe(self, runtime_s: float) -> None:
        self._last_s = runtime_s

    def predict(self) -> float | None:
        return self._last_s


class Last2:
    """The mean of the last two run times (method 5)."""

    __slots__ = ("_last_s", "_mean_s")

    def __init__(self) -> None:
        self._last_s: float | None = None
        self._mean_s: float | None = None

    def observe(self, runtime_s: float) -> None:
        # Computed here, since predictions are far more frequent than observations.
        self._mean_s = runtime_s if self._last_s is None else (self._last_s + runtime_s) / 2
        self._last_s = runtime_s

    def predict(self) -> float | None:
        return self._mean_s


class AllMethods:
    """All methods of ``METHODS`` on one series, at a quarter of the cost of separate objects."""

    __slots__ = ("_mean_s", "_smoothed_s", "_window_s", "count", "values_s")

    def __init__(self) -> None:
        self.values_s: tuple[float, ...] = ()
        """The prediction of each method, in the order of ``METHODS``; empty before the first
        observation."""
        self.count = 0
        """Number of run times of the series."""
        self._mean_s = self._smoothed_s = 0.0
        self._window_s: list[float] = []

    def observe(self, runtime_s: float) -> None:
        """Observe the next run time of the series."""
        window_s = self._window_s
        window_s.append(runtime_s)
        self.count = count = self.count + 1
        self._mean_s = mean_s = self._mean_s + (runtime_s - self._mean_s) / count
        if count == 1:
            self._smoothed_s = runtime_s
            self.values_s = (runtime_s,) * 5
            return
        if count > WINDOW:
            del window_s[0]
            count = WINDOW
        self._smoothed_s = smoothed_s = ALPHA * runtime_s + (1 - ALPHA) * self._smoothed_s
        ordered, middle = sorted(window_s), count // 2
        median_s = ordered[middle]
        if not count % 2:
            median_s = (ordered[middle - 1] + median_s) / 2
        self.values_s = smoothed_s, mean_s, median_s, runtime_s, (window_s[-2] + runtime_s) / 2


class MethodKind(NamedTuple):
    """A prediction method: its title for users, and its constructor."""

    title: str
    make: Callable[[], Method]


METHODS: dict[str, MethodKind] = {
    "es": MethodKind("exponential smoothing", ExponentialSmoothing),
    "rm": MethodKind("running mean", RunningMean),
    "sm": MethodKind("sliding median", SlidingMedian),
    "last": MethodKind("last", Last),
    "last2": MethodKind("mean of the last two", Last2),
}
"""The methods of thesis section 7.2.1, by name."""
