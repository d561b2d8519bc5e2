"""The parameters of the workload model for bags of tasks: Table 5.3 of the thesis.

Source: O. O. Sonmez's thesis, section 5.2, after A. Iosup, O. Sonmez, S. Anoep and D. Epema, "The
performance of bags-of-tasks in large-scale distributed systems", HPDC 2008.

The thesis does not say in which order the table gives parameters. It has to be Weibull W(shape,
scale), normal N(standard deviation, mean), gamma G(shape, rate), log-normal LN(mu, sigma) and Zipf
Z(alpha, ranks):

- The daily cycle is a distribution over the 48 half hours of a day. W(1.79, 24.16) has its mean at
  slot 21.5 and G(2.62, 0.13) at 20.2; the other way round they are below slot 2, at night.
- Trace T7's inter-arrival times are N(1.97, 8.00), those of the other traces W(about 4, about 8).
  All agree, at 2^7 to 2^8 s, if the second parameter is the mean of N and the scale of W.
- With this order the median of trace T6's task run times LN(1.82, 0.34) is 2^6.2 s, near the
  average system's 2^6.1 s; the other way round it is 2^1.4 s. T4's G(3.55, 0.47) have their mean at
  2^7.6 s; if 0.47 were the scale, at 2^1.7 s.
- With this order the mean size of a bag is 5.3 for the average system, 12.8 for T1 and 10.0 for T6.
  Section 5.2.4 states a range from 5 to 50. (T2, T3 and T4 have means of 3 to 4.)

Inter-arrival times, sizes, average task run times and task run time variability are distributions
of the logarithm to the base 2 of the value. Sections 5.2.3 to 5.2.5 say so of the first three. It
must hold for the variability, too: otherwise the table would state variances of 12 s² for run times
of minutes.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from statistics import NormalDist
from typing import Protocol

_STANDARD = NormalDist()
LEAST, MOST = 1e-9, 1 - 1e-9
"""Probabilities are clamped to this range, in which all quantiles are finite."""


class Fit(Protocol):
    """A fitted distribution of one characteristic."""

    def cdf(self, value: float) -> float:
        """The probability of a value of at most ``value``."""

    def quantile(self, probability: float) -> float:
        """The value that is not exceeded with the given probability, which must be from `LEAST` to
        `MOST`."""


@dataclass(frozen=True, slots=True)
class Weibull:
    shape: float
    scale: float

    def cdf(self, value: float) -> float:
        return -math.expm1(-((max(value, 0.0) / self.scale) ** self.shape))

    def quantile(self, probability: float) -> float:
        return self.scale * float((-math.log1p(-probability)) ** (1 / self.shape))

    def __str__(self) -> str:
        return f"W({self.shape}, {self.scale})"


@dataclass(frozen=True, slots=True)
class FittedNormal:
    sd: float
    mean: float

    def cdf(self, value: float) -> float:
        return _STANDARD.cdf((value - self.mean) / self.sd)

    def quantile(self, probability: float) -> float:
        return self.mean + self.sd * _STANDARD.inv_cdf(probability)

    def __str__(self) -> str:
        return f"N({self.sd}, {self.mean})"


@dataclass(frozen=True, slots=True)
class FittedLogNormal:
    mu: float
    sigma: float

    def cdf(self, value: float) -> float:
        return _STANDARD.cdf((math.log(value) - self.mu) / self.sigma) if value > 0 else 0.0

    def quantile(self, probability: float) -> float:
        return math.exp(self.mu + self.sigma * _STANDARD.inv_cdf(probability))

    def __str__(self) -> str:
        return f"LN({self.mu}, {self.sigma})"


@dataclass(frozen=True, slots=True)
class Gamma:
    shape: float
    rate: float

    def cdf(self, value: float) -> float:
        """Computed with the power series of the incomplete gamma function (DLMF 8.7.1)."""
        x = value * self.rate
        if x <= 0:
            return 0.0
        term = total = 1 / self.shape
        order = self.shape
        while term > total * 1e-16:
            order += 1
            term *= x / order
            total += term
        return min(total * math.exp(self.shape * math.log(x) - x - math.lgamma(self.shape)), 1.0)

    def quantile(self, probability: float) -> float:
        """Interpolated; its `cdf` is within 1e-5 of the probability."""
        step, grid = _grid(self)
        place = bisect_left(grid, probability)
        if place == len(grid):
            return (place - 1) * step
        below, above = (grid[place - 1] if place else 0.0), grid[place]
        return (place - (above - probability) / (above - below)) * step if place else 0.0

    def __str__(self) -> str:
        return f"G({self.shape}, {self.rate})"


@cache
def _grid(fit: Gamma) -> tuple[float, list[float]]:
    """The distribution function at multiples of a step, up to a negligible remainder."""
    step = (fit.shape + 12 * math.sqrt(fit.shape) + 12) / fit.rate / 4_000
    return step, [fit.cdf(index * step) for index in range(4_001)]


@dataclass(frozen=True, slots=True)
class Zipf:
    """Rank r, from 1 on, has a share proportional to r to the power of -alpha."""

    alpha: float
    ranks: int

    def shares(self) -> list[float]:
        weights = [rank**-self.alpha for rank in range(1, self.ranks + 1)]
        total = sum(weights)
        return [weight / total for weight in weights]

    def cumulated(self) -> list[float]:
        return list(accumulate(self.shares()))

    def __str__(self) -> str:
        return f"Z({self.alpha}, {self.ranks})"


@dataclass(frozen=True, slots=True)
class TraceFits:
    """The fits of one trace. The module's docstring names the quantity of each."""

    users: Zipf
    gap: Fit
    """log2 of seconds between arrivals, in peak hours."""
    cycle: Fit
    """Number of the half hour of the day, from 0."""
    size: Fit
    """log2 of a bag's number of tasks."""
    runtime: Fit
    """log2 of the mean run time of a bag's tasks, in seconds (ART)."""
    variance: Fit
    """log2 of the variance of the run times of a bag's tasks, in seconds squared (RTV)."""


