"""The grid schedulers of thesis section 7.4.2, by name. They use the predictions of real runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from wfrun.engine.model import SiteSpec
from wfrun.engine.policies.placement.all_clusters import AllClusters
from wfrun.engine.policies.placement.ect import Ect, EctP
from wfrun.engine.policies.placement.fpf import Fpf
from wfrun.engine.prediction.job import Job, Prediction
from wfrun.engine.prediction.run_times import JobClass, RunTimes
from wfrun.runners.simulate.grid.model import Scheduler


class RunPredictor:
    """Predicts the run times of jobs as `RunTimes` predicts those of tasks in a run. A prediction
    uses the jobs of the same user, application and size at the site; if there are none, such jobs
    at other sites; if there are none either, all jobs. Run times at other sites are scaled by the
    speeds of the sites. Implements `ValuePredictor`."""

    def __init__(self, sites: Sequence[SiteSpec], method: str = "last2") -> None:
        self._run_times = RunTimes(method)
        self._speeds = {spec.name: spec.speed_ratio for spec in sites}

    def observe(self, job: Job, runtime_s: float) -> None:
        self._run_times.observe(
            _class_of(job), job.site, runtime_s, self._speeds.get(job.site, 1.0)
        )

    def predict(self, job: Job) -> Prediction | None:
        return self._run_times.predict(_class_of(job), job.site, self._speeds.get(job.site, 1.0))

    def predict_s(self, job: Job) -> float | None:
        return self._run_times.predict_s(_class_of(job), job.site, self._speeds.get(job.site, 1.0))


def _class_of(job: Job) -> JobClass:
    return JobClass(job.owner, job.application, job.cores)


class SchedulerKind(NamedTuple):
    """An entry of the registry."""

    title: str
    """Name of the scheduler in the thesis."""
    summary: str
    make: Callable[[Sequence[SiteSpec]], Scheduler]
    """Makes a scheduler. Each simulation needs a new one, because predictors learn."""


SCHEDULERS: dict[str, SchedulerKind] = {
    "ect-perfect": SchedulerKind(
        "ECT-Perfect", "earliest completion, run times known", lambda _: Scheduler(Ect)
    ),
    "ect-last2": SchedulerKind(
        "ECT-Last2",
        "earliest completion, run times predicted from the last two of their class at the site",
        lambda sites: Scheduler(EctP, RunPredictor(sites)),
    ),
    "lb": SchedulerKind(
        "LB", "the least-loaded cluster (policy all-clusters)", lambda _: Scheduler(AllClusters)
    ),
    "fpf": SchedulerKind(
        "FPF", "the fastest cluster with room; all jobs of one global queue are eligible",
        lambda _: Scheduler(Fpf),
    ),
    "fcfs": SchedulerKind(
        "FCFS", "as FPF, but the first job of the global queue blocks the others",
        lambda _: Scheduler(Fpf, blocks=True),
    ),
    "ect-last2-grid": SchedulerKind(
        "ECT-Last2, whole grid",
        "as ECT-Last2, with classes of jobs over all sites, scaled by the speeds",
        lambda sites: Scheduler(EctP, RunPredictor(sites), per_site=False),
    ),
}  # fmt: skip
"""The grid schedulers by name. The first four are those of Table 7.6."""

TABLE_7_6 = ("ect-perfect", "ect-last2", "lb", "fpf")
