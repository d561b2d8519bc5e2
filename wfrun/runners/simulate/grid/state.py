"""The state of a simulated grid, which its scheduler uses for decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wfrun.engine.capabilities.estimates.predictions import UNKNOWN_S
from wfrun.engine.errors import InvalidError
from wfrun.engine.fitting.information import uses_queues
from wfrun.engine.model import SiteSpec
from wfrun.engine.prediction.job import Job, Prediction, Predictor, ValuePredictor, is_plausible
from wfrun.engine.queues import make_lrm
from wfrun.engine.queues.fcfs import Fcfs
from wfrun.runners.simulate.grid.estimates import Estimates
from wfrun.runners.simulate.grid.fcfs_estimates import FcfsEstimates
from wfrun.runners.simulate.grid.model import GridJob, Scheduler


class GridState:
    """Queues, free processors and expected run times. Changed by `GridSimulation` only."""

    def __init__(
        self, jobs: Sequence[GridJob], sites: Sequence[SiteSpec], scheduler: Scheduler, lrm: str
    ) -> None:
        self.jobs = jobs
        self.sites = sites
        self.scheduler = scheduler
        self.cores = [job.cores for job in jobs]
        self.slots = [spec.slots for spec in sites]
        self.speeds = [spec.speed_ratio for spec in sites]
        widest = max(self.slots, default=0)
        for number, job in enumerate(jobs):
            if not 0 < job.cores <= widest:
                raise InvalidError(
                    f"job {number} asks for {job.cores} processors, the largest site has {widest}",
                    hint="leave out jobs that no site can run",
                )
        self.lrms = [make_lrm(lrm, slots) for slots in self.slots]
        self.free = list(self.slots)
        """Processors that no job holds, by site."""
        self.committed = [0] * len(sites)
        """Processors of all running and waiting jobs, by site."""
        self.open_jobs = [0] * len(sites)
        """Number of running and waiting jobs, by site."""
        self.now_s = 0.0
        self.last_site = -1
        self.is_asked = uses_queues(scheduler.policy.information)
        """Whether the policy requests estimates of the queues, such as the start of a job."""
        self.is_requested = self.is_asked or lrm != Fcfs.name
        """Whether queues are given expected run times."""
        self._predictor = scheduler.predictor
        self._value_s = _values_of(scheduler.predictor)
        """Returns the predicted run time of a job in seconds; None if the predictor knows no
        similar job."""
        self._numbers: dict[tuple[str, str, int, float | None], int] = {}
        """Number of each kind of job. A kind is given by the properties that predictors see, so
        that predictors cannot distinguish jobs of one kind."""
        self._kinds: list[tuple[Job, ...]] = []
        """The job as predictors see it, by kind and site."""
        self._kind: list[int] = []
        """Number of the kind of each job. Empty without a predictor."""
        if self._predictor is not None:
            self._kind = [self._number_of(job) for job in jobs]
        self._predicted_s: dict[int, float] = {}
        """Predicted run time of each open job at speed 1, in seconds. Empty unless a job is
        predicted only once, at its submission."""
        self._is_once = not (scheduler.per_site or scheduler.corrected)
        self._seen, self._sum_s = 0, 0.0
        """Number of jobs that have ended, and the sum of their run times at speed 1."""
        self.corrects = scheduler.corrected and self._predictor is not None
        self.estimates: list[Estimates] = []
        if self.is_asked:
            self.estimates = [self._estimates(site, lrm) for site in range(len(sites))]

    def _estimates(self, site: int, lrm: str) -> Estimates:
        if lrm != Fcfs.name:
            return self.scheduler.estimates(self.lrms[site])

        def expected_s(job: int) -> float:
            return self.expected_s(job, site)

        return FcfsEstimates(self.slots[site], expected_s, self._kind if self.corrects else None)

    def expected_s(self, job: int, site: int) -> float:
        """Expected run time of a job at a site, in seconds: without a predictor the actual run
        time, otherwise the prediction. If the predictor knows no similar job, the mean run time of
        all ended jobs."""
        if self._predictor is None:
            return self.jobs[job].runtime_s / self.speeds[site]
        if self._is_once:
            return self._predicted_s[job] / self.speeds[site]
        per_site = self.scheduler.per_site
        value_s = self._value_s(self._kinds[self._kind[job]][site if per_site else 0])
        if value_s is None:
            return self._default_s() / self.speeds[site]
        return value_s if per_site else value_s / self.speeds[site]

    def prediction(self, job: int, site: int) -> Prediction | None:
        """The expected run time of a job at a site, as a prediction with its basis. None if the
        predictor knows no similar job."""
        if self._predictor is None:
            return Prediction(self.expected_s(job, site), "known", 0)
        found = self._predict(job, site)
        return None if found is None else found._replace(value_s=self.expected_s(job, site))

    def _predict(self, job: int, site: int) -> Prediction | None:
        assert self._predictor is not None
        return self._predictor.predict(
            self._kinds[self._kind[job]][site if self.scheduler.per_site else 0]
        )

    def submitted(self, job: int) -> None:
        """Called when a job is submitted. Predicts its run time, if jobs are predicted only
        once."""
        if self._predictor is not None and self._is_once:
            found = self._predict(job, 0)
            self._predicted_s[job] = self._default_s() if found is None else found.value_s

    def ended(self, job: int, site: int) -> None:
        """Called when a job has ended. The predictor learns its run time."""
        predictor = self._predictor
        if predictor is None:
            return
        runtime_s = self.jobs[job].runtime_s
        self._seen += 1
        self._sum_s += runtime_s
        self._predicted_s.pop(job, None)
        per_site = self.scheduler.per_site
        elapsed_s = runtime_s / self.speeds[site] if per_site else runtime_s
        if is_plausible(elapsed_s):
            predictor.observe(self._kinds[self._kind[job]][site if per_site else 0], elapsed_s)
        if self.corrects and not per_site:
            for other, estimates in enumerate(self.estimates):
                if other != site:  # which knows of the end
                    estimates.correct()

    def _default_s(self) -> float:
        return self._sum_s / self._seen if self._seen else UNKNOWN_S

    def _number_of(self, job: GridJob) -> int:
        key = job.owner, job.application, job.cores, job.estimate_s
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._kinds)
            names = [spec.name for spec in self.sites] if self.scheduler.per_site else [""]
            kind = Job("", job.owner, job.application, job.cores, job.estimate_s)
            self._kinds.append(tuple(kind._replace(site=name) for name in names))
        return number


def _values_of(predictor: Predictor | None) -> Callable[[Job], float | None]:
    """Return a function that predicts the run time of a job in seconds, without an interval if
    possible. It returns None if the predictor knows no similar job."""
    if isinstance(predictor, ValuePredictor):
        return predictor.predict_s

    def value_s(job: Job) -> float | None:
        found = None if predictor is None else predictor.predict(job)
        return None if found is None else found.value_s

    return value_s
