"""Predictors of queue waits: one protocol for point-valued predictions and upper bounds."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple, Protocol

from wfrun.engine.prediction.classes import ByClass
from wfrun.engine.prediction.job import Job
from wfrun.engine.prediction.waits.point import FcfsPlan, OpenJob, expected_start_s
from wfrun.engine.prediction.waits.runtimes import PredictedRuntimes, RequestedRuntimes, Runtimes
from wfrun.engine.prediction.waits.upper_bounds import WaitBounds
from wfrun.engine.queues import JobId


class Cluster(NamedTuple):
    """The cluster whose waits are predicted."""

    processors: int
    lrm: str
    """A name of `wfrun.engine.queues.LRMS`."""


class WaitPredictor(Protocol):
    """Predicts the wait of each job of one cluster at its submission.

    The caller reports the events of all jobs in order of time. At one time ends come before starts,
    and starts before submissions.
    """

    def on_submitted(self, key: JobId, job: Job, requested_s: float, now_s: float) -> float | None:
        """The predicted wait in seconds; None if unknown. ``requested_s`` is the requested time
        that the LRM plans with, infinite without a request."""

    def on_started(self, key: JobId, now_s: float) -> None:
        """Observe the start of a waiting job."""

    def on_ended(self, key: JobId, now_s: float) -> None:
        """Observe the end of a running job."""


class BoundPredictor:
    """Predicts an upper bound of the wait, from the waits of jobs that have ended."""

    def __init__(self, name: str) -> None:
        self.bounds = WaitBounds(name)
        self._jobs: dict[JobId, tuple[int, float]] = {}
        """Cores and submission time of each job that waits; cores and wait of each job that has
        started."""

    def on_submitted(self, key: JobId, job: Job, requested_s: float, now_s: float) -> float | None:
        self._jobs[key] = (job.cores, now_s)
        return self.bounds.predict(job.cores)

    def on_started(self, key: JobId, now_s: float) -> None:
        cores, submitted_s = self._jobs[key]
        self._jobs[key] = (cores, now_s - submitted_s)

    def on_ended(self, key: JobId, now_s: float) -> None:
        self.bounds.observe(*self._jobs.pop(key))


class PointPredictor:
    """Predicts the wait by a simulation of the LRM, see `wfrun.engine.prediction.waits.point`.

    Cost of a submission: a simulation of all jobs that run and wait. With FCFS the plan is kept
    until an expected end changes or passes, so that all jobs of a burst but the first cost O(log
    n).
    """

    def __init__(self, cluster: Cluster, runtimes: Runtimes) -> None:
        self._cluster = cluster
        self._runtimes = runtimes
        self._waiting: dict[JobId, OpenJob] = {}
        self._running: dict[JobId, OpenJob] = {}
        self._plan: FcfsPlan | None = None
        self._valid_until_s = inf
        """First expected end of a running job in seconds. The plan is valid until then."""

    def on_submitted(self, key: JobId, job: Job, requested_s: float, now_s: float) -> float | None:
        new = OpenJob(job.cores, requested_s, self._runtimes.submit(key, job, requested_s))
        if self._cluster.lrm == "fcfs":
            start_s = self._plan_fcfs(new, now_s)
        else:
            jobs = [*self._running.values(), *self._waiting.values()]
            start_s = expected_start_s(
                self._cluster.lrm, self._cluster.processors, jobs, new, now_s
            )
        self._waiting[key] = new
        return start_s - now_s

    def on_started(self, key: JobId, now_s: float) -> None:
        job = self._running[key] = self._waiting.pop(key)._replace(started_s=now_s)
        self._valid_until_s = min(self._valid_until_s, now_s + job.expected_s)

    def on_ended(self, key: JobId, now_s: float) -> None:
        job = self._running.pop(key)
        assert job.started_s is not None
        runtime_s = now_s - job.started_s
        if runtime_s != job.expected_s:
            self._plan = None
        for other, expected_s in self._runtimes.end(key, runtime_s):
            self._plan = None
            jobs = self._running if other in self._running else self._waiting
            jobs[other] = jobs[other]._replace(expected_s=expected_s)

    def _plan_fcfs(self, new: OpenJob, now_s: float) -> float:
        plan = self._plan
        if plan is None or now_s >= self._valid_until_s:
            running = self._running.values()
            plan = self._plan = FcfsPlan(self._cluster.processors, running, now_s)
            self._valid_until_s = plan.first_end_s
            for job in self._waiting.values():
                plan.add(job.cores, job.expected_s, now_s)
        return plan.add(new.cores, new.expected_s, now_s)


class WaitPredictorKind(NamedTuple):
    """A wait predictor: its title for users, and its constructor."""

    title: str
    make: Callable[[Cluster], WaitPredictor]
    is_bound: bool = False
    needs_queue: bool = True
    """Whether the predictor simulates the LRM. Other predictors also serve waits under an unknown
    policy."""


POINTS = {"point": False, "point-corrected": True}
"""By name of a point-valued predictor: whether it corrects the predictions of open jobs."""


def _point(corrects: bool) -> Callable[[Cluster], WaitPredictor]:
    return lambda cluster: PointPredictor(cluster, PredictedRuntimes(ByClass(), corrects=corrects))


WAIT_PREDICTORS: dict[str, WaitPredictorKind] = {
    "point": WaitPredictorKind("point-valued", _point(POINTS["point"])),
    "point-corrected": WaitPredictorKind(
        "point-valued, corrected", _point(POINTS["point-corrected"])
    ),
    "bmbp": WaitPredictorKind("BMBP", lambda cluster: BoundPredictor("bmbp"), True, False),
    "chebyshev": WaitPredictorKind(
        "Chebyshev", lambda cluster: BoundPredictor("chebyshev"), True, False
    ),
    "fcfs-estimates": WaitPredictorKind(
        "FCFS on user estimates",
        lambda cluster: PointPredictor(cluster._replace(lrm="fcfs"), RequestedRuntimes()),
        True,
    ),
}
"""The predictors of thesis section 7.3, by name. The point-valued predictors use run times
predicted by Last2 of (User + Application + Size) on Site."""
