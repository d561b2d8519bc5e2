"""Accuracy of predicted waits and bursts of submissions, by hand."""

from __future__ import annotations

from math import exp, nan
from random import Random

import pytest

from wfrun.engine.prediction.waits.accuracy import judge, judged_waits
from wfrun.engine.prediction.waits.bursts import burst_size, in_bursts


def test_waits_of_zero_are_counted_apart() -> None:
    waits_s = [99.0, 0.0, 0.0, 100.0, 100.0, 100.0, 100.0]
    predicted_s = [1.0, 0.0, 10.0, 0.0, 50.0, 100.4, nan]
    bursts = [False, True, False, True, False, False, True]
    found = judge(judged_waits(waits_s, predicted_s, bursts, 1))
    assert (found.jobs, found.unknown, found.waited) == (5, 1, 3 / 5)
    # Zero predicted as zero is right, zero for another is wrong, and another for zero is wrong.
    near = 100 / 100.4
    assert found.accuracy == pytest.approx((1 + 0 + 0 + 0.5 + near) / 5)
    assert found.accuracy_waited == pytest.approx((0 + 0.5 + near) / 3)
    assert found.error_s == pytest.approx((0 + 10 + 100 + 50 + 0.4) / 5)
    assert found.error_waited_s == pytest.approx((100 + 50 + 0.4) / 3)
    assert (found.under, found.perfect, found.over) == (2 / 5, 2 / 5, 1 / 5)
    assert (found.in_bursts, found.within_in_bursts, found.within_outside) == (2 / 5, 1 / 2, 2 / 3)


def test_without_a_prediction_there_is_no_accuracy() -> None:
    found = judge(judged_waits([1.0], [nan], [False], 0))
    assert (found.jobs, found.unknown, found.accuracy, found.within_outside) == (0, 1, None, None)


def test_burst_sizes_are_rare_numbers_of_random_arrivals() -> None:
    def at_least(count: int, mean: float) -> float:
        terms, term = 0.0, exp(-mean)
        for k in range(count):
            terms += term
            term *= mean / (k + 1)
        return 1 - terms

    for mean in (0.01, 0.3, 3.1, 40, 400):
        assert at_least(burst_size(mean), mean) <= 0.001 < at_least(burst_size(mean) - 1, mean)
    # The normal approximation goes on where the sum ends.
    assert burst_size(500) == pytest.approx(burst_size(500.1), rel=0.01)


def test_bursts_are_intervals_of_five_minutes() -> None:
    random = Random(1)
    steady_s = sorted(random.uniform(0, 300_000) for _ in range(1000))  # one an interval
    assert sum(in_bursts(steady_s)) <= 20
    burst_s = sorted([*steady_s, *(150_000 + i for i in range(50))])
    marked = [at_s for at_s, is_in in zip(burst_s, in_bursts(burst_s), strict=True) if is_in]
    assert {150_000 + i for i in range(50)} <= set(marked)
    assert len(marked) < 75
    assert in_bursts([]) == []
