"""A predictor that uses, for each class of jobs, the method with the best record so far.

The Network Weather Service forecasts by the method that was the most accurate up to now (Wolski,
Spring, Hayes 1999). Here the choice is among the methods and classifications of thesis section
7.2.1, the methods on jobs of a user with the same estimate (JGC paper, Table 5: the best history),
the user's estimate, and regression on the size of inputs. A record is a mean accuracy (thesis,
equation 7.1).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from wfrun.engine.prediction.classes import CLASSIFICATIONS, Classification
from wfrun.engine.prediction.estimates import ESTIMATE_TITLE, as_estimated, estimate_s
from wfrun.engine.prediction.job import Job, Prediction
from wfrun.engine.prediction.methods import METHODS, AllMethods
from wfrun.engine.prediction.regression import Regression

MEMORY = 20
"""Effective length of a record, in jobs: the latest job has at least the weight 1/`MEMORY` in the
mean."""
LEAST = 5
"""Minimum number of ended jobs of an application for a record of its own."""
PRIOR = 5
"""Weight, in jobs, of the initial means of a record, which come from the record of a more general
class."""

_LEVELS = (
    CLASSIFICATIONS["application"],
    Classification(
        "(User + Estimate) on Site",
        lambda job: (job.owner, job.estimate_s, job.site),
        ("owner", "site"),
    ),
    CLASSIFICATIONS["user-site"],
    CLASSIFICATIONS["user"],
    CLASSIFICATIONS["site"],
)
"""Classifications, the most specific first. Of candidates with equal records the more specific one
is used."""
_APPLICATION, _USER = 0, 2
_TITLES = tuple(f"{kind.title} of {level.title}" for level in _LEVELS for kind in METHODS.values())
"""Titles of the candidates that need only run times. The user's estimate and regression follow
them."""
_ESTIMATE, _REGRESSION = len(_TITLES), len(_TITLES) + 1
_KEYS = tuple(level.key for level in _LEVELS)


class _Record:
    """Mean accuracies of the candidates for the jobs of one class."""

    __slots__ = ("_weight", "means")

    def __init__(self, means: Sequence[float]) -> None:
        """``means``: the mean accuracies of a more general class, from which the record starts."""
        self.means = list(means)
        self._weight = PRIOR

    @property
    def is_full(self) -> bool:
        """Whether the record has its full weight, after `MEMORY` - `PRIOR` jobs. More general
        records then no longer observe the jobs of this class."""
        return self._weight == MEMORY

    def observe(self, accuracies: list[float]) -> None:
        """Observe the accuracies of the candidates for the next job."""
        if self._weight < MEMORY:
            self._weight += 1
        rate = 1 / self._weight
        self.means = [m + rate * (a - m) for m, a in zip(self.means, accuracies, strict=True)]


class Auto:
    """Predicts each job by the candidate with the highest mean accuracy. Accuracies come from the
    record of the job's application (same application, user and size at the site), or else of the
    user at the site, or else of all jobs.

    A candidate whose class has no history answers from the next more general class. Records compare
    run times with the predictions that candidates would have made just before each job ended. Cost:
    constant. Memory: two kilobytes a class.
    """

    def __init__(self) -> None:
        self._series: tuple[dict[Hashable, AllMethods], ...] = tuple({} for _ in _LEVELS)
        """By level of `_LEVELS`: the series of each class."""
        self._all = _Record([0.5] * (_REGRESSION + 1))
        self._of_users: dict[Hashable, _Record] = {}
        """Records by user and site."""
        self._of_applications: dict[Hashable, _Record] = {}
        self._regression = Regression()

    def observe(self, job: Job, runtime_s: float) -> None:
        keys = [key(job) for key in _KEYS]
        found = [series.get(key) for series, key in zip(self._series, keys, strict=True)]
        values_s = _values_s(found)
        if values_s is not None:
            of_application = found[_APPLICATION]
            is_known = of_application is not None and of_application.count >= LEAST
            self._record(job, runtime_s, keys, values_s, is_known=is_known)
        for series, key, one in zip(self._series, keys, found, strict=True):
            if one is None:
                one = series[key] = AllMethods()
            one.observe(runtime_s)
        if job.input_bytes is not None:
            self._regression.observe(job, runtime_s)

    def _record(
        self,
        job: Job,
        runtime_s: float,
        keys: Sequence[Hashable],
        values_s: Sequence[float],
        *,
        is_known: bool,
    ) -> None:
        """Add the accuracy of each candidate for an ended job to the records. ``is_known``: enough
        jobs of the application have ended. Some logs have many applications of one job each."""
        accuracies = _accuracies(values_s, runtime_s)
        requested_s, by_size = estimate_s(job), self._by_size(job)
        by_estimate = None if requested_s is None else _accuracies((requested_s,), runtime_s)[0]
        by_regression = None if by_size is None else _accuracies((by_size.value_s,), runtime_s)[0]
        for record in self._records(keys, is_known=is_known):
            # A candidate that has nothing to say keeps its mean.
            means = record.means
            accuracies[_ESTIMATE:] = (
                means[_ESTIMATE] if by_estimate is None else by_estimate,
                means[_REGRESSION] if by_regression is None else by_regression,
            )
            record.observe(accuracies)

    def _records(self, keys: Sequence[Hashable], *, is_known: bool) -> list[_Record]:
        """Return the records that observe a job. The record of its application observes it if
        ``is_known``, the record of its user unless that of the application is full, and the record
        of all jobs unless one of these two is full. The general records serve new applications and
        new users."""
        records: list[_Record] = []
        if is_known:
            record = self._of_applications.get(keys[_APPLICATION])
            if record is None:
                means = self._of_users.get(keys[_USER], self._all).means
                record = self._of_applications[keys[_APPLICATION]] = _Record(means)
            if record.is_full:
                return [record]
            records.append(record)
        record = self._of_users.get(keys[_USER])
        if record is None:
            record = self._of_users[keys[_USER]] = _Record(self._all.means)
        records.append(record)
        if not record.is_full:
            records.append(self._all)
        return records

    def predict(self, job: Job) -> Prediction | None:
        keys = [key(job) for key in _KEYS]
        record = (
            self._of_applications.get(keys[_APPLICATION])
            or self._of_users.get(keys[_USER])
            or self._all
        )
        means = record.means
        best = max(means[:_ESTIMATE])
        requested_s, by_size = estimate_s(job), self._by_size(job)
        if requested_s is not None and means[_ESTIMATE] > best:
            best, by_estimate = means[_ESTIMATE], Prediction(requested_s, ESTIMATE_TITLE, 0)
        else:
            by_estimate = None
        if by_size is not None and means[_REGRESSION] > best:
            return by_size
        if by_estimate is not None:
            return by_estimate
        level, method = divmod(means.index(best), len(METHODS))
        for chosen in (*range(level, len(_LEVELS)), *range(level)):
            series = self._series[chosen].get(keys[chosen])
            if series is not None:
                title = _TITLES[chosen * len(METHODS) + method]
                return Prediction(series.values_s[method], title, series.count)
        return as_estimated(job)

    def _by_size(self, job: Job) -> Prediction | None:
        return None if job.input_bytes is None else self._regression.predict(job)


def _values_s(found: Sequence[AllMethods | None]) -> list[float] | None:
    """The prediction of each candidate, in the order of ``_TITLES``; None if nothing is known. A
    class without a history answers from the next more general class that has one, or else from the
    next more specific one: for a site without a history, from the user's jobs at other sites."""
    values_s: list[float] = []
    for level, one in enumerate(found):
        if one is None:
            others = (*found[level:], *reversed(found[:level]))
            one = next((other for other in others if other is not None), None)
            if one is None:
                return None
        values_s += one.values_s
    return values_s


def _accuracies(values_s: Sequence[float], runtime_s: float) -> list[float]:
    """Equation 7.1 for each prediction."""
    if runtime_s <= 0:
        return [1.0 if value_s <= 0 else 0.0 for value_s in values_s]
    return [
        value_s / runtime_s if value_s < runtime_s else runtime_s / value_s for value_s in values_s
    ]
