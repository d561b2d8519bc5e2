"""Bounds of run times hold with their coverage."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random

import pytest

from tests.engine.prediction.corpus import history_of
from wfrun.engine.prediction.classes import ByClass
from wfrun.engine.prediction.intervals import COVERAGE, WINDOW, ClassBounds, Intervals
from wfrun.engine.prediction.job import Job, is_plausible
from wfrun.engine.prediction.registry import class_chain
from wfrun.engine.prediction.replay import replay
from wfrun.engine.prediction.run_times import JobClass, RunTimes

JOB = Job("s", "ann", "sort", 4)


def test_a_bound_is_an_order_statistic_half_way_to_one() -> None:
    bounds = ClassBounds(float(n) for n in range(1, 19))
    assert bounds.upper_s() is None  # 19 of 0.95 need 19
    assert bounds.upper_s(0.9) == 18.0
    bounds.observe(19.0)
    assert bounds.upper_s(0.9) == 19.0
    assert bounds.upper_s(0.5) == 15.0  # 0.75 of 20
    assert bounds.lower_s(0.5) == 5.0
    assert bounds.observations == 19


def test_the_window_moves() -> None:
    bounds = ClassBounds([1000.0] * WINDOW + [float(n % 7) for n in range(WINDOW)])
    assert bounds.observations == WINDOW
    assert bounds.upper_s(0.5) == 5.0
    assert bounds.upper_s() == 6.0


def test_misses_widen_the_margin_and_hits_reduce_it() -> None:
    bounds = ClassBounds([10.0] * 30)
    assert bounds.upper_s() == 10.0
    bounds.observe(11.0)
    widened_s = bounds.upper_s()
    assert widened_s is not None
    assert widened_s > 11.0 * 1.3
    for _ in range(200):
        bounds.observe(10.0)
    assert (bounds.lower_s(), bounds.upper_s()) == (10.0, 10.0)


def lognormal(random: Random, n: int) -> float:
    return random.lognormvariate(5.0, 1.0)


def drifting(random: Random, n: int) -> float:
    """Doubles within 200 jobs, and falls back every 1,000."""
    return random.lognormvariate(5.0, 0.3) * 2 ** (n % 1000 / 200)


def in_series(random: Random, n: int) -> float:
    """Ten jobs in a row are alike."""
    return Random(n // 10).lognormvariate(5.0, 2.0) * random.uniform(0.9, 1.1)


@pytest.mark.parametrize("series", [lognormal, drifting, in_series])
def test_the_stated_share_is_inside(series: Callable[[Random, int], float]) -> None:
    random, bounds = Random(1), ClassBounds()
    stated = below = above = 0
    for n in range(5000):
        runtime_s = series(random, n)
        upper_s, lower_s = bounds.upper_s(), bounds.lower_s()
        if upper_s is not None and lower_s is not None:
            stated += 1
            below += runtime_s < lower_s
            above += runtime_s > upper_s
        bounds.observe(runtime_s)
    assert stated > 4900
    assert above / stated <= 1 - COVERAGE
    assert below / stated <= 1 - COVERAGE


def test_a_class_with_few_run_times_takes_the_bounds_of_its_user() -> None:
    predictor = Intervals(ByClass("last", "application"))
    assert predictor.predict(JOB) is None
    for n in range(30):
        predictor.observe(JOB._replace(cores=n), 100.0 + n)
    found = predictor.predict(JOB)
    assert found is not None
    assert (found.value_s, found.observations) == (104.0, 1)
    assert found.low_s == 100.0
    assert 129.0 <= found.high_s < 11 * 129.0  # with the margin of a class that grows
    predictor.observe(JOB._replace(owner="bob"), 5.0)
    alone = predictor.predict(JOB._replace(owner="bob"))
    assert alone is not None
    assert (alone.low_s, alone.high_s) == (0.0, inf)


def test_an_interval_includes_its_prediction() -> None:
    predictor = Intervals(ByClass("last", "user"))
    for _ in range(30):
        predictor.observe(JOB, 100.0)
    predictor.observe(JOB._replace(site="elsewhere"), 7.0)  # another class of the bounds
    found = predictor.predict(JOB)
    assert found is not None
    assert (found.low_s, found.value_s, found.high_s) == (7.0, 7.0, 100.0)


def test_bounds_of_tasks_come_from_other_sites_by_their_speeds() -> None:
    times, kind = RunTimes(), JobClass("u", "dock", 1)
    for n in range(30):
        times.observe(kind, "slow", 129.0 - n, 1.0)
    for _ in range(WINDOW):  # the margins shrink
        times.observe(kind, "slow", 115.0, 1.0)
    for n in range(30):
        times.observe(kind, "slow", 129.0 if n == 5 else 100.0 if n == 9 else 115.0, 1.0)
    other = times.predict(JobClass("u", "other", 1), "slow", 1.0)
    assert other is not None
    assert (other.low_s, other.high_s) == (0.0, inf)
    found = times.predict(kind, "fast", 2.0)
    assert found is not None
    assert (found.low_s, found.value_s, found.high_s) == (50.0, 57.5, 64.5)
    times.observe(kind, "slow", 500.0, 1.0)
    longer = times.predict(kind, "slow", 1.0)
    assert longer is not None
    assert longer.high_s > 500.0


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["KTH-SP2", "LPC-EGEE"])
def test_upper_bounds_hold_on_real_logs(name: str) -> None:
    """As seen at submission: the jobs of a bag learn nothing from each other."""
    predictor, stated, above = Intervals(class_chain("last")), 0, 0
    for past, prediction in replay(history_of(name).moments, predictor):
        if prediction is not None and prediction.high_s < inf and is_plausible(past.runtime_s):
            stated += 1
            above += past.runtime_s > prediction.high_s
    assert stated > 20_000
    assert above / stated <= 1 - COVERAGE
