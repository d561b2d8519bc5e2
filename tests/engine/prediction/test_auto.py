"""The best method so far, and regression on sizes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tests.engine.prediction.corpus import history_of
from wfrun.engine.prediction.auto import Auto
from wfrun.engine.prediction.classes import CLASSIFICATIONS, ByClass
from wfrun.engine.prediction.estimates import (
    ESTIMATE_TITLE,
    HISTORY_MODELS,
    UserEstimate,
    UserHistory,
)
from wfrun.engine.prediction.job import Job, Prediction, Predictor, is_plausible
from wfrun.engine.prediction.methods import METHODS, AllMethods
from wfrun.engine.prediction.regression import LEAST, Regression, RegressionLine
from wfrun.engine.prediction.replay import accuracy, replay

JOB = Job("s", "ann", "sort", 4)


def predicted(predictor: Predictor, job: Job = JOB) -> Prediction:
    found = predictor.predict(job)
    assert found is not None
    return found


def test_all_methods_predict_what_each_does() -> None:
    random, together = Random(1), AllMethods()
    alone = [kind.make() for kind in METHODS.values()]
    for count in range(1, 40):
        runtime_s = random.expovariate(0.01)
        together.observe(runtime_s)
        for method in alone:
            method.observe(runtime_s)
        assert together.values_s == pytest.approx([method.predict() for method in alone])
        assert together.count == count


def alternating(n: int) -> float:
    return (100.0, 200.0)[n % 2]


def constant_but_for_outliers(n: int) -> float:
    return 5000.0 if n % 4 == 3 else 100.0


def falling(n: int) -> float:
    return 1e6 * 0.8**n


@pytest.mark.parametrize(
    ("series", "method"),
    [(alternating, "last2"), (constant_but_for_outliers, "sm"), (falling, "last")],
)
def test_the_most_accurate_method_is_chosen(series: Callable[[int], float], method: str) -> None:
    predictor = Auto()
    assert predictor.predict(JOB) is None
    for n in range(60):
        predictor.observe(JOB, series(n))
    assert predicted(predictor).method.startswith(METHODS[method].title)
    assert predicted(predictor).observations == 60


def test_another_class_is_chosen_where_it_predicts_better() -> None:
    """Ann's sizes change with each job, but all her jobs of one day take the same time."""
    predictor, random = Auto(), Random(1)
    for n in range(400):
        job = JOB._replace(cores=random.choice([1, 2, 4, 8]))
        predictor.observe(job, Random(n // 20).expovariate(0.01))
    assert CLASSIFICATIONS["application"].title not in predicted(predictor).method


def test_good_estimates_are_used_and_bad_ones_left() -> None:
    for factor, uses in ((1.05, True), (50.0, False)):
        predictor, random = Auto(), Random(1)
        for _ in range(60):
            runtime_s = random.lognormvariate(5.0, 1.0)
            predictor.observe(JOB._replace(estimate_s=factor * runtime_s), runtime_s)
        found = predicted(predictor, JOB._replace(estimate_s=60.0))
        assert (found.method == ESTIMATE_TITLE) == uses
        assert predicted(predictor).method != ESTIMATE_TITLE  # a job without one
    assert predicted(Auto(), JOB._replace(estimate_s=60.0)).value_s == 60.0


def test_classes_without_a_history_answer_from_others() -> None:
    predictor = Auto()
    for _ in range(30):
        predictor.observe(JOB, 100.0)
    for job in (
        JOB._replace(application="join"),
        JOB._replace(site="elsewhere"),
        JOB._replace(owner="bob"),
    ):
        assert predicted(predictor, job).value_s == pytest.approx(100.0)
    assert predictor.predict(Job("elsewhere", "bob")) is None


def test_run_times_of_zero_seconds_are_predicted() -> None:
    predictor = Auto()
    for _ in range(10):
        predictor.observe(JOB._replace(estimate_s=60.0), 0.0)
    assert predicted(predictor, JOB._replace(estimate_s=60.0)).value_s == 0.0


# Sizes


def test_a_line_brings_distant_points_nearer() -> None:
    line, random = RegressionLine(), Random(1)
    for n in range(200):
        x = random.uniform(0, 100)
        line.observe(x, 1e6 if n % 20 == 19 else 7 + 3 * x + random.uniform(-1, 1))
    assert line.at(0) == pytest.approx(7, abs=3)
    assert line.at(100) == pytest.approx(307, abs=5)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0])
def test_run_times_follow_sizes(exponent: float) -> None:
    predictor, random = Regression(), Random(1)
    for n in range(60):
        assert (predictor.predict(JOB._replace(input_bytes=5e6)) is None) == (n < LEAST)
        size = random.uniform(1e6, 1e7)
        noise = random.uniform(0.95, 1.05)
        predictor.observe(JOB._replace(input_bytes=size), 100 * (size / 1e6) ** exponent * noise)
    for size in (2e6, 5e6, 9e6):
        found = predicted(predictor, JOB._replace(input_bytes=size))
        assert found.value_s == pytest.approx(100 * (size / 1e6) ** exponent, rel=0.1)
        assert found.observations == 60
    for nothing in (None, 0.0):
        assert predictor.predict(JOB._replace(input_bytes=nothing)) is None


def test_equal_sizes_say_nothing() -> None:
    predictor = Regression()
    for n in range(30):
        predictor.observe(JOB._replace(input_bytes=1e6), 100.0 + n)
    assert predictor.predict(JOB._replace(input_bytes=1e6)) is None


def test_regression_is_chosen_only_where_sizes_matter() -> None:
    for exponent, uses in ((1.0, True), (0.0, False)):
        predictor, random = Auto(), Random(1)
        for n in range(100):
            size = random.uniform(1e6, 1e8)
            runtime_s = 100 * (size / 1e6) ** exponent if exponent else (100.0, 300.0)[n // 10 % 2]
            predictor.observe(JOB._replace(input_bytes=size), runtime_s)
        found = predicted(predictor, JOB._replace(input_bytes=5e7))
        assert (found.method == Regression.title) == uses
        assert predicted(predictor).method != Regression.title


# Real logs


def accuracies(name: str, predictor: Predictor) -> dict[int, float]:
    """The accuracy of each job that was predicted, by its place in the log."""
    return {
        number: accuracy(prediction.value_s, past.runtime_s)
        for number, (past, prediction) in enumerate(replay(history_of(name).moments, predictor))
        if prediction is not None and is_plausible(past.runtime_s)
    }


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["KTH-SP2", "SDSC-SP2"])
def test_it_is_as_accurate_as_the_best_single_method(name: str) -> None:
    """Within 2% on the jobs that the other one predicts, and on all jobs."""
    auto = accuracies(name, Auto())
    singles: list[Predictor] = [
        ByClass(method, classification) for method in METHODS for classification in CLASSIFICATIONS
    ]
    best_history = UserHistory(HISTORY_MODELS["M6"], 1)
    for single in (*singles, UserEstimate(), best_history):
        other = accuracies(name, single)
        assert set(other) <= set(auto)
        assert sum(auto[number] for number in other) >= 0.98 * sum(other.values())
        assert sum(auto.values()) >= 0.98 * sum(other.values())
