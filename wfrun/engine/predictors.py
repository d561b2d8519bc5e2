"""Predictions of run times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Last2:
    """The average of the last two observed run times of one class of jobs.

    Source: thesis, section 7.2.1, method 5 (Last2). One object serves one class.
    """

    def __init__(self, last: Iterable[float] = ()) -> None:
        self._last = tuple(last)[-2:]

    @property
    def last(self) -> tuple[float, ...]:
        """The run times that it predicts from, the oldest first."""
        return self._last

    def observe(self, runtime_s: float) -> None:
        self._last = (*self._last[-1:], runtime_s)

    def predict(self) -> float | None:
        """Seconds; None before the first observation."""
        return sum(self._last) / len(self._last) if self._last else None


class JobClass(NamedTuple):
    """(User + application name + job size): with the site, the classification 4 of thesis section
    7.2.1."""

    owner: str
    application: str
    cores: int


class RunTimes:
    """Run times of tasks, each class at each site predicted by the method ``Last2``."""

    def __init__(self) -> None:
        self.classes: dict[tuple[JobClass, str], Last2] = {}
        """By class and name of the site: run times there."""
        self.seen: set[tuple[JobClass, str]] = set()
        """Of these, those with tasks of this run."""
        self._anywhere: dict[JobClass, Last2] = {}
        """Run times on the reference processor, wherever they were."""
        self._all = Last2()
        """Likewise, of whatever class."""

    def observe(self, kind: JobClass, site: str, runtime_s: float, speed_ratio: float) -> None:
        """A task of this class took so long at a site of this speed."""
        here = self.classes.get((kind, site))
        if here is None:
            here = self.classes[kind, site] = Last2()
        self.seen.add((kind, site))
        here.observe(runtime_s)
        anywhere = self._anywhere.get(kind)
        if anywhere is None:
            anywhere = self._anywhere[kind] = Last2()
        anywhere.observe(runtime_s * speed_ratio)
        self._all.observe(runtime_s * speed_ratio)

    def predict_s(self, kind: JobClass, site: str, speed_ratio: float) -> float | None:
        """At this site. While nothing of the class was seen there: what its tasks took elsewhere,
        else what any tasks took, at the speed of this site; None: nothing was seen at all."""
        here = self.classes.get((kind, site))
        if here is not None:
            return here.predict()
        reference_s = self._anywhere.get(kind, self._all).predict()
        return None if reference_s is None else reference_s / speed_ratio
