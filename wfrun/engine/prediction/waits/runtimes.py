"""Expected run times of the jobs that run and wait, for point-valued predictions of waits."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from wfrun.engine.prediction.classes import CLASSIFICATIONS
from wfrun.engine.prediction.job import Job, Predictor, is_plausible
from wfrun.engine.prediction.methods import Last2
from wfrun.engine.queues import JobId


class Runtimes(Protocol):
    """Gives each open job an expected run time, from its submission to its end."""

    def submit(self, key: JobId, job: Job, requested_s: float) -> float:
        """The expected run time of a job that is submitted now, in seconds."""

    def end(self, key: JobId, runtime_s: float) -> Sequence[tuple[JobId, float]]:
        """Observe the end of a job. Returns the open jobs whose expected run time changes, with
        their new expected run times in seconds."""


class RequestedRuntimes:
    """The requested times: with them FCFS gives an upper bound (thesis section 7.3.2)."""

    def submit(self, key: JobId, job: Job, requested_s: float) -> float:
        return requested_s

    def end(self, key: JobId, runtime_s: float) -> Sequence[tuple[JobId, float]]:
        return ()


class PredictedRuntimes:
    """Expected run times from a predictor.

    Without correction, a job keeps the prediction made at its submission. With correction, when a
    job ends, the open jobs of its class, (User + Application + Size) on Site, get new predictions
    (thesis section 7.3.1). Without a prediction, the expected run time is the user's estimate.
    Without an estimate either, it is the mean run time of the last two jobs of the site, or 0 s
    before the first job has ended. No job is expected to run longer than its estimate, at which an
    LRM ends it; the traces of the thesis have no estimates.

    Cost of a submission or an end: one prediction. With correction, an end costs a prediction for
    each open job of the class.
    """

    def __init__(self, predictor: Predictor, *, corrects: bool) -> None:
        self._predictor = predictor
        self._corrects = corrects
        self._latest = Last2()
        self._class_of = CLASSIFICATIONS["application"].key
        self._jobs: dict[JobId, Job] = {}
        self._alike: dict[Hashable, dict[JobId, Job]] = {}
        """The open jobs of each class, if predictions are corrected."""

    def submit(self, key: JobId, job: Job, requested_s: float) -> float:
        self._jobs[key] = job
        if self._corrects:
            self._alike.setdefault(self._class_of(job), {})[key] = job
        return self.predict_s(job)

    def end(self, key: JobId, runtime_s: float) -> Sequence[tuple[JobId, float]]:
        job = self._jobs.pop(key)
        plausible = is_plausible(runtime_s)
        if plausible:
            self._latest.observe(runtime_s)
            self._predictor.observe(job, runtime_s)
        if not self._corrects:
            return ()
        name = self._class_of(job)
        alike = self._alike[name]
        del alike[key]
        if not alike:
            del self._alike[name]
        return [(other, self.predict_s(its)) for other, its in alike.items()] if plausible else ()

    def predict_s(self, job: Job) -> float:
        """Return the expected run time in seconds of a job that is submitted now."""
        found = self._predictor.predict(job)
        estimate_s = job.estimate_s
        if estimate_s is None or estimate_s <= 0:
            return (self._latest.predict() or 0.0) if found is None else found.value_s
        return estimate_s if found is None else min(found.value_s, estimate_s)
