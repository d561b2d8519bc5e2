"""Predictors of run times by name, and chains of predictors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from wfrun.engine.prediction.auto import Auto
from wfrun.engine.prediction.classes import CLASSIFICATIONS, ByClass
from wfrun.engine.prediction.estimates import UserEstimate
from wfrun.engine.prediction.job import Job, Prediction, Predictor
from wfrun.engine.prediction.methods import METHODS


class Chain:
    """Answers with the prediction of the first predictor that has one. Every predictor observes all
    jobs. Cost: the sum of the costs of the predictors."""

    def __init__(self, predictors: Sequence[Predictor]) -> None:
        self._predictors = predictors

    def observe(self, job: Job, runtime_s: float) -> None:
        for predictor in self._predictors:
            predictor.observe(job, runtime_s)

    def predict(self, job: Job) -> Prediction | None:
        for predictor in self._predictors:
            found = predictor.predict(job)
            if found is not None:
                return found
        return None


def class_chain(method: str) -> Chain:
    """A method applied to the most specific class of a job that has a history: its application,
    else its user on the site, else its user, else its site."""
    return Chain([ByClass(method, name) for name in reversed(CLASSIFICATIONS)])


PREDICTORS: dict[str, Callable[[], Predictor]] = {
    **{name: partial(class_chain, name) for name in METHODS},
    "estimate": UserEstimate,
    "auto": Auto,
}
"""Run time predictors by name. The name of a method applies the method to the most specific class
of the job that has a history. ``estimate`` is the user's own estimate. ``auto`` (`Auto`) chooses
method and class by their accuracy so far."""


def make_predictor(name: str) -> Predictor:
    """A new predictor; ``name`` is a key of ``PREDICTORS``."""
    return PREDICTORS[name]()
