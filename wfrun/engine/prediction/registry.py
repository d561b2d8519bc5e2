"""Predictors of run times by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from wfrun.engine.prediction.auto import Auto
from wfrun.engine.prediction.chain import class_chain
from wfrun.engine.prediction.estimates import UserEstimate
from wfrun.engine.prediction.job import Predictor
from wfrun.engine.prediction.methods import METHODS

PREDICTORS: dict[str, Callable[[], Predictor]] = {
    **{name: partial(class_chain, name) for name in METHODS},
    "estimate": UserEstimate,
    "auto": Auto,
}
"""Predictors that choose the classes of jobs themselves, by name: each method applied to the most
specific class of a job that has a history, the user's own estimate, and the best so far."""


def make_predictor(name: str) -> Predictor:
    """A new predictor of this name in ``PREDICTORS``."""
    return PREDICTORS[name]()
