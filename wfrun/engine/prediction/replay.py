"""Predictions of the run times of past jobs, as they would have been made (thesis section 7.2.1).

"We go sequentially through the trace and we compute for every next job its predicted runtime …
based on the history consisting of the runtimes of the jobs of the same class that have submitted
and finished before the current job under consideration."
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from wfrun.engine.prediction.job import Job, Prediction, Predictor, is_plausible


class PastJob(NamedTuple):
    """A job that has ended. Times are seconds since any common moment."""

    job: Job
    submitted_s: float
    ended_s: float
    runtime_s: float


class Moment(NamedTuple):
    """The submission or the end of a past job."""

    past: PastJob
    is_end: bool


class PredictionOutcome(NamedTuple):
    """A prediction made when a job was submitted, with the actual run time of the job."""

    past: PastJob
    prediction: Prediction | None


def moments_of(jobs: Iterable[PastJob]) -> list[Moment]:
    """Return the submissions and ends in the order of time. At one time ends come before
    submissions; equal types are in the order of ``jobs``. Ends of jobs without a plausible run time
    are left out. The result serves any number of replays. Cost: a sort."""
    timed = []
    for number, past in enumerate(jobs):
        timed.append((past.submitted_s, 1, number, Moment(past, is_end=False)))
        if is_plausible(past.runtime_s):
            timed.append((past.ended_s, 0, number, Moment(past, is_end=True)))
    timed.sort(key=lambda item: item[:3])
    return [item[3] for item in timed]


def replay(moments: Sequence[Moment], predictor: Predictor) -> Iterator[PredictionOutcome]:
    """Predict each job when it is submitted, from the jobs that have ended by then. The outcomes
    are in the order of submission."""
    for past, is_end in moments:
        if is_end:
            predictor.observe(past.job, past.runtime_s)
        else:
            yield PredictionOutcome(past, predictor.predict(past.job))


def accuracy(predicted_s: float, actual_s: float) -> float:
    """The accuracy of a prediction, in [0, 1] (thesis, equation 7.1): the smaller of the two values
    divided by the larger. 1 if both are zero."""
    if predicted_s == actual_s:
        return 1.0
    return min(predicted_s, actual_s) / max(predicted_s, actual_s)
