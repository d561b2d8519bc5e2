"""Run times of other users' jobs at a site, as its queue shows them."""

from __future__ import annotations

from wfrun.engine.prediction.auto import Auto
from wfrun.engine.prediction.chain import Chain
from wfrun.engine.prediction.classes import ByClass
from wfrun.engine.prediction.job import Job, Predictor, is_plausible


class ForeignRuntimes:
    """Predicts how long other users' jobs run at one site: by the method, from those of the same
    user, application and number of cores, else of the same user (thesis section 7.2.1), else from
    those with as many cores, else from all; with ``auto`` by the best so far."""

    def __init__(self, predictor: str) -> None:
        self._named: Predictor
        """For jobs whose owner the queue shows."""
        self._any: Predictor
        """For all jobs, whoever owns them."""
        if predictor == "auto":
            self._named, self._any = Auto(), Auto()
        else:
            self._named = Chain([ByClass(predictor, name) for name in ("application", "user-site")])
            self._any = Chain([ByClass(predictor, name) for name in ("application", "site")])
        self._cache: dict[Job, float | None] = {}
        """Predictions since the last observation: queues are long."""

    def observe(self, job: Job, runtime_s: float) -> None:
        """Observe a job that has ended. Implausible run times are ignored."""
        if not is_plausible(runtime_s):
            return
        if job.owner:
            self._named.observe(job, runtime_s)
        self._any.observe(_anonymous(job), runtime_s)
        self._cache.clear()

    def predict_s(self, job: Job) -> float | None:
        """Expected run time of a job; None before the first has ended."""
        if job not in self._cache:
            found = self._named.predict(job) if job.owner else None
            if found is None:
                found = self._any.predict(_anonymous(job))
            self._cache[job] = None if found is None else found.value_s
        return self._cache[job]


def _anonymous(job: Job) -> Job:
    return Job("", "", cores=job.cores)
