"""Predictions of runs: the errors of earlier predictions, and the interval that follows."""

from __future__ import annotations

import pytest

from wfrun.runners.experiments.forecast_runtimes import EarlierTasks, TaskClass

KIND = TaskClass("me", "blast", 1)
SPEEDS = {"slow": 0.5, "fast": 2.0}


def test_tasks_at_the_site_count_before_those_at_others() -> None:
    earlier = EarlierTasks({(KIND, "slow"): (40.0, 20.0)}, SPEEDS)
    here, is_here = earlier.predict(KIND, "slow") or (None, False)
    assert here is not None
    assert (here.value_s, here.observations, is_here) == (30, 2, True)
    there, is_here = earlier.predict(KIND, "fast") or (None, True)
    assert there is not None
    assert (there.value_s, is_here) == (7.5, False)
    assert earlier.predict(KIND._replace(cores=2), "slow") is None


def test_errors_of_earlier_predictions_are_relative() -> None:
    earlier = EarlierTasks({(KIND, "fast"): (10.0, 20.0, 30.0, 5.0)}, SPEEDS)
    assert earlier.ratios(KIND) == pytest.approx([20 / 10, 30 / 15, 5 / 25])
    assert earlier.ratios(TaskClass("me", "other", 1)) == []
