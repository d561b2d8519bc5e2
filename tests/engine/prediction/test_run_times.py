"""Predictions of tasks at sites of different speeds by ``auto``."""

from __future__ import annotations

import pytest

from wfrun.engine.capabilities.estimates.queue_estimates import ForeignRuntimes
from wfrun.engine.prediction.estimates import ESTIMATE_TITLE
from wfrun.engine.prediction.job import Job
from wfrun.engine.prediction.regression import Regression
from wfrun.engine.prediction.run_times import Details, JobClass, make_run_times

KIND = JobClass("u", "dock", 1)


def test_auto_predicts_at_the_speed_of_each_site() -> None:
    times = make_run_times("auto")
    assert times.predict(KIND, "slow", 1.0) is None
    for _ in range(30):
        times.observe(KIND, "slow", 100.0, 1.0)
        times.observe(KIND, "fast", 25.0, 4.0)
    assert times.predict_s(KIND, "slow", 1.0) == pytest.approx(100.0)
    assert times.predict_s(KIND, "fast", 4.0) == pytest.approx(25.0)
    elsewhere = times.predict(KIND, "new", 2.0)
    assert elsewhere is not None
    assert elsewhere.value_s == pytest.approx(50.0)
    assert "other sites" in elsewhere.method
    another = times.predict(JobClass("u", "join", 1), "fast", 4.0)
    assert another is not None  # from the user's tasks there
    assert another.value_s == pytest.approx(25.0)
    assert (another.low_s, another.high_s) == (0.0, float("inf"))


def test_auto_uses_sizes_and_walltimes_of_documents() -> None:
    times = make_run_times("auto")
    for n in range(60):
        size = 1e6 * (1 + n * 7 % 13)
        times.observe(KIND, "fast", size / 1e6, 4.0, Details(None, size))
    found = times.predict(KIND, "fast", 4.0, Details(None, 9.5e6))
    assert found is not None
    assert found.method == Regression.title
    assert found.value_s == pytest.approx(9.5, rel=0.05)
    assert found.high_s < 100
    requested = make_run_times("auto").predict(KIND, "fast", 4.0, Details(60.0, None))
    assert requested is not None
    assert (requested.value_s, requested.method) == (60.0, ESTIMATE_TITLE)


def test_other_users_jobs_are_predicted_by_their_cores() -> None:
    one, wide, other = (Job("", "", cores=cores) for cores in (1, 64, 8))
    foreign, plain = ForeignRuntimes("auto"), ForeignRuntimes("last2")
    assert foreign.predict_s(one) is None
    assert plain.predict_s(one) is None
    for _ in range(30):
        for runtimes in (foreign, plain):
            runtimes.observe(one, 100.0)
            runtimes.observe(wide, 5000.0)
    assert (foreign.predict_s(one), foreign.predict_s(wide)) == (100.0, 5000.0)
    assert (plain.predict_s(one), plain.predict_s(wide)) == (100.0, 5000.0)
    assert plain.predict_s(other) == 2550.0  # of all, the last two
