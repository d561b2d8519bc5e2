"""Jobs and predictions: the input and the output of predictors."""

from __future__ import annotations

from math import inf
from typing import NamedTuple, Protocol, runtime_checkable

MAX_RUNTIME_S = 10 * 365.25 * 86_400.0
"""Maximum plausible run time in seconds: ten years."""


class Job(NamedTuple):
    """The known properties of a job, or of a task at a site, at its submission."""

    site: str
    owner: str
    application: str = ""
    cores: int = 1
    estimate_s: float | None = None
    """Run time requested by the job's user, in seconds; None: no request."""
    input_bytes: float | None = None
    """Total size of the inputs of the job; None: unknown."""


class Prediction(NamedTuple):
    """An expected run time, with an interval from ``low_s`` to ``high_s``, in seconds. The interval
    is (0, inf) if it is unknown."""

    value_s: float
    method: str
    """How the prediction was made, as text for users, such as ``last of User on Site``."""
    observations: int
    """Number of run times from which the prediction was made."""
    low_s: float = 0.0
    high_s: float = inf


class Predictor(Protocol):
    """Predicts run times of jobs from the run times of jobs that have ended."""

    def observe(self, job: Job, runtime_s: float) -> None:
        """Observe a job that has ended. The run time is plausible (`is_plausible`)."""

    def predict(self, job: Job) -> Prediction | None:
        """The expected run time of a job that is submitted now; None if unknown."""


@runtime_checkable
class ValuePredictor(Predictor, Protocol):
    """A predictor that also answers without an interval, which costs less."""

    def predict_s(self, job: Job) -> float | None:
        """Return the value of the answer of ``predict``, in seconds; None if unknown."""


def is_plausible(runtime_s: float) -> bool:
    """Return whether predictors may observe a run time: positive and at most ``MAX_RUNTIME_S``.
    Zero, negative, infinite and absurd run times come from lost records and wrong clocks."""
    return 0.0 < runtime_s <= MAX_RUNTIME_S
