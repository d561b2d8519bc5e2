"""Predictions of run times."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Predictor(Protocol):
    """A method of thesis section 7.2.1. One object serves one class of jobs."""

    def observe(self, runtime_s: float) -> None:
        """A job of the class took so long."""

    def predict(self) -> float | None:
        """Seconds that the next one will take; None before the first observation."""


class Last2:
    """The average of the last two observed run times of one class of jobs.

    Source: thesis, section 7.2.1, method 5 (Last2).
    """

    def __init__(self) -> None:
        self._last: tuple[float, ...] = ()
        self._mean: float | None = None

    def observe(self, runtime_s: float) -> None:
        self._last = (*self._last[-1:], runtime_s)
        self._mean = sum(self._last) / len(self._last)  # once; it is asked for many times

    def predict(self) -> float | None:
        """Seconds; None before the first observation."""
        return self._mean


MAX_KEPT = 2
"""So many run times of a class are kept for later runs: what the method needs."""


class JobClass(NamedTuple):
    """(User + application name + job size): with the site, the classification 4 of thesis section
    7.2.1."""

    owner: str
    application: str
    cores: int


class RunTimes:
    """Run times of tasks, each class at each site predicted by one method."""

    def __init__(self, method: Callable[[], Predictor] = Last2) -> None:
        self._method = method
        self._classes: dict[tuple[JobClass, str], Predictor] = {}
        """By class and name of the site: run times there."""
        self.latest: dict[tuple[JobClass, str], tuple[float, ...]] = {}
        """Likewise the last ``MAX_KEPT`` run times themselves, the oldest first."""
        self.seen: set[tuple[JobClass, str]] = set()
        """Of these, those with tasks of this run."""
        self._anywhere: dict[JobClass, Predictor] = {}
        """Run times on the reference processor, wherever they were."""
        self._all = method()
        """Likewise, of whatever class."""

    def observe(self, kind: JobClass, site: str, runtime_s: float, speed_ratio: float) -> None:
        """A task of this class took so long at a site of this speed."""
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
        """At this site. While nothing of the class was seen there: what its tasks took elsewhere,
        else what any tasks took, at the speed of this site; None: nothing was seen at all."""
        here = self._classes.get((kind, site))
        if here is not None:
            return here.predict()
        reference_s = self._anywhere.get(kind, self._all).predict()
        return None if reference_s is None else reference_s / speed_ratio
