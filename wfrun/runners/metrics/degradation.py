"""Degradation of strategies relative to the best, and their ranks.

Source: Ramírez-Alcaraz et al., J. Grid Computing 9, 2011, section 6, after Tsafrir, Etsion and
Feitelson, IEEE TPDS 18, 2007: 100 · strategy / best - 100 for each metric; the mean over metrics,
all of equal importance; ranks by that mean, 1 for the smallest.

The paper gives no formula for metrics of which more is better. Its Table 6 has 12% for the
utilization of a strategy whose competitive factor is 16% worse, means of two grids: what fits is
the loss, 100 - 100 · strategy / best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, inf, isnan
from typing import Literal


def degradations(
    values: Mapping[str, float], better: Literal["smaller", "larger"] = "smaller"
) -> dict[str, float]:
    """The degradation of each strategy in percent, by the values of one metric; 0 is the best.

    It is infinite if the best value is 0 and the strategy's value is not. Values are not negative.
    A value of nan gives nan, and is ignored in the choice of the best.
    """
    known = [value for value in values.values() if not isnan(value)]
    best = (min if better == "smaller" else max)(known, default=0.0)
    return {name: _degradation(value, best, better) for name, value in values.items()}


def _degradation(value: float, best: float, better: Literal["smaller", "larger"]) -> float:
    if value == best:
        return 0.0
    if better == "larger":
        return 100.0 - 100.0 * value / best
    return 100.0 * value / best - 100.0 if best else inf


def mean_degradations(metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean degradation of each strategy over several metrics, or over several grids, of equal
    importance. All have the same strategies."""
    return {name: fsum(one[name] for one in metrics) / len(metrics) for name in metrics[0]}


def ranks(degradation: Mapping[str, float]) -> dict[str, int]:
    """The rank of each strategy, from 1 for the smallest degradation. Equal strategies share the
    lowest of their ranks."""
    ordered = sorted(degradation.values())
    return {name: ordered.index(value) + 1 for name, value in degradation.items()}
