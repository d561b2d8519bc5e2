"""Accuracy of predictions on logs: the replay of all methods together is that of each."""

from __future__ import annotations

from random import Random

import pytest

from wfrun.engine.prediction.classes import CLASSIFICATIONS, ByClass
from wfrun.engine.prediction.methods import METHODS
from wfrun.engine.prediction.registry import class_chain
from wfrun.parsers.logs import LoggedJob
from wfrun.runners.forecast.log_accuracy import LogHistory, accuracies, log_history
from wfrun.runners.forecast.log_predictors import CHAIN, Candidate, candidates


@pytest.fixture(scope="module")
def history() -> LogHistory:
    random = Random(1)
    jobs = [
        LoggedJob(
            id=number, submit_s=30.0 * number, wait_s=random.choice((0.0, 300.0)),
            runtime_s=random.lognormvariate(5, 1), requested_processors=random.choice((1, 4)),
            user=random.randrange(4), application=random.randrange(3), site=random.choice("ab"),
        )
        for number in range(400)
    ]  # fmt: skip
    return log_history(jobs, is_grid=True)


@pytest.mark.parametrize("classification", [*CLASSIFICATIONS, CHAIN])
def test_all_methods_together(history: LogHistory, classification: str) -> None:
    together = list(accuracies(history, candidates(tuple(METHODS), [classification], ())))
    single = [
        Candidate(
            method,
            classification,
            lambda method=method: (  # type: ignore[misc]
                class_chain(method) if classification == CHAIN else ByClass(method, classification)
            ),
        )
        for method in METHODS
    ]
    for one, other in zip(together, accuracies(history, single), strict=True):
        assert (one.method, one.unknown) == (other.method, other.unknown)
        assert one.accuracy == pytest.approx(other.accuracy)
        assert one.median_error_s == pytest.approx(other.median_error_s)


def test_what_a_log_does_not_state(history: LogHistory) -> None:
    assert history.missing == ["estimate_s"]
    methods = {
        each.method for each in candidates(("last", "auto", "M2"), ["site"], history.missing)
    }
    assert methods == {"last", "auto"}
