"""Accuracy of run time predictions on a workload log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from statistics import fmean, median
from typing import NamedTuple

import msgspec

from wfrun.engine.prediction.classes import CLASSIFICATIONS, ByClass
from wfrun.engine.prediction.job import Job, Predictor
from wfrun.engine.prediction.methods import METHODS
from wfrun.engine.prediction.replay import Moment, PastJob, accuracy, moments_of, replay
from wfrun.parsers.logs import LoggedJob


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """How well one method predicts the jobs of a log. None: it predicted none of them."""

    method: str
    classification: str | None
    """None for methods that choose their own history."""
    jobs: int
    unknown: int
    """Number of jobs without a prediction: nothing of their class had ended."""
    accuracy: float | None
    """Mean of equation 7.1 over the jobs that were predicted."""
    mean_error_s: float | None
    """Mean absolute error."""
    median_error_s: float | None
    in_interval: float | None
    """Share of the predictions with an interval whose job ended inside it."""


class Candidate(NamedTuple):
    """A predictor to measure."""

    method: str
    classification: str | None
    make: Callable[[], Predictor]


class LogHistory(NamedTuple):
    """A log, ready for replays."""

    jobs: int
    moments: Sequence[Moment]
    missing: Sequence[str]
    """What no job of the log states, as fields of `Job`: ``site``, ``owner``, ``application``."""


def log_history(jobs: Sequence[LoggedJob], *, is_grid: bool) -> LogHistory:
    """Make a history of the jobs of a log. A log that is not of a grid is of one site.

    A job whose wait is unknown counts as one that did not wait.
    """
    past = [_past(job, is_grid=is_grid) for job in jobs]
    stated = {
        "site": not is_grid or any(each.job.site for each in past),
        "owner": any(each.job.owner for each in past),
        "application": any(each.job.application for each in past),
    }
    return LogHistory(
        len(past), moments_of(past), [name for name, known in stated.items() if not known]
    )


def _past(logged: LoggedJob, *, is_grid: bool) -> PastJob:
    ran_at = None if logged.grid is None else logged.grid.run_site
    site = (ran_at or logged.site or "") if is_grid else (logged.site or "")
    runtime_s = logged.runtime_s or 0.0
    job = Job(
        site=site,
        owner=_name(logged.user),
        application=_name(logged.application),
        cores=logged.size or 1,
        estimate_s=logged.requested_s,
    )
    return PastJob(
        job, logged.submit_s, logged.submit_s + (logged.wait_s or 0.0) + runtime_s, runtime_s
    )


def _name(name: str | int | None) -> str:
    return "" if name is None else str(name)


def candidates(
    methods: Sequence[str], classifications: Sequence[str], missing: Sequence[str]
) -> Iterator[Candidate]:
    """The methods, by each classification that a log without ``missing`` fields can serve."""
    for method in methods:
        for name in classifications:
            if not set(CLASSIFICATIONS[name].needs) & set(missing):
                yield Candidate(method, name, _by_class(method, name))


def _by_class(method: str, classification: str) -> Callable[[], Predictor]:
    return lambda: ByClass(method, classification)


def all_methods() -> tuple[str, ...]:
    return tuple(METHODS)


def accuracies(history: LogHistory, chosen: Iterable[Candidate]) -> Iterator[Accuracy]:
    """Replay the log once for each predictor. Cost: one prediction and one observation a job."""
    for candidate in chosen:
        yield _accuracy(history, candidate)


def _accuracy(history: LogHistory, candidate: Candidate) -> Accuracy:
    shares, errors_s = [], []
    bounded = inside = 0
    for past, prediction in replay(history.moments, candidate.make()):
        if prediction is None:
            continue
        actual_s = past.runtime_s
        shares.append(accuracy(prediction.value_s, actual_s))
        errors_s.append(abs(prediction.value_s - actual_s))
        if prediction.high_s < inf:
            bounded += 1
            inside += prediction.low_s <= actual_s <= prediction.high_s
    return Accuracy(
        method=candidate.method,
        classification=candidate.classification,
        jobs=history.jobs,
        unknown=history.jobs - len(shares),
        accuracy=fmean(shares) if shares else None,
        mean_error_s=fmean(errors_s) if shares else None,
        median_error_s=median(errors_s) if shares else None,
        in_interval=inside / bounded if bounded else None,
    )
