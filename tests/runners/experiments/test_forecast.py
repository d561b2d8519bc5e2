"""Predictions of runs: what earlier tasks say of a class."""

from __future__ import annotations

from math import inf

from wfrun.engine.prediction.run_times import NO_DETAILS, Details, JobClass
from wfrun.runners.forecast.forecast_runtimes import EarlierTasks

KIND = JobClass("me", "blast", 1)
SPEEDS = {"slow": 0.5, "fast": 2.0}


def ran(kind: JobClass, site: str, runtime_s: float) -> tuple[JobClass, str, float, Details]:
    return kind, site, runtime_s, NO_DETAILS


def test_tasks_at_the_site_count_before_those_at_others() -> None:
    earlier = EarlierTasks([ran(KIND, "slow", 40.0), ran(KIND, "slow", 20.0)], SPEEDS)
    here, is_here = earlier.predict(KIND, "slow") or (None, False)
    assert here is not None
    assert (here.value_s, here.observations, is_here) == (30, 2, True)
    there, is_here = earlier.predict(KIND, "fast") or (None, True)
    assert there is not None
    assert (there.value_s, is_here) == (7.5, False)
    assert earlier.predict(KIND._replace(cores=2), "slow") is None


def test_run_times_are_compared_on_the_reference_processor() -> None:
    earlier = EarlierTasks([ran(KIND, "fast", 10.0), ran(KIND, "slow", 40.0)], SPEEDS)
    assert earlier.reference_s(KIND) == [20, 20]
    assert earlier.reference_s(JobClass("me", "other", 1)) == []


def test_enough_earlier_tasks_give_an_interval() -> None:
    few, many = (
        EarlierTasks([ran(KIND, "fast", 10.0 + n % 5) for n in range(count)], SPEEDS)
        for count in (10, 40)
    )
    for earlier, is_bounded in ((few, False), (many, True)):
        for site, speed in (("fast", 1.0), ("slow", 4.0)):
            found, _ = earlier.predict(KIND, site) or (None, False)
            assert found is not None
            assert (found.high_s < inf) == is_bounded
            if is_bounded:
                assert found.low_s <= 10 * speed <= found.value_s <= 14 * speed <= found.high_s
