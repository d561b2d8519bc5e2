"""Predictions of run times."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Predictor(Protocol):
    """A prediction method of thesis section 7.2.1. One object serves one class of jobs."""

    def observe(self, runtime_s: float) -> None:
        """Observe the run time of a job of the class."""

    def predict(self) -> float | None:
        """Predicted run time of the next job in seconds; None before the first observation."""


class Last2:
    """The mean of the last two observed run times of a class of jobs.

    Source: thesis section 7.2.1, method 5 (Last2).
    """

    def __init__(self) -> None:
        self._last: tuple[float, ...] = ()
        self._mean: float | None = None

    def observe(self, runtime_s: float) -> None:
        """Observe the run time of a job of the class."""
        self._last = (*self._last[-1:], runtime_s)
        # Computed here, since predictions are far more frequent than observations.
        self._mean = sum(self._last) / len(self._last)

    def predict(self) -> float | None:
        """Predicted run time in seconds; None before the first observation."""
        return self._mean


MAX_KEPT = 2
"""Number of run times of a class that are kept for later runs: as many as Last2 needs."""


class JobClass(NamedTuple):
    """A class of jobs: user, application and job size. With the site, classification 4 of thesis
    section 7.2.1."""

    owner: str
    application: str
    cores: int


class RunTimes:
    """Run times of tasks, and their predictions by class and site."""

    def __init__(self, method: Callable[[], Predictor] = Last2) -> None:
        self._method = method
        self._classes: dict[tuple[JobClass, str], Predictor] = {}
        """Predictors by class and name of the site."""
        self.latest: dict[tuple[JobClass, str], tuple[float, ...]] = {}
        """The last ``MAX_KEPT`` run times by class and site, the oldest first."""
        self.seen: set[tuple[JobClass, str]] = set()
        """Classes and sites with tasks of this run."""
        self._anywhere: dict[JobClass, Predictor] = {}
        """Predictors by class, for run times on the reference processor at any site."""
        self._all = method()
        """Predictor of the run times of all classes on the reference processor."""

    def observe(self, kind: JobClass, site: str, runtime_s: float, speed_ratio: float) -> None:
        """Observe the run time of a task of this class at a site of this speed."""
        key = kind, site
        here = self._classes.get(key)
        if here is None:
            here = self._classes[key] = self._method()
        here.observe(runtime_s)
        self.seen.add(key)
        self.latest[key] = (*self.latest.get(key, ())[1 - MAX_KEPT :], runtime_s)
        anywhere = self._anywhere.get(kind)
        if anywhere is None:
            anywhere = self._anywhere[kind] = self._method()
        anywhere.observe(runtime_s * speed_ratio)
        self._all.observe(runtime_s * speed_ratio)

    def predict_s(self, kind: JobClass, site: str, speed_ratio: float) -> float | None:
        """Predicted run time at this site; None if nothing was observed. Without observations of
        the class there: from its tasks at other sites, or else from all tasks, at the speed of this
        site."""
        here = self._classes.get((kind, site))
        if here is not None:
            return here.predict()
        reference_s = self._anywhere.get(kind, self._all).predict()
        return None if reference_s is None else reference_s / speed_ratio
