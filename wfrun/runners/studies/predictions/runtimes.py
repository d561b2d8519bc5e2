"""Thesis section 7.2: how accurate predictions of run times are."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from heapq import heappop, heappush
from statistics import median
from typing import NamedTuple

import msgspec

from wfrun.engine.prediction.classes import CLASSIFICATIONS, ByClass
from wfrun.engine.prediction.job import Job
from wfrun.engine.prediction.methods import METHODS
from wfrun.runners.studies.predictions.part import Setting
from wfrun.runners.studies.predictions.workloads import History, as_job, history_of

QUICK_JOBS = 10_000
"""Maximum number of jobs of a workload in the quick study."""
GENERAL = ("site", "user", "user-site")
"""The classifications of Figures 7.2 to 7.4."""
SPECIFIC = "application"
"""That of Figure 7.5."""

ACCURACIES = tuple(step / 50 for step in range(51))
"""Places at which the distribution of the accuracy is kept."""
ERRORS_S = tuple(float(f"{10 ** (step / 6):.3g}") for step in range(31))
"""Places at which that of the absolute error is kept: 1 to 100,000 s, six a decade."""

BURST_GAP_S = 120.0
"""Jobs of one user at one site are a burst if each is submitted at most this long after the one
before (A. Iosup et al., Euro-Par 2007, as in the study `bags`)."""


class RuntimeCell(msgspec.Struct, frozen=True, kw_only=True):
    """The predictions of one method under one classification on one workload."""

    workload: str
    jobs: int | None
    """Maximum number of jobs; None: all."""
    method: str
    classification: str


class RuntimeRow(RuntimeCell, frozen=True, kw_only=True):
    """Accuracy is that of eq. 7.1, errors are absolute, both of the jobs with a prediction."""

    predicted: int
    unknown: int
    """Number of jobs without a prediction, since none of their class had ended."""
    accuracy: float
    accuracy_median: float
    error_s: float
    burst_jobs: int
    """Number of jobs that follow another one of their burst and have a prediction."""
    burst_same: float
    """Share of them whose prediction is that of the job before."""
    burst_accuracy: float
    other_accuracy: float
    """Of the jobs that are not in a burst, or begin one."""
    accuracy_shares: tuple[float, ...]
    """Share of the jobs with an accuracy of at most each of ACCURACIES."""
    error_shares: tuple[float, ...]
    """Share of the jobs with an error of at most each of ERRORS_S."""


def cells(setting: Setting) -> list[RuntimeCell]:
    """Each method under each classification."""
    limit = QUICK_JOBS if setting.quick else None
    return [
        RuntimeCell(workload=w.label, jobs=limit, method=method, classification=classification)
        for w in setting.workloads
        for classification in CLASSIFICATIONS
        for method in METHODS
    ]


def run(setting: Setting, cell: RuntimeCell) -> RuntimeRow:
    """Replay the workload. Without its applications none of its jobs has a prediction."""
    workload = next(w for w in setting.workloads if w.label == cell.workload)
    history = history_of(workload, cell.jobs)
    if cell.classification == SPECIFIC and not history.has_applications:
        return measure(cell, [None] * len(history.jobs), history)
    return measure(cell, replayed(history, cell), history)


def replayed(history: History, cell: RuntimeCell) -> list[float | None]:
    """The prediction of each job, made when it is submitted from those that had ended."""
    predictor = ByClass(cell.method, cell.classification)
    found: list[float | None] = []
    running: list[tuple[float, int, Job, float]] = []
    for number, logged in enumerate(history.jobs):
        while running and running[0][0] <= logged.submit_s:
            _, _, ended, runtime_s = heappop(running)
            predictor.observe(ended, runtime_s)
        job = as_job(logged)
        prediction = predictor.predict(job)
        found.append(None if prediction is None else prediction.value_s)
        runtime_s = logged.runtime_s or 0.0
        end_s = logged.submit_s + (logged.wait_s or 0.0) + runtime_s
        heappush(running, (end_s, number, job, runtime_s))
    return found


def accuracy(predicted_s: float, actual_s: float) -> float:
    """Equation 7.1: the smaller over the larger; 1 is perfect."""
    if predicted_s == actual_s:
        return 1.0
    return min(predicted_s, actual_s) / max(predicted_s, actual_s)


class _Judged(NamedTuple):
    accuracy: float
    error_s: float
    in_burst: bool
    same: bool
    """Whether the prediction is that of the job before in the burst."""


def measure(cell: RuntimeCell, predictions: Sequence[float | None], history: History) -> RuntimeRow:
    judged = list(_judged(predictions, history))
    accuracies = sorted(j.accuracy for j in judged)
    errors = sorted(j.error_s for j in judged)
    burst = [j for j in judged if j.in_burst]
    return RuntimeRow(
        **msgspec.structs.asdict(cell),
        predicted=len(judged),
        unknown=len(predictions) - len(judged),
        accuracy=_mean(accuracies),
        accuracy_median=median(accuracies) if judged else 0.0,
        error_s=_mean(errors),
        burst_jobs=len(burst),
        burst_same=_mean([float(j.same) for j in burst]),
        burst_accuracy=_mean([j.accuracy for j in burst]),
        other_accuracy=_mean([j.accuracy for j in judged if not j.in_burst]),
        accuracy_shares=_shares(accuracies, ACCURACIES),
        error_shares=_shares(errors, ERRORS_S),
    )


def _judged(predictions: Sequence[float | None], history: History) -> Iterator[_Judged]:
    latest: dict[Hashable, tuple[float, float | None]] = {}
    for job, value_s in zip(history.jobs, predictions, strict=True):
        key = (job.user, as_job(job).site)
        before = latest.get(key)
        latest[key] = (job.submit_s, value_s)
        if value_s is None:
            continue
        actual_s = job.runtime_s or 0.0
        in_burst = before is not None and job.submit_s - before[0] <= BURST_GAP_S
        same = in_burst and before is not None and before[1] == value_s
        yield _Judged(accuracy(value_s, actual_s), abs(value_s - actual_s), in_burst, same)


def _shares(ordered: Sequence[float], places: Sequence[float]) -> tuple[float, ...]:
    """Share of the ascending values that is at most each place."""
    if not ordered:
        return (0.0,) * len(places)
    # Rounded: the difference is not seen in a figure, and the file of results is kept small.
    return tuple(round(_at_most(ordered, place) / len(ordered), 4) for place in places)


def _at_most(ordered: Sequence[float], place: float) -> int:
    return bisect_left(ordered, place + 1e-9)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
