"""Seeded distributions of run times and file sizes. All draws come from the given generator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Protocol

_TRIES = 100
"""Maximum number of draws outside the bounds before one is clamped."""


class Distribution(Protocol):
    """The distribution of a positive quantity, in seconds or bytes."""

    def draw(self, rng: Random) -> float:
        """Draw one value within the bounds."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """A uniform distribution from ``low`` to ``high``."""

    low: float
    high: float

    def draw(self, rng: Random) -> float:
        return self.low + (self.high - self.low) * rng.random()


@dataclass(frozen=True, slots=True)
class Normal:
    """A normal distribution truncated at ``low`` and ``high``."""

    mean: float
    sd: float
    low: float
    high: float

    def draw(self, rng: Random) -> float:
        for _ in range(_TRIES):
            value = rng.gauss(self.mean, self.sd)
            if self.low <= value <= self.high:
                return value
        return min(max(value, self.low), self.high)


@dataclass(frozen=True, slots=True)
class LogNormal:
    """A log-normal distribution truncated at ``low`` and ``high``.

    ``mean`` and ``sd`` are those of the values, not of their logarithms.
    """

    mean: float
    sd: float
    low: float
    high: float

    def draw(self, rng: Random) -> float:
        variance = math.log1p((self.sd / self.mean) ** 2)
        location, scale = math.log(self.mean) - variance / 2, math.sqrt(variance)
        for _ in range(_TRIES):
            value = math.exp(rng.gauss(location, scale))
            if self.low <= value <= self.high:
                return value
        return min(max(value, self.low), self.high)


SPREAD = LogNormal(1.0, 0.05, 0.8, 1.2)
"""A factor near 1. It multiplies quantities that are otherwise proportional to the work."""
