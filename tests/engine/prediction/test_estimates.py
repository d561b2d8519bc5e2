"""The models of JGC paper, Table 5, on histories computed by hand."""

from __future__ import annotations

import pytest

from wfrun.engine.prediction.estimates import (
    HISTORY_MODELS,
    ConstantFactor,
    MeanAccuracy,
    UniformHalves,
    UniformRange,
    UserEstimate,
    UserHistory,
)
from wfrun.engine.prediction.job import Job, Predictor

ENDED = [
    # owner, cores, estimate, run time
    ("ann", 4, 100.0, 10.0),
    ("bob", 4, 100.0, 77.0),
    ("ann", 4, 200.0, 20.0),
    ("ann", 8, 100.0, 30.0),
    ("ann", 4, 100.0, 50.0),
]
NEXT = Job("s", "ann", "", 4, 100.0)
SAME = {
    # The run times of jobs of the same user that match the next one, the oldest first.
    "M1": [10, 20, 30, 50],
    "M2": [10, 30, 50],
    "M3": [10, 20, 50],
    "M4": [10, 50],
}
SAME |= {f"M{number + 4}": SAME[f"M{number}"] for number in (1, 2, 3, 4)}


def value_s(predictor: Predictor, job: Job = NEXT) -> float | None:
    found = predictor.predict(job)
    return None if found is None else found.value_s


def fed(predictor: Predictor) -> Predictor:
    for owner, cores, estimate, runtime_s in ENDED:
        predictor.observe(Job("s", owner, "", cores, estimate), runtime_s)
    return predictor


@pytest.mark.parametrize("window", range(1, 11))
@pytest.mark.parametrize("name", HISTORY_MODELS)
def test_the_window_of_matching_jobs_is_averaged(name: str, window: int) -> None:
    matching = SAME[name]
    used = matching[-window:]
    expected_s = sum(used) / len(used)
    if HISTORY_MODELS[name].is_recent and len(matching) < window:
        expected_s = 100.0  # the user's estimate
    assert value_s(fed(UserHistory(HISTORY_MODELS[name], window))) == pytest.approx(expected_s)


def test_a_history_model_names_its_window_and_what_it_used() -> None:
    found = fed(UserHistory(HISTORY_MODELS["M8"], 3)).predict(NEXT)
    assert found is not None
    assert (found.method, found.observations) == ("H_3_size&p'", 2)


@pytest.mark.parametrize("name", HISTORY_MODELS)
def test_a_new_user_gets_the_estimate(name: str) -> None:
    predictor = fed(UserHistory(HISTORY_MODELS[name], 2))
    assert value_s(predictor, Job("s", "eve", "", 4, 60.0)) == 60.0
    assert value_s(predictor, Job("s", "eve", "", 4)) is None


def test_constants_scale_the_estimate() -> None:
    assert value_s(UserEstimate()) == 100.0
    assert value_s(ConstantFactor(0.25)) == 25.0
    assert value_s(MeanAccuracy()) == 100.0
    # Accuracies 0.1, 0.77, 0.1, 0.3, 0.5.
    assert value_s(fed(MeanAccuracy())) == pytest.approx(100 * 1.77 / 5)


def test_uniform_models_draw_between_the_bounds_of_the_log() -> None:
    for kind, low_s, high_s in (
        (UniformRange, 10.0, 77.0),
        # The middle of 0.1, 0.1, 0.3, 0.5, 0.77 belongs to both halves.
        (UniformHalves, 50 / 3, 157 / 3),
    ):
        draws = [value_s(predictor) for predictor in [fed(kind(1))] for _ in range(2000)]
        again = [value_s(predictor) for predictor in [fed(kind(1))] for _ in range(2000)]
        assert draws == again
        found = [draw for draw in draws if draw is not None]
        assert len(found) == 2000
        assert low_s <= min(found) < low_s + 1
        assert high_s - 1 < max(found) <= high_s


def test_the_halves_of_an_even_log() -> None:
    predictor = UniformHalves(1)
    for runtime_s in (40.0, 10.0, 30.0, 20.0):
        predictor.observe(NEXT, runtime_s)
    draws = [value_s(predictor) or 0.0 for _ in range(2000)]
    assert min(draws) == pytest.approx(15.0, abs=0.5)
    assert max(draws) == pytest.approx(35.0, abs=0.5)


def test_estimates_that_mean_nothing_are_left_out() -> None:
    for predictor in (MeanAccuracy(), UniformRange(1), UniformHalves(1), UserEstimate()):
        for nothing in (None, 0.0, -1.0):
            job = NEXT._replace(estimate_s=nothing)
            predictor.observe(job, 5.0)
            assert predictor.predict(job) is None
        assert value_s(predictor) == 100.0
