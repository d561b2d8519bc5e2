"""Run times of the tasks of a run, and their predictions by class and site."""

from __future__ import annotations

from typing import NamedTuple

from wfrun.engine.prediction.classes import CLASSIFICATIONS
from wfrun.engine.prediction.job import Prediction
from wfrun.engine.prediction.methods import METHODS, Method

MAX_KEPT = 2
"""Number of run times of a class that are kept for later runs: as many as Last2 needs."""

_HERE = CLASSIFICATIONS["application"].title


class JobClass(NamedTuple):
    """A class of jobs: user, application and job size. With the site, classification 4 of thesis
    section 7.2.1."""

    owner: str
    application: str
    cores: int


class RunTimes:
    """Predicts run times of tasks at sites of different speeds, by one method.

    A task is predicted from those of its class at the site. Without any: from those of its class at
    other sites, or else from all tasks, at the speed of this site. Cost: constant.
    """

    def __init__(self, method: str = "last2") -> None:
        """``method``: a name in ``METHODS``."""
        kind = METHODS[method]
        self._make, self._title = kind.make, kind.title
        self._classes: dict[tuple[JobClass, str], Method] = {}
        """Series of run times by class and name of the site."""
        self._counts: dict[tuple[JobClass, str], int] = {}
        """Number of run times of each of these series."""
        self.latest: dict[tuple[JobClass, str], tuple[float, ...]] = {}
        """The last ``MAX_KEPT`` run times by class and site, the oldest first."""
        self.seen: set[tuple[JobClass, str]] = set()
        """Classes and sites with tasks of this run."""
        self._anywhere: dict[JobClass, Method] = {}
        """Series by class, of run times on the reference processor at any site."""
        self._anywhere_counts: dict[JobClass, int] = {}
        self._all = kind.make()
        """Series of the run times of all classes on the reference processor."""
        self._all_count = 0

    def observe(self, kind: JobClass, site: str, runtime_s: float, speed_ratio: float) -> None:
        """Observe the run time of a task of this class at a site of this speed."""
        key = kind, site
        here = self._classes.get(key)
        if here is None:
            here = self._classes[key] = self._make()
        here.observe(runtime_s)
        self._counts[key] = self._counts.get(key, 0) + 1
        self.seen.add(key)
        self.latest[key] = (*self.latest.get(key, ())[1 - MAX_KEPT :], runtime_s)
        anywhere = self._anywhere.get(kind)
        if anywhere is None:
            anywhere = self._anywhere[kind] = self._make()
        anywhere.observe(runtime_s * speed_ratio)
        self._anywhere_counts[kind] = self._anywhere_counts.get(kind, 0) + 1
        self._all.observe(runtime_s * speed_ratio)
        self._all_count += 1

    def predict_s(self, kind: JobClass, site: str, speed_ratio: float) -> float | None:
        """Predicted run time at this site; None if nothing was observed."""
        here = self._classes.get((kind, site))
        if here is not None:
            return here.predict()
        reference_s = self._anywhere.get(kind, self._all).predict()
        return None if reference_s is None else reference_s / speed_ratio

    def predict(self, kind: JobClass, site: str, speed_ratio: float) -> Prediction | None:
        """``predict_s``, and what it was made from."""
        value_s = self.predict_s(kind, site, speed_ratio)
        if value_s is None:
            return None
        if (count := self._counts.get((kind, site))) is not None:
            return Prediction(value_s, f"{self._title} of {_HERE}", count)
        if (count := self._anywhere_counts.get(kind)) is not None:
            title = f"{self._title} of its class at other sites, by their speeds"
            return Prediction(value_s, title, count)
        return Prediction(value_s, f"{self._title} of all tasks, by speeds", self._all_count)
