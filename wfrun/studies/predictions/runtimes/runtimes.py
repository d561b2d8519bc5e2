"""Thesis section 7.2: how accurate predictions of run times are."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from statistics import median
from typing import NamedTuple

import msgspec

from wfrun.engine.prediction.classes import CLASSIFICATIONS
from wfrun.engine.prediction.methods import METHODS, AllMethods
from wfrun.engine.prediction.registry import PREDICTORS, make_predictor
from wfrun.engine.prediction.replay import PastJob, accuracy, replay
from wfrun.studies.predictions.part import PartSetting
from wfrun.studies.predictions.workloads import Workload, jobs_of

QUICK_JOBS = 10_000
"""Maximum number of jobs of a workload in the quick study."""
GENERAL = ("site", "user", "user-site")
"""The classifications of Figures 7.2 to 7.4."""
SPECIFIC = "application"
"""The classification of Figure 7.5."""
CHAIN = "chain"
"""Value of `RuntimeCell.classification` for predictors of `wfrun.engine.prediction.registry` that
choose the class of each job themselves, such as the most specific class with a history."""

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
    """Number of jobs with a prediction that follow another job of their burst."""
    burst_same: float
    """Share of the ``burst_jobs`` whose prediction is equal to that of the preceding job."""
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
    found = _replayed(workload, cell.jobs)
    if cell.classification == CHAIN:
        return measure(cell, found, _chained(workload, cell, found))
    history = jobs_of(workload, cell.jobs).history
    if set(CLASSIFICATIONS[cell.classification].needs) & set(history.missing):
        return measure(cell, _NOTHING, ())
    number = list(METHODS).index(cell.method)
    values_s = found.values_s[cell.classification]
    return measure(cell, found, [one[number] if one else None for one in values_s])


class _Replayed(NamedTuple):
    """A workload and the predictions of all methods, in the order of submission."""

    runtimes_s: Sequence[float]
    before: Sequence[int]
    """For each job, the index of the preceding job of its burst; -1 for the first job of a burst
    and for a job in no burst."""
    values_s: Mapping[str, Sequence[tuple[float, ...]]]
    """By classification, the predictions of each job, one for each method in the order of METHODS;
    empty if the job's class has no history."""


_NOTHING = _Replayed((), (), {})


@lru_cache(maxsize=1)  # the next cell often has the same
def _replayed(workload: Workload, jobs: int | None) -> _Replayed:
    """Replay a workload with all methods under all classifications at once."""
    moments = jobs_of(workload, jobs).history.moments
    values_s: dict[str, list[tuple[float, ...]]] = {name: [] for name in CLASSIFICATIONS}
    for name, kind in CLASSIFICATIONS.items():
        series: dict[Hashable, AllMethods] = {}
        of_class = values_s[name]
        for past, is_end in moments:
            key = kind.key(past.job)
            one = series.get(key)
            if not is_end:
                of_class.append(() if one is None else one.values_s)
                continue
            if one is None:
                one = series[key] = AllMethods()
            one.observe(past.runtime_s)
    submitted = [past for past, is_end in moments if not is_end]
    return _Replayed([past.runtime_s for past in submitted], _before(submitted), values_s)


def _before(submitted: Sequence[PastJob]) -> list[int]:
    """For each job, the index of the preceding job of its burst; -1 if there is none."""
    latest: dict[Hashable, tuple[float, int]] = {}
    found = []
    for number, past in enumerate(submitted):
        key = (past.job.owner, past.job.site)
        before = latest.get(key)
        latest[key] = (past.submitted_s, number)
        in_burst = before is not None and past.submitted_s - before[0] <= BURST_GAP_S
        found.append(before[1] if before is not None and in_burst else -1)
    return found


def _chained(workload: Workload, cell: RuntimeCell, found: _Replayed) -> list[float | None]:
    """The predictions of a predictor that chooses classes itself (`class_chain`)."""
    if cell.method not in METHODS:
        moments = jobs_of(workload, cell.jobs).history.moments
        answers = (prediction for _, prediction in replay(moments, make_predictor(cell.method)))
        return [None if answer is None else answer.value_s for answer in answers]
    number = list(METHODS).index(cell.method)
    levels = [found.values_s[name] for name in reversed(CLASSIFICATIONS)]
    chosen = (next(filter(None, of_job), None) for of_job in zip(*levels, strict=True))
    return [None if one is None else one[number] for one in chosen]


def measure(cell: RuntimeCell, replayed: _Replayed, values_s: Sequence[float | None]) -> RuntimeRow:
    """Compute the measures of ``values_s``, predictions in the order of submission. None is no
    prediction."""
    accuracies: list[float] = []
    errors: list[float] = []
    burst: list[float] = []
    others: list[float] = []
    same = 0
    for value_s, actual_s, before in zip(
        values_s, replayed.runtimes_s, replayed.before, strict=True
    ):
        if value_s is None:
            continue
        reached = accuracy(value_s, actual_s)
        accuracies.append(reached)
        errors.append(abs(value_s - actual_s))
        if before < 0:
            others.append(reached)
        else:
            burst.append(reached)
            same += values_s[before] == value_s
    accuracies.sort()
    errors.sort()
    return RuntimeRow(
        **msgspec.structs.asdict(cell),
        predicted=len(accuracies),
        unknown=len(values_s) - len(accuracies),
        accuracy=mean(accuracies),
        accuracy_median=median(accuracies) if accuracies else 0.0,
        error_s=mean(errors),
        burst_jobs=len(burst),
        burst_same=same / len(burst) if burst else 0.0,
        burst_accuracy=mean(burst),
        other_accuracy=mean(others),
        accuracy_shares=shares(accuracies, ACCURACIES),
        error_shares=shares(errors, ERRORS_S),
    )


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
