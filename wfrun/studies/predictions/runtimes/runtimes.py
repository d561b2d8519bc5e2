"""Thesis section 7.2: how accurate predictions of run times are."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

import msgspec

from wfrun.engine.prediction.classes import CLASSIFICATIONS, ByClass
from wfrun.engine.prediction.methods import METHODS
from wfrun.engine.prediction.registry import PREDICTORS, make_predictor
from wfrun.engine.prediction.replay import PredictionOutcome, accuracy, replay
from wfrun.studies.predictions.part import PartSetting
from wfrun.studies.predictions.workloads import jobs_of

QUICK_JOBS = 10_000
"""Maximum number of jobs of a workload in the quick study."""
GENERAL = ("site", "user", "user-site")
"""The classifications of Figures 7.2 to 7.4."""
SPECIFIC = "application"
"""The classification of Figure 7.5."""
CHAIN = "chain"
"""Stands for a predictor of `wfrun.engine.prediction.registry` that chooses the class of each job
itself, such as the most specific class with a history."""

ACCURACIES = tuple(step / 50 for step in range(51))
"""Points at which the distribution of the accuracy is kept."""
ERRORS_S = tuple(float(f"{10 ** (step / 6):.3g}") for step in range(31))
"""Points at which the distribution of the absolute error is kept: 1 to 100,000 s, six a decade."""

BURST_GAP_S = 120.0
"""Maximum time in seconds between consecutive submissions of one user at one site that belong to
one burst (A. Iosup et al., Euro-Par 2007, as in the study `bags`)."""


class RuntimeCell(msgspec.Struct, frozen=True, kw_only=True):
    """The predictions of one method under one classification on one workload."""

    workload: str
    jobs: int | None
    """Maximum number of jobs; None: all."""
    method: str
    classification: str


class RuntimeRow(RuntimeCell, frozen=True, kw_only=True):
    """Measures over the jobs with a prediction. The accuracy is that of eq. 7.1; errors are
    absolute."""

    predicted: int
    unknown: int
    """Number of jobs without a prediction, because no job of their class had ended."""
    accuracy: float
    accuracy_median: float
    error_s: float
    burst_jobs: int
    """Number of jobs that follow another job of their burst and have a prediction."""
    burst_same: float
    """Share of these jobs whose prediction is equal to that of the job before."""
    burst_accuracy: float
    other_accuracy: float
    """Mean accuracy over the jobs that are not in a burst, or begin one."""
    accuracy_shares: tuple[float, ...]
    """Share of the jobs whose accuracy is at most a value, for each of ACCURACIES."""
    error_shares: tuple[float, ...]
    """Share of the jobs whose error is at most a value, for each of ERRORS_S."""


def cells(setting: PartSetting) -> list[RuntimeCell]:
    """A cell for each method under each classification, and for each predictor that chooses classes
    itself."""
    limit = QUICK_JOBS if setting.quick else None
    kinds = [(method, c) for c in CLASSIFICATIONS for method in METHODS]
    kinds += [(name, CHAIN) for name in PREDICTORS]
    return [
        RuntimeCell(workload=w.label, jobs=limit, method=method, classification=classification)
        for w in setting.workloads
        for method, classification in kinds
    ]


def run(setting: PartSetting, cell: RuntimeCell) -> RuntimeRow:
    """Replay the workload. There are no predictions under a classification that needs a field which
    the workload lacks."""
    workload = next(w for w in setting.workloads if w.label == cell.workload)
    history = jobs_of(workload, cell.jobs).history
    if cell.classification == CHAIN:
        return measure(cell, replay(history.moments, make_predictor(cell.method)))
    if set(CLASSIFICATIONS[cell.classification].needs) & set(history.missing):
        return measure(cell, ())
    return measure(cell, replay(history.moments, ByClass(cell.method, cell.classification)))


class _Judged(NamedTuple):
    accuracy: float
    error_s: float
    in_burst: bool
    same: bool
    """Whether the prediction is equal to that of the job before in the burst."""


def measure(cell: RuntimeCell, outcomes: Iterable[PredictionOutcome]) -> RuntimeRow:
    """The measures of the outcomes, which are in the order of submission."""
    found = list(_judged(outcomes))
    judged = [one for one in found if one is not None]
    accuracies = sorted(j.accuracy for j in judged)
    errors = sorted(j.error_s for j in judged)
    burst = [j for j in judged if j.in_burst]
    return RuntimeRow(
        **msgspec.structs.asdict(cell),
        predicted=len(judged),
        unknown=len(found) - len(judged),
        accuracy=mean(accuracies),
        accuracy_median=median(accuracies) if judged else 0.0,
        error_s=mean(errors),
        burst_jobs=len(burst),
        burst_same=mean([float(j.same) for j in burst]),
        burst_accuracy=mean([j.accuracy for j in burst]),
        other_accuracy=mean([j.accuracy for j in judged if not j.in_burst]),
        accuracy_shares=shares(accuracies, ACCURACIES),
        error_shares=shares(errors, ERRORS_S),
    )


def _judged(outcomes: Iterable[PredictionOutcome]) -> Iterator[_Judged | None]:
    """Yield the judgement of each job; None for a job without a prediction."""
    latest: dict[Hashable, tuple[float, float | None]] = {}
    for past, prediction in outcomes:
        key = (past.job.owner, past.job.site)
        before = latest.get(key)
        value_s = None if prediction is None else prediction.value_s
        latest[key] = (past.submitted_s, value_s)
        if value_s is None:
            yield None
            continue
        actual_s = past.runtime_s
        in_burst = before is not None and past.submitted_s - before[0] <= BURST_GAP_S
        same = in_burst and before is not None and before[1] == value_s
        yield _Judged(accuracy(value_s, actual_s), abs(value_s - actual_s), in_burst, same)


def shares(ordered: Sequence[float], places: Sequence[float]) -> tuple[float, ...]:
    """For each place, the share of the values that are at most that place. The values must
    ascend."""
    if not ordered:
        return (0.0,) * len(places)
    # Rounded: the difference is not seen in a figure, and the file of results is kept small.
    return tuple(round(_at_most(ordered, place) / len(ordered), 4) for place in places)


def _at_most(ordered: Sequence[float], place: float) -> int:
    return bisect_left(ordered, place + 1e-9)


def mean(values: Sequence[float]) -> float:
    """The mean; 0 if there are no values."""
    return sum(values) / len(values) if values else 0.0
