"""Classes of jobs that share a series of run times (thesis section 7.2.1)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from wfrun.engine.prediction.job import Job, Prediction
from wfrun.engine.prediction.methods import METHODS, Method


class Classification(NamedTuple):
    """A way to sort jobs into classes."""

    title: str
    """Name in the thesis."""
    key: Callable[[Job], Hashable]
    needs: tuple[str, ...]
    """Fields of `Job` that a log must state: of ``site``, ``owner`` and ``application``."""


CLASSIFICATIONS: dict[str, Classification] = {
    "site": Classification("Site", lambda job: job.site, ("site",)),
    "user": Classification("User", lambda job: job.owner, ("owner",)),
    "user-site": Classification(
        "User on Site", lambda job: (job.owner, job.site), ("owner", "site")
    ),
    "application": Classification(
        "(User + Application + Size) on Site",
        lambda job: (job.owner, job.application, job.cores, job.site),
        ("owner", "application", "site"),
    ),
}
"""The classifications of thesis section 7.2.1, by name, from the most general to the most
specific."""


class ByClass:
    """A predictor that applies one method to each class of jobs. Cost: that of the method."""

    def __init__(self, method: str = "last2", classification: str = "application") -> None:
        kind, by = METHODS[method], CLASSIFICATIONS[classification]
        self._make, self._classification = kind.make, classification
        self._title = f"{kind.title} of {by.title}"
        self._series: dict[Hashable, Method] = {}
        self._counts: dict[Hashable, int] = {}

    def observe(self, job: Job, runtime_s: float) -> None:
        key = CLASSIFICATIONS[self._classification].key(job)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = self._make()
            self._counts[key] = 0
        series.observe(runtime_s)
        self._counts[key] += 1

    def predict(self, job: Job) -> Prediction | None:
        key = CLASSIFICATIONS[self._classification].key(job)
        series = self._series.get(key)
        value_s = None if series is None else series.predict()
        return None if value_s is None else Prediction(value_s, self._title, self._counts[key])
