"""Replays of logs: what a prediction is made from, and its accuracy."""

from __future__ import annotations

import pytest

from wfrun.engine.prediction.classes import ByClass
from wfrun.engine.prediction.job import Job
from wfrun.engine.prediction.replay import PastJob, accuracy, moments_of, replay

MINE = Job("alpha", "me")


def past(submitted_s: float, waited_s: float, runtime_s: float, job: Job = MINE) -> PastJob:
    return PastJob(job, submitted_s, submitted_s + waited_s + runtime_s, runtime_s)


def predicted(jobs: list[PastJob], method: str = "last") -> list[float | None]:
    outcomes = list(replay(moments_of(jobs), ByClass(method, "user")))
    assert [outcome.past for outcome in outcomes] == sorted(jobs, key=lambda job: job.submitted_s)
    return [each.prediction and each.prediction.value_s for each in outcomes]


def test_a_prediction_knows_only_what_has_ended() -> None:
    jobs = [past(0, 0, 100), past(10, 0, 20), past(29, 0, 1), past(30, 5, 7), past(100, 0, 9)]
    # At 30 the jobs of 10 (ends at 30) and 29 (ends at 30) have ended, in this order; at 100 also
    # that of 30 (ends at 42), and that of 0 (ends at 100).
    assert predicted(jobs) == [None, None, None, 1, 100]


def test_waits_delay_what_is_known() -> None:
    assert predicted([past(0, 50, 10), past(59, 0, 1), past(60, 0, 1)]) == [None, None, 1]
    assert predicted([past(0, 50, 10), past(60, 0, 1)]) == [None, 10]


def test_implausible_run_times_are_not_observed() -> None:
    jobs = [past(0, 0, 5), past(6, 0, 0), past(7, 0, 1e12), past(8, 0, 1)]
    assert predicted(jobs) == [None, 5, 5, 5]


def test_logs_out_of_order_are_sorted() -> None:
    assert predicted([past(60, 0, 1), past(0, 0, 10)]) == [None, 10]


def test_a_replay_can_be_repeated() -> None:
    moments = moments_of([past(0, 0, 10), past(10, 0, 20), past(30, 0, 1)])
    first, second = (list(replay(moments, ByClass("last2", "user"))) for _ in range(2))
    assert first == second
    assert [each.prediction and each.prediction.value_s for each in first] == [None, 10, 15]


@pytest.mark.parametrize(
    ("predicted_s", "actual_s", "expected"),
    [(10, 10, 1), (20, 10, 0.5), (10, 40, 0.25), (0, 0, 1), (0, 5, 0)],
)
def test_accuracy(predicted_s: float, actual_s: float, expected: float) -> None:
    """Thesis, equation 7.1."""
    assert accuracy(predicted_s, actual_s) == expected
