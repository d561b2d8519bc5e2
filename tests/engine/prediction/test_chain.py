"""Predictors fall back to more general classes."""

from __future__ import annotations

import pytest

from wfrun.engine.prediction.job import Job
from wfrun.engine.prediction.registry import PREDICTORS, class_chain, make_predictor

JOB = Job("s", "ann", "sort", 4, 60.0)


@pytest.mark.parametrize(
    ("other", "runtime_s", "title"),
    [
        (JOB, 1.0, "last of (User + Application + Size) on Site"),
        (JOB._replace(application="join"), 2.0, "last of User on Site"),
        (JOB._replace(site="elsewhere"), 3.0, "last of User"),
        (JOB._replace(owner="bob"), 4.0, "last of Site"),
    ],
)
def test_the_most_specific_class_with_a_history_answers(
    other: Job, runtime_s: float, title: str
) -> None:
    chain = class_chain("last")
    chain.observe(other, runtime_s)
    found = chain.predict(JOB)
    assert found is not None
    assert (found.value_s, found.method, found.observations) == (runtime_s, title, 1)
    assert chain.predict(Job("nowhere", "eve")) is None


@pytest.mark.parametrize("name", PREDICTORS)
def test_every_predictor_of_the_registry_learns_a_constant(name: str) -> None:
    predictor = make_predictor(name)
    for _ in range(30):
        predictor.observe(JOB, 60.0)
    found = predictor.predict(JOB)
    assert found is not None
    assert found.value_s == pytest.approx(60.0)
