"""Accuracy of run time predictions on a workload log."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from math import inf
from statistics import median

import msgspec

from wfrun.engine.prediction.classes import CLASSIFICATIONS
from wfrun.engine.prediction.job import Job
from wfrun.engine.prediction.methods import METHODS, AllMethods
from wfrun.engine.prediction.replay import Moment, PastJob, accuracy, moments_of, replay
from wfrun.parsers.logs import LoggedJob
from wfrun.runners.forecast.log_predictors import CHAIN, Candidate


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """Accuracy of one method of prediction on the jobs of a log. A value is None if the method
    predicted no job."""

    method: str
    classification: str | None
    """Name of the classification that selects earlier jobs; None: the method has its own rule."""
    jobs: int
    unknown: int
    """Number of jobs without a prediction, such as the first job of each class."""
    accuracy: float | None
    """Mean accuracy by equation 7.1 of the thesis, over the predicted jobs."""
    mean_error_s: float | None
    """Mean absolute error, in seconds."""
    median_error_s: float | None
    in_interval: float | None
    """Fraction of the predicted intervals that contain the actual run time. None also if no
    prediction has an interval."""


class LogHistory(msgspec.Struct, frozen=True):
    """The jobs of a log, prepared for replays."""

    jobs: int
    moments: Sequence[Moment]
    missing: Sequence[str]
    """Those of the fields ``site``, ``owner``, ``application`` and ``estimate_s`` of `Job` that the
    log states for no job."""


def log_history(jobs: Sequence[LoggedJob], *, is_grid: bool) -> LogHistory:
    """Prepare the jobs of a log for replays. ``is_grid`` is False for the log of a single site.

    A job whose wait is unknown is assumed to start at its submission.
    """
    past = [_past(job, is_grid=is_grid) for job in jobs]
    stated = {
        "site": not is_grid or any(each.job.site for each in past),
        "owner": any(each.job.owner for each in past),
        "application": any(each.job.application for each in past),
        "estimate_s": any(each.job.estimate_s for each in past),
    }
    return LogHistory(
        len(past), moments_of(past), [name for name, known in stated.items() if not known]
    )


def _past(logged: LoggedJob, *, is_grid: bool) -> PastJob:
    runtime_s = logged.runtime_s or 0.0
    job = job_of(logged, run_site(logged) if is_grid else (logged.site or ""))
    return PastJob(
        job, logged.submit_s, logged.submit_s + (logged.wait_s or 0.0) + runtime_s, runtime_s
    )


def run_site(logged: LoggedJob) -> str:
    """The site at which a job of a grid ran; if unknown, the site of its submission; if that is
    unknown too, empty."""
    ran_at = None if logged.grid is None else logged.grid.run_site
    return ran_at or logged.site or ""


def job_of(logged: LoggedJob, site: str) -> Job:
    """The properties of a job that predictors know at its submission."""
    return Job(
        site=site,
        owner=_name(logged.user),
        application=_name(logged.application),
        cores=logged.size or 1,
        estimate_s=logged.requested_s,
    )


def _name(name: str | int | None) -> str:
    return "" if name is None else str(name)


class _Score:
    """Sums of accuracies and errors of one predictor."""

    __slots__ = ("_errors_s", "_shares", "bounded", "inside")

    def __init__(self) -> None:
        self._shares = 0.0
        self._errors_s = array("d")
        self.bounded = self.inside = 0

    def add(self, predicted_s: float, actual_s: float) -> None:
        self._shares += accuracy(predicted_s, actual_s)
        self._errors_s.append(abs(predicted_s - actual_s))

    def result(self, candidate: Candidate, jobs: int) -> Accuracy:
        count = len(self._errors_s)
        return Accuracy(
            method=candidate.method,
            classification=candidate.classification,
            jobs=jobs,
            unknown=jobs - count,
            accuracy=self._shares / count if count else None,
            mean_error_s=sum(self._errors_s) / count if count else None,
            median_error_s=median(self._errors_s) if count else None,
            in_interval=self.inside / self.bounded if self.bounded else None,
        )


def accuracies(history: LogHistory, chosen: Iterable[Candidate]) -> Iterator[Accuracy]:
    """Measure predictors by replaying the log: one replay for all methods that use a
    classification, and one replay for each other predictor. The results are in the order of
    ``chosen``."""
    candidates = list(chosen)
    by_class = [each for each in candidates if each.make is None]
    scores = _by_class(history.moments, by_class) if by_class else {}
    for candidate in candidates:
        if candidate.make is None:
            score = scores[candidate.classification, candidate.method]
        else:
            score = _replayed(history.moments, candidate)
        yield score.result(candidate, history.jobs)


def _replayed(moments: Sequence[Moment], candidate: Candidate) -> _Score:
    assert candidate.make is not None
    score = _Score()
    for past, prediction in replay(moments, candidate.make()):
        if prediction is None:
            continue
        score.add(prediction.value_s, past.runtime_s)
        if prediction.high_s < inf:
            score.bounded += 1
            score.inside += prediction.low_s <= past.runtime_s <= prediction.high_s
    return score


def _by_class(
    moments: Sequence[Moment], chosen: Sequence[Candidate]
) -> dict[tuple[str | None, str], _Score]:
    """The scores of methods that use a classification, or the chain of classes, by (classification,
    method). They equal the scores of `replay` with `ByClass` and `class_chain`, at a fifth of the
    cost."""
    numbers = {method: number for number, method in enumerate(METHODS)}
    scores: dict[tuple[str | None, str], _Score] = defaultdict(_Score)
    methods: defaultdict[str | None, list[tuple[int, _Score]]] = defaultdict(list)
    for each in chosen:
        score = scores[each.classification, each.method]
        methods[each.classification].append((numbers[each.method], score))
    levels = [name for name in reversed(CLASSIFICATIONS) if name in methods or CHAIN in methods]
    series: list[dict[Hashable, AllMethods]] = [{} for _ in levels]
    steps = [
        (CLASSIFICATIONS[name].key, series[number], methods.get(name, []))
        for number, name in enumerate(levels)
    ]
    chain = methods.get(CHAIN, [])
    for past, is_end in moments:
        job, runtime_s = past.job, past.runtime_s
        first: Sequence[float] = ()
        for key, known, wanted in steps:
            one = known.get(key(job))
            if is_end:
                if one is None:
                    one = known[key(job)] = AllMethods()
                one.observe(runtime_s)
            elif one is not None:
                first = first or one.values_s
                for number, score in wanted:
                    score.add(one.values_s[number], runtime_s)
        if first:
            for number, score in chain:
                score.add(first[number], runtime_s)
    return scores
