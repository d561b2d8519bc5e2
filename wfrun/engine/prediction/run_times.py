"""Run times of the tasks of a run, and their predictions by class and site."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import ClassVar, NamedTuple

from wfrun.engine.prediction.auto import Auto
from wfrun.engine.prediction.classes import CLASSIFICATIONS
from wfrun.engine.prediction.intervals import WINDOW, ClassBounds
from wfrun.engine.prediction.job import Job, Prediction
from wfrun.engine.prediction.methods import METHODS, Method

_HERE = CLASSIFICATIONS["application"].title


class JobClass(NamedTuple):
    """A class of jobs: user, application and job size. With the site, classification 4 of thesis
    section 7.2.1."""

    owner: str
    application: str
    cores: int


class Details(NamedTuple):
    """Properties that differ between the tasks of one class; see the fields of `Job`."""

    estimate_s: float | None = None
    input_bytes: float | None = None


NO_DETAILS = Details()


class RunTimes:
    """Predicts run times of tasks at sites of different speeds, by one method.

    A task is predicted from tasks of its class at the site. If there are none, it is predicted from
    tasks of its class at other sites, or else from all tasks, scaled to the speed of the site.
    Cost: constant.
    """

    uses_details: ClassVar[bool] = False
    """Whether predictions depend on `Details`."""

    def __init__(self, method: str = "last2") -> None:
        """``method``: a name in ``METHODS``."""
        kind = METHODS[method]
        self._make, self._title = kind.make, kind.title
        self._classes: dict[tuple[JobClass, str], Method] = {}
        """Series of run times by class and name of the site."""
        self._counts: dict[tuple[JobClass, str], int] = {}
        """Number of run times in each series of ``_classes``."""
        self._recent: dict[Hashable, deque[float]] = {}
        """The latest run times by class and site, and by class on the reference processor."""
        self._bounds: dict[Hashable, ClassBounds] = {}
        """Bounds made from ``_recent`` on demand, since few runs need them. A cache: bounds follow
        from ``_recent`` alone, and do not depend on earlier queries."""
        self._anywhere: dict[JobClass, Method] = {}
        """Series by class, of run times on the reference processor at any site."""
        self._anywhere_counts: dict[JobClass, int] = {}
        self._all = kind.make()
        """Series of the run times of all classes on the reference processor."""
        self._all_count = 0

    def observe(
        self,
        kind: JobClass,
        site: str,
        runtime_s: float,
        speed_ratio: float,
        details: Details = NO_DETAILS,
    ) -> None:
        """Observe the run time of a task of this class at a site of this speed."""
        key = kind, site
        here = self._classes.get(key)
        if here is None:
            here = self._classes[key] = self._make()
        here.observe(runtime_s)
        self._counts[key] = self._counts.get(key, 0) + 1
        anywhere = self._anywhere.get(kind)
        if anywhere is None:
            anywhere = self._anywhere[kind] = self._make()
        anywhere.observe(runtime_s * speed_ratio)
        self._anywhere_counts[kind] = self._anywhere_counts.get(kind, 0) + 1
        self._all.observe(runtime_s * speed_ratio)
        self._all_count += 1
        self._keep(key, runtime_s)
        self._keep(kind, runtime_s * speed_ratio)

    def _keep(self, key: Hashable, runtime_s: float) -> None:
        recent = self._recent.get(key)
        if recent is None:
            recent = self._recent[key] = deque(maxlen=WINDOW)
        recent.append(runtime_s)
        self._bounds.pop(key, None)

    def predict_s(
        self, kind: JobClass, site: str, speed_ratio: float, details: Details = NO_DETAILS
    ) -> float | None:
        """Predicted run time at this site in seconds; None if nothing was observed."""
        here = self._classes.get((kind, site))
        if here is not None:
            return here.predict()
        reference_s = self._anywhere.get(kind, self._all).predict()
        return None if reference_s is None else reference_s / speed_ratio

    def predict(
        self, kind: JobClass, site: str, speed_ratio: float, details: Details = NO_DETAILS
    ) -> Prediction | None:
        """``predict_s`` as a `Prediction`: with its method, its number of observations and, once
        the class has enough run times, an interval."""
        found = self._predict(kind, site, speed_ratio, details)
        chosen = None if found is None else self._bounds_for(kind, site, speed_ratio)
        if found is None or chosen is None:
            return found
        bounds, speed = chosen
        around = bounds.around(found._replace(value_s=found.value_s * speed))
        return found._replace(low_s=around.low_s / speed, high_s=around.high_s / speed)

    def _predict(
        self, kind: JobClass, site: str, speed_ratio: float, details: Details
    ) -> Prediction | None:
        value_s = self.predict_s(kind, site, speed_ratio)
        return None if value_s is None else self._described(value_s, kind, site)

    def _described(self, value_s: float, kind: JobClass, site: str) -> Prediction:
        """A prediction with its method and its number of observations."""
        if (count := self._counts.get((kind, site))) is not None:
            return Prediction(value_s, f"{self._title} of {_HERE}", count)
        if (count := self._anywhere_counts.get(kind)) is not None:
            title = f"{self._title} of its class at other sites, by their speeds"
            return Prediction(value_s, title, count)
        return Prediction(value_s, f"{self._title} of all tasks, by speeds", self._all_count)

    def _bounds_for(
        self, kind: JobClass, site: str, speed_ratio: float
    ) -> tuple[ClassBounds, float] | None:
        """Bounds of a class with enough run times, and the speed by which to divide them."""
        for key, speed in (((kind, site), 1.0), (kind, speed_ratio)):
            bounds = self._bounds_of(key)
            if bounds.upper_s() is not None:
                return bounds, speed
        return None

    def _bounds_of(self, key: Hashable) -> ClassBounds:
        bounds = self._bounds.get(key)
        if bounds is None:
            bounds = self._bounds[key] = ClassBounds(self._recent.get(key, ()))
        return bounds


MAX_CACHED = 10_000
"""Maximum number of predictions that are cached until the next observation."""


class AutoRunTimes(RunTimes):
    """Applies `Auto` to run times on the reference processor. A class that has run only at other
    sites is predicted by Last2 from its run times there: they are more similar than the run times
    of other classes at the site. Cost: constant."""

    uses_details = True

    def __init__(self) -> None:
        super().__init__()
        self._auto = Auto()
        self._cache: dict[tuple[JobClass, str, Details], Prediction | None] = {}
        """Predictions since the last observation. A cache, since policies compare many sites for
        each task."""

    def observe(
        self,
        kind: JobClass,
        site: str,
        runtime_s: float,
        speed_ratio: float,
        details: Details = NO_DETAILS,
    ) -> None:
        super().observe(kind, site, runtime_s, speed_ratio)
        self._auto.observe(_job(kind, site, speed_ratio, details), runtime_s * speed_ratio)
        self._cache.clear()

    def predict_s(
        self, kind: JobClass, site: str, speed_ratio: float, details: Details = NO_DETAILS
    ) -> float | None:
        found = self._predict(kind, site, speed_ratio, details)
        return None if found is None else found.value_s

    def _predict(
        self, kind: JobClass, site: str, speed_ratio: float, details: Details
    ) -> Prediction | None:
        key = kind, site, details
        if key in self._cache:
            return self._cache[key]
        found = None
        if (kind, site) in self._classes or kind not in self._anywhere:
            found = self._auto.predict(_job(kind, site, speed_ratio, details))
        if found is not None:
            found = found._replace(value_s=found.value_s / speed_ratio)
        elif (value_s := super().predict_s(kind, site, speed_ratio)) is not None:
            found = self._described(value_s, kind, site)
        if len(self._cache) >= MAX_CACHED:
            self._cache.clear()
        self._cache[key] = found
        return found


def _job(kind: JobClass, site: str, speed_ratio: float, details: Details) -> Job:
    """The task as if it ran on the reference processor."""
    estimate_s, input_bytes = details
    if estimate_s is not None:
        estimate_s *= speed_ratio
    return Job(site, *kind, estimate_s, input_bytes)


def make_run_times(predictor: str) -> RunTimes:
    """The predictions of a run. ``predictor``: a name in ``METHODS``, or ``auto``."""
    return AutoRunTimes() if predictor == "auto" else RunTimes(predictor)
