"""Degradation of strategies relative to the best strategy, and their ranks.

Source: Ramírez-Alcaraz et al., J. Grid Computing 9, 2011, section 6, after Tsafrir, Etsion and
Feitelson, IEEE TPDS 18, 2007. The degradation of a strategy by a metric is 100 · strategy / best -
100. The mean degradation over all metrics, which have equal weights, gives the rank; rank 1 has the
smallest mean.

The paper gives no formula for metrics whose larger values are better. In its Table 6 the
utilization of a strategy is degraded by 12%, while its competitive factor is 16% worse (means of
two grids). The formula that fits is the loss, 100 - 100 · strategy / best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, inf, isnan
from typing import Literal


def degradations(
    values: Mapping[str, float], better: Literal["smaller", "larger"] = "smaller"
) -> dict[str, float]:
    """The degradation of each strategy in percent, from the values of one metric. The best strategy
    has 0.

    Values must not be negative. If smaller values are better and the best value is 0, the
    degradation of a strategy with another value is inf. The degradation of a nan is nan, and a nan
    is never the best value.
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
    """The mean degradation of each strategy over several metrics or grids of equal importance. All
    mappings have the same strategies."""
    return {name: fsum(one[name] for one in metrics) / len(metrics) for name in metrics[0]}


def ranks(degradation: Mapping[str, float]) -> dict[str, int]:
    """The rank of each strategy; the smallest degradation has rank 1. Strategies with equal
    degradations share the lowest of their ranks."""
    ordered = sorted(degradation.values())
    return {name: ordered.index(value) + 1 for name, value in degradation.items()}
