"""Means, percentiles and confidence intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from math import cos, fsum, isfinite, pi, sin, sqrt, tan
from statistics import NormalDist

import msgspec

from wfrun.engine.errors import InvalidError

_SERIES_TO = 200
"""Maximum number of degrees of freedom for which the t distribution is summed exactly."""


class Summary(msgspec.Struct, frozen=True):
    """Summary statistics of a sample, in the unit of its values."""

    count: int
    mean: float
    sd: float | None
    """Standard deviation of the sample (with the divisor count - 1); None for a single value."""
    half_width: float | None
    """Half the width of the confidence interval, which is mean ± ``half_width``; None for a single
    value."""
    minimum: float
    median: float
    maximum: float


def summarize(values: Iterable[float], confidence: float = 0.95) -> Summary:
    """Summarize a sample, with Student's confidence interval of the mean: ± t(confidence, n - 1) ·
    sd/√n. The interval assumes independent values and a normally distributed mean. Raises
    InvalidError if there are no values, or if a value is not finite."""
    sample = _checked(values)
    count = len(sample)
    mean = fsum(sample) / count
    sd = half_width = None
    if count > 1:
        sd = sqrt(fsum((v - mean) ** 2 for v in sample) / (count - 1))
        half_width = t_critical(confidence, count - 1) * sd / sqrt(count)
    return Summary(count, mean, sd, half_width, sample[0], _quantile(sample, 0.5), sample[-1])


def percentile(values: Iterable[float], percent: float) -> float:
    """A percentile, interpolated between order statistics: definition 7 of Hyndman and Fan (1996),
    which NumPy and spreadsheets use. ``percent`` is 0 (the minimum) to 100 (the maximum). Raises
    InvalidError for any other ``percent``, if there are no values, or if a value is not finite."""
    if not 0 <= percent <= 100:
        raise InvalidError(f"there is no percentile {percent}", hint="use 0 to 100")
    return _quantile(_checked(values), percent / 100)


def cumulative(values: Iterable[float]) -> list[tuple[float, float]]:
    """The empirical distribution: a point (value, fraction of the sample up to this value) for each
    distinct value, ascending. Raises InvalidError if there are no values, or if a value is not
    finite."""
    sample = _checked(values)
    count = len(sample)
    points: dict[float, float] = {}
    for rank, value in enumerate(sample, 1):
        points[value] = rank / count
    return list(points.items())


def _checked(values: Iterable[float]) -> list[float]:
    sample = sorted(values)
    if not sample:
        raise InvalidError(
            "there are no values to summarize", hint="did anything succeed in these runs?"
        )
    strange = [v for v in sample if not isfinite(v)]
    if strange:
        raise InvalidError(
            f"{len(strange)} of {len(sample)} values are not finite ({strange[0]}), so that they "
            "have no mean",
            hint="a ratio to 0 has no value; leave such runs out",
        )
    return sample


def _quantile(ordered: Sequence[float], share: float) -> float:
    position = share * (len(ordered) - 1)
    below = int(position)
    if below + 1 == len(ordered):
        return ordered[below]
    return ordered[below] + (position - below) * (ordered[below + 1] - ordered[below])


@cache
def t_critical(confidence: float, freedom: int) -> float:
    """The t with P(|T| ≤ t) = ``confidence``, where T has Student's distribution with ``freedom``
    degrees of freedom.

    Up to 200 degrees the distribution is summed exactly, with relative rounding errors of 1e-12.
    Above 200 degrees an expansion is used, whose relative error is below 1e-10 for confidences from
    0.5 to 0.999. Source: Abramowitz and Stegun, *Handbook of Mathematical Functions*, 26.7.3,
    26.7.4 and 26.7.5. Raises InvalidError unless ``confidence`` is between 0 and 1 and ``freedom``
    at least 1.
    """
    if not 0 < confidence < 1 or freedom < 1:
        raise InvalidError(
            f"there is no confidence interval of {confidence} with {freedom} degrees of freedom",
            hint="a confidence is between 0 and 1, and needs at least two values",
        )
    if freedom > _SERIES_TO:
        return _expanded(NormalDist().inv_cdf((1 + confidence) / 2), freedom)
    low, high = 0.0, pi / 2
    while (middle := (low + high) / 2) not in (low, high):
        if _within(middle, freedom) < confidence:
            low = middle
        else:
            high = middle
    return sqrt(freedom) * tan(low)


def _within(angle: float, freedom: int) -> float:
    """P(|T| ≤ √freedom · tan angle), by Abramowitz and Stegun 26.7.3 for an odd and 26.7.4 for an
    even number of degrees of freedom."""
    cosine = cos(angle)
    first = 3 if freedom % 2 else 2
    term = cosine if freedom % 2 else 1.0
    total = term if freedom > 1 else 0.0
    for n in range(first, freedom - 1, 2):
        term *= cosine * cosine * (n - 1) / n
        total += term
    if freedom % 2:
        return 2 / pi * (angle + sin(angle) * total)
    return sin(angle) * total


def _expanded(x: float, n: int) -> float:
    """The t for ``n`` degrees of freedom, by the expansion 26.7.5 of Abramowitz and Stegun. ``x``
    is the corresponding quantile of the normal distribution."""
    return (
        x
        + (x**3 + x) / (4 * n)
        + (5 * x**5 + 16 * x**3 + 3 * x) / (96 * n**2)
        + (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / (384 * n**3)
        + (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / (92160 * n**4)
    )
