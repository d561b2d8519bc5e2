"""Upper bounds of waits: BMBP against exact binomial sums, change points, and Chebyshev."""

from __future__ import annotations

from fractions import Fraction
from math import comb, exp, inf, pi, sqrt
from random import Random
from statistics import NormalDist, fmean, pstdev

import pytest

from wfrun.engine.prediction.waits.change_points import (
    MINIMUM,
    RARE_RUNS,
    Autocorrelation,
    SinceChange,
    rare_run,
)
from wfrun.engine.prediction.waits.upper_bounds import (
    BOUNDS,
    BinomialTable,
    ChebyshevBound,
    QuantileBound,
    WaitBounds,
)


def at_most(count: int, n: int) -> Fraction:
    """Probability that at most ``count`` of n waits are above the quantile 0.95, exactly."""
    above = Fraction(1, 20)
    return sum(
        (comb(n, k) * above**k * (1 - above) ** (n - k) for k in range(count + 1)), Fraction(0)
    )


def test_the_shortest_histories_are_those_of_exact_binomial_sums() -> None:
    table = BinomialTable()
    # Wilks, Annals of Mathematical Statistics 12, 1941: known as 59, 93, 124, 153, 181, 208.
    assert [table.shortest(m) for m in range(6)] == [59, 93, 124, 153, 181, 208]
    assert table.shortest(0) == MINIMUM
    for above in (0, 1, 2, 9, 30, 60):
        n = table.shortest(above)
        assert at_most(above, n) <= Fraction(1, 20) < at_most(above, n - 1)


def test_other_quantiles_have_other_histories() -> None:
    median = BinomialTable(quantile=0.5, confidence=0.95)
    # 0.5 ** 5 = 0.031; (1 + 8) / 2 ** 8 = 0.035.
    assert [median.shortest(0), median.shortest(1)] == [5, 8]


def test_a_bound_is_the_order_statistic() -> None:
    random, table = Random(3), BinomialTable()
    bound = QuantileBound(table)
    waits_s: list[float] = []
    for _ in range(1500):
        wait_s = float(random.choice((0, 1, 5, round(random.lognormvariate(3, 2)))))
        waits_s.append(wait_s)
        bound.observe(wait_s)
        n = len(waits_s)
        if n < 59:
            assert bound.predict() is None
        elif n % 50 < 10 or n in (59, 92, 93):
            above = max(m for m in range(100) if table.shortest(m) <= n)
            assert bound.predict() == sorted(waits_s)[n - 1 - above]


def test_the_bound_covers_the_quantile_with_the_confidence() -> None:
    random, table = Random(11), BinomialTable()
    covered = 0
    for _ in range(400):
        bound = QuantileBound(table)
        for _ in range(200):
            bound.observe(random.random())
        covered += (bound.predict() or 0.0) >= 0.95
    assert 0.93 <= covered / 400 <= 1


def test_chebyshev_is_the_mean_and_nearly_five_deviations() -> None:
    random = Random(5)
    waits_s = [random.expovariate(0.01) for _ in range(100)]
    bound = ChebyshevBound()
    for n, wait_s in enumerate(waits_s, 1):
        bound.observe(wait_s)
        assert (bound.predict() is None) == (n < 59)
    assert bound.predict() == pytest.approx(fmean(waits_s) + 2 * sqrt(5) * pstdev(waits_s))


@pytest.mark.parametrize(("correlation", "run"), [row for row in RARE_RUNS if row[0] <= 0.8])
def test_rare_runs_of_a_correlated_normal_series(correlation: float, run: int) -> None:
    """The density of values above the quantile, carried from each value to the next."""
    normal, step = NormalDist(), 0.05
    low = normal.inv_cdf(0.95)
    values = [low + step * (i + 0.5) for i in range(round(4 / step))]
    scale = sqrt(1 - correlation**2)
    kernel = [
        [exp(-(((y - correlation * x) / scale) ** 2) / 2) / (scale * sqrt(2 * pi)) * step
         for x in values] for y in values
    ]  # fmt: skip
    density = [normal.pdf(x) for x in values]
    length, probability, before = 1, sum(density) * step, inf
    while length < run:
        before = probability
        density = [sum(k * f for k, f in zip(row, density, strict=True)) for row in kernel]
        length, probability = length + 1, sum(density) * step
    assert probability <= 0.05**3 * 1.01 < before


def test_rare_runs_by_autocorrelation() -> None:
    assert [rare_run(r) for r in (-1, 0, 0.01, 0.2, 0.75, 0.99, 1)] == [3, 3, 4, 4, 12, 189, 189]


def test_the_autocorrelation_of_a_series() -> None:
    random = Random(2)
    independent, correlated, constant = (Autocorrelation() for _ in range(3))
    value = 0.0
    for _ in range(20_000):
        value = 0.8 * value + random.gauss(0, 0.6)
        correlated.observe(value)
        independent.observe(random.gauss(5, 1))
        constant.observe(7.0)
    assert correlated.value() == pytest.approx(0.8, abs=0.02)
    assert independent.value() == pytest.approx(0, abs=0.02)
    assert constant.value() == 0


@pytest.mark.parametrize("name", BOUNDS)
def test_a_change_of_the_waits_trims_the_history(name: str) -> None:
    random, table = Random(7), BinomialTable()
    series = SinceChange(lambda: BOUNDS[name].make(table))
    for _ in range(2000):
        series.observe(random.uniform(0, 10))
    before_s, changes = series.predict(), series.changes
    for _ in range(MINIMUM + 10):
        series.observe(random.uniform(10_000, 20_000))
    assert series.changes > changes
    after_s = series.predict()
    assert before_s is not None
    assert after_s is not None
    assert before_s < 30 < 20_000 * 0.9 < after_s


def test_clusters_of_jobs_have_bounds_of_their_own() -> None:
    bounds = WaitBounds("bmbp")
    for _ in range(MINIMUM):
        bounds.observe(4, 1.0)
        bounds.observe(5, 2.0)
    assert [bounds.predict(cores) for cores in (1, 4, 5, 16, 17, 64, 65)] == [
        1.0, 1.0, 2.0, 2.0, None, None, None,
    ]  # fmt: skip
