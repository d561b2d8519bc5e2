"""Predictors of run times whose accuracy is measured on workload logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from wfrun.engine.prediction.auto import Auto
from wfrun.engine.prediction.classes import CLASSIFICATIONS
from wfrun.engine.prediction.estimates import (
    HISTORY_MODELS,
    ConstantFactor,
    MeanAccuracy,
    UniformHalves,
    UniformRange,
    UserEstimate,
    UserHistory,
)
from wfrun.engine.prediction.intervals import Intervals
from wfrun.engine.prediction.job import Predictor
from wfrun.engine.prediction.methods import METHODS

CHAIN = "chain"
"""Name of the classification that uses, for each job, the most specific of its classes with earlier
jobs."""
WINDOW = 5
"""Default number of recent run times that the models M1 to M8 use."""
FACTOR = 0.5
"""Constant of the model M10."""
_SEED = 0
"""Seed of the random draws of M11 and M12."""


class Candidate(NamedTuple):
    """A predictor to measure."""

    method: str
    classification: str | None
    """Name of the classification that selects earlier jobs; None: the method has its own rule."""
    make: Callable[[], Predictor] | None
    """Makes the predictor. None: the method uses a classification; one replay measures all such
    methods."""


class Own(NamedTuple):
    """A predictor that selects earlier jobs by its own rule."""

    make: Callable[[int], Predictor]
    """Makes the predictor. The argument is the window (number of recent run times) of M1 to M8;
    other predictors ignore it."""
    needs: tuple[str, ...]
    """Fields of `Job` that the log must state."""


def _with_intervals(_: int) -> Predictor:
    return Intervals(Auto())


_ESTIMATE = ("estimate_s",)
OWN: dict[str, Own] = {
    "auto": Own(_with_intervals, ()),
    "estimate": Own(lambda _: UserEstimate(), _ESTIMATE),
    **{
        name: Own(partial(UserHistory, model), ("owner", "estimate_s"))
        for name, model in HISTORY_MODELS.items()
    },
    "M9": Own(lambda _: MeanAccuracy(), _ESTIMATE),
    "M10": Own(lambda _: ConstantFactor(FACTOR), _ESTIMATE),
    "M11": Own(lambda _: UniformRange(_SEED), _ESTIMATE),
    "M12": Own(lambda _: UniformHalves(_SEED), _ESTIMATE),
}
"""Predictors that select earlier jobs by their own rules, by name: the automatic choice of the best
method so far, with intervals; the user's estimate; and the models of the JGC paper (section 6.2,
Table 5)."""

ALL_METHODS = (*METHODS, *OWN)
ALL_CLASSES = (*CLASSIFICATIONS, CHAIN)


def candidates(
    methods: Sequence[str],
    classifications: Sequence[str],
    missing: Sequence[str],
    window: int = WINDOW,
) -> Iterator[Candidate]:
    """Yield the methods with each classification, then the methods with their own rules. Skips
    methods and classifications that need a field in ``missing``, which the log lacks."""
    for name in classifications:
        if name == CHAIN or not set(CLASSIFICATIONS[name].needs) & set(missing):
            for method in methods:
                if method in METHODS:
                    yield Candidate(method, name, None)
    for method in methods:
        own = OWN.get(method)
        if own is not None and not set(own.needs) & set(missing):
            yield Candidate(method, None, partial(own.make, window))
