"""Regression of run times on the sizes of inputs, for classes of jobs that state them."""

from __future__ import annotations

from collections.abc import Hashable
from math import exp, inf, log

from wfrun.engine.prediction.classes import CLASSIFICATIONS
from wfrun.engine.prediction.job import MAX_RUNTIME_S, Job, Prediction

LEAST = 5
"""Minimum number of observed run times of a class before its lines are used."""
_KEPT_WEIGHT = 0.98
"""Factor by which each later run time reduces the weight of a run time: users change their
programs."""
_HUBER = 3.0
"""Maximum deviation of a point from the line, in mean absolute deviations; larger deviations are
reduced to it (Huber 1964)."""
_LATEST_WEIGHT = 0.1
"""Weight of the latest value in the mean deviation and in the mean accuracy."""


class RegressionLine:
    """A line through points that are observed one after another: weighted least squares, in which
    later points weigh more, and points far from the line are moved towards it."""

    __slots__ = ("_covariance", "_deviation", "_mean_x", "_mean_y", "_variance", "_weight")

    def __init__(self) -> None:
        self._weight = 0.0
        self._mean_x = self._mean_y = 0.0
        self._variance = self._covariance = 0.0
        self._deviation = inf

    def observe(self, x: float, y: float) -> None:
        """Observe a point."""
        deviation = y - self.at(x)
        limit = _HUBER * self._deviation
        if abs(deviation) > limit > 0.0:
            deviation = limit if deviation > 0 else -limit
            y = self.at(x) + deviation
        if self._weight >= 2:  # before, each line goes through all points
            known = self._deviation < inf
            mean = self._deviation if known else abs(deviation)
            self._deviation = mean + _LATEST_WEIGHT * (abs(deviation) - mean)
        self._weight = self._weight * _KEPT_WEIGHT + 1
        share = 1 / self._weight
        dx, dy = x - self._mean_x, y - self._mean_y
        self._mean_x += share * dx
        self._mean_y += share * dy
        self._variance = (1 - share) * (self._variance + share * dx * dx)
        self._covariance = (1 - share) * (self._covariance + share * dx * dy)

    def at(self, x: float) -> float:
        """The ordinate of the line at ``x``; if all points have the same abscissa, the mean of
        their ordinates."""
        slope = self._covariance / self._variance if self._variance > 0 else 0.0
        return self._mean_y + slope * (x - self._mean_x)

    @property
    def is_sloped(self) -> bool:
        """Whether points with different abscissas were observed."""
        return self._variance > 0


class _Fit:
    """Run times of one class as a function of the size: linear, or a power of the size, whichever
    has been more accurate so far."""

    __slots__ = ("_accuracies", "_lines", "count")

    def __init__(self) -> None:
        self._lines = RegressionLine(), RegressionLine()
        self._accuracies = [0.0, 0.0]
        self.count = 0

    def observe(self, size_bytes: float, runtime_s: float) -> None:
        if self.count >= LEAST:
            for n, value_s in enumerate(self._values_s(size_bytes)):
                smaller, larger = sorted((max(0.0, value_s), runtime_s))
                accuracy = smaller / larger if larger > 0 else 1.0
                self._accuracies[n] += _LATEST_WEIGHT * (accuracy - self._accuracies[n])
        self.count += 1
        linear, power = self._lines
        linear.observe(size_bytes, runtime_s)
        power.observe(log(size_bytes), log(runtime_s))

    def predict_s(self, size_bytes: float) -> float | None:
        if self.count < LEAST or not self._lines[0].is_sloped:
            return None
        accuracies = self._accuracies
        value_s = self._values_s(size_bytes)[accuracies[1] >= accuracies[0]]
        return value_s if 0 < value_s <= MAX_RUNTIME_S else None

    def _values_s(self, size_bytes: float) -> tuple[float, float]:
        linear, power = self._lines
        exponent = power.at(log(size_bytes))
        return linear.at(size_bytes), exp(min(exponent, log(MAX_RUNTIME_S) + 1))


class Regression:
    """Predicts run times from the sizes of inputs, for each class of jobs of the same user,
    application, size and site. Jobs without a known size of inputs are not predicted. Cost:
    constant."""

    title = f"regression on the size of inputs, of {CLASSIFICATIONS['application'].title}"

    def __init__(self) -> None:
        self._fits: dict[Hashable, _Fit] = {}

    def observe(self, job: Job, runtime_s: float) -> None:
        size_bytes = job.input_bytes
        if size_bytes is None or size_bytes <= 0 or runtime_s <= 0:
            return
        key = CLASSIFICATIONS["application"].key(job)
        fit = self._fits.get(key)
        if fit is None:
            fit = self._fits[key] = _Fit()
        fit.observe(size_bytes, runtime_s)

    def predict(self, job: Job) -> Prediction | None:
        size_bytes = job.input_bytes
        if size_bytes is None or size_bytes <= 0:
            return None
        fit = self._fits.get(CLASSIFICATIONS["application"].key(job))
        value_s = None if fit is None else fit.predict_s(size_bytes)
        if fit is None or value_s is None:
            return None
        return Prediction(value_s, self.title, fit.count)
