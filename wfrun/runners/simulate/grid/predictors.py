"""The predictions of real runs, for simulated grids."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine.model import SiteSpec
from wfrun.engine.prediction.job import Job, Prediction
from wfrun.engine.prediction.run_times import JobClass, RunTimes


class RunPredictor:
    """Predicts jobs as `RunTimes` predicts the tasks of a run: by user, application and size at the
    site; without such jobs from those at other sites, or else from all, by the speeds of the
    sites. Implements `Predictor`."""

    def __init__(self, sites: Sequence[SiteSpec], method: str = "last2") -> None:
        self._run_times = RunTimes(method)
        self._speeds = {spec.name: spec.speed_ratio for spec in sites}

    def observe(self, job: Job, runtime_s: float) -> None:
        self._run_times.observe(
            _class_of(job), job.site, runtime_s, self._speeds.get(job.site, 1.0)
        )

    def predict(self, job: Job) -> Prediction | None:
        return self._run_times.predict(_class_of(job), job.site, self._speeds.get(job.site, 1.0))


def _class_of(job: Job) -> JobClass:
    return JobClass(job.owner, job.application, job.cores)