ROWS: Mapping[str, TraceFits] = {
    "das-2": TraceFits(
        Zipf(1.25, 333), Weibull(4.06, 7.91), Gamma(2.62, 0.13),
        Weibull(1.75, 2.91), FittedNormal(1.78, 3.87), Weibull(1.64, 10.21),
    ),
    "grid5000": TraceFits(
        Zipf(1.39, 481), Weibull(4.27, 8.42), Weibull(1.57, 20.54),
        Gamma(2.47, 1.64), FittedNormal(2.31, 4.97), FittedNormal(5.54, 9.56),
    ),
    "ngs": TraceFits(
        Zipf(1.30, 379), Weibull(4.94, 8.48), Weibull(1.64, 25.42),
        Weibull(2.02, 1.58), FittedNormal(3.50, 3.51), Gamma(1.79, 0.29),
    ),
    # The trace has no users; those of the average system replace them.
    "auvergrid": TraceFits(
        Zipf(1.31, 368), Weibull(3.87, 7.33), Weibull(1.72, 25.49),
        Weibull(1.78, 1.51), Gamma(3.55, 0.47), FittedNormal(6.41, 11.73),
    ),
    "sharcnet": TraceFits(
        Zipf(1.25, 412), Weibull(4.17, 7.65), Weibull(2.44, 28.99),
        Weibull(1.37, 1.89), FittedNormal(3.06, 7.45), Weibull(1.93, 13.65),
    ),
    "lcg": TraceFits(
        Zipf(1.32, 216), Weibull(4.05, 6.48), Weibull(1.71, 23.86),
        FittedNormal(1.33, 2.71), FittedLogNormal(1.82, 0.34), Weibull(2.85, 14.21),
    ),
    "nordugrid": TraceFits(
        Zipf(1.36, 387), FittedNormal(1.97, 8.00), Weibull(1.62, 22.18),
        Weibull(1.80, 2.17), FittedNormal(2.76, 9.04), Weibull(2.86, 16.58),
    ),
    "average": TraceFits(
        Zipf(1.31, 368), Weibull(4.25, 7.86), Weibull(1.79, 24.16),
        Weibull(1.76, 2.11), FittedNormal(2.73, 6.1), Weibull(2.05, 12.25),
    ),
}  # fmt: skip
"""The rows T1 to T7 in the table's order, and its last row."""
