"""Upper bounds of run times: their coverage, and what they learn from misses."""

from __future__ import annotations

from random import Random

import pytest

from wfrun.engine.prediction.upper_bounds import (
    COVERAGE,
    MIN_MARGIN,
    MIN_OBSERVATIONS,
    MISS_MARGIN,
    WINDOW,
    UpperBound,
)


def bound_of(*runtimes_s: float) -> UpperBound:
    bound = UpperBound()
    for runtime_s in runtimes_s:
        bound.observe(runtime_s)
    return bound


def test_too_few_run_times_have_no_bound() -> None:
    assert bound_of(*[10.0] * (MIN_OBSERVATIONS - 1)).bound_s() is None
    assert bound_of(*[10.0] * MIN_OBSERVATIONS).bound_s() == MIN_MARGIN * 10


def test_the_quantile_is_the_largest_of_the_fewest_run_times() -> None:
    assert bound_of(*range(1, MIN_OBSERVATIONS + 1)).quantile_s == MIN_OBSERVATIONS


@pytest.mark.parametrize("seed", range(3))
def test_the_quantile_covers_its_share_of_any_distribution(seed: int) -> None:
    """Heavy tails included."""
    random, covered, count = Random(seed), 0, 4000
    bound = bound_of(*[random.lognormvariate(3, 2) for _ in range(WINDOW)])
    for _ in range(count):
        runtime_s = random.lognormvariate(3, 2)
        covered += runtime_s <= (bound.quantile_s or 0.0)
        bound.observe(runtime_s)
    assert covered / count >= COVERAGE - 0.015


def test_a_miss_raises_the_margin_until_it_leaves_the_window() -> None:
    bound = bound_of(*[10.0] * 30)
    assert bound.margin == MIN_MARGIN
    bound.observe(40.0)
    assert bound.margin == MIN_MARGIN + MISS_MARGIN
    assert bound.bound_s() == bound.margin * 40
    for _ in range(WINDOW):
        bound.observe(10.0)
    assert bound.bound_s() == MIN_MARGIN * 10


def test_a_killed_job_doubles_the_bound() -> None:
    bound = bound_of(*[10.0] * 30)
    bound.miss(300.0)
    assert bound.bound_s() == 600.0
