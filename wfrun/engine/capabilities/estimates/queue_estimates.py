"""Estimates of when queues would start a task: the information service of thesis section 6.1.3.

Run times of other users' jobs are those that the queue of the site shows, or else predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from wfrun.engine import events as ev
from wfrun.engine.capabilities.estimates.predictions import UNKNOWN_S, Predictions
from wfrun.engine.core.capability import Capability, Run
from wfrun.engine.core.state import Attempt, WorkflowState
from wfrun.engine.files.staging import transfer_s, transfers_s
from wfrun.engine.fitting.information import Knowledge, uses_queues
from wfrun.engine.prediction.auto import Auto
from wfrun.engine.prediction.classes import ByClass
from wfrun.engine.prediction.job import Job, Predictor, is_plausible
from wfrun.engine.prediction.registry import Chain
from wfrun.engine.queues.queue_model import Expected, QueueModel, make_queue_model

MIN_LEAD_S = 1e-6
"""Minimum difference of two completion times, in seconds. Smaller differences may be rounding
errors."""


class Completion(NamedTuple):
    """The site with the earliest completion of a task, as `QueueEstimates.earliest_completion`
    found it."""

    workflow: int
    task: int
    site: int
    runtime_s: float
    staging_s: float
    later_s: float
    """Earliest time at which any other site would complete the task; infinite without another
    site."""


class QueueEstimates(Capability):
    """Keeps a model of the queue of each site, for policies that use run times and site status.

    Cost of a placement, a start and an end: that of `QueueModel`, which does not grow with the
    queue. Cost of an observation: the jobs observed.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._predictions = self.state.get(Predictions)
        self.models: list[QueueModel] = [
            make_queue_model(
                site.spec.slots,
                backfills=bool(site.spec.backfills),
                keeps_totals=self.state.information.totals,
            )
            for site in self.state.sites
        ]
        self._speed_ratios = [site.spec.speed_ratio for site in self.state.sites]
        predictor = self.state.settings.predictor
        self._foreign = [ForeignRuntimes(predictor) for _ in self.state.sites]
        """Predictors of the run times of other users' jobs, by site."""
        self._jobs: list[dict[str, ev.BackgroundJob]] = [{} for _ in self.state.sites]
        """Other users' jobs of the latest observation, by site and id."""
        self.planned_s: list[dict[str, float]] = [{} for _ in self.state.sites]
        """By site and key: start of our waiting attempts in the plan that the queue of the site
        showed last."""
        self.latest = Completion(-1, -1, -1, 0.0, 0.0, 0.0)
        """The latest answer of ``earliest_completion``."""

    def take_over(self, before: QueueEstimates) -> None:
        """Keep the predictors of other users' run times. The jobs themselves are observed again."""
        self._foreign[: len(before._foreign)] = before._foreign

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        return uses_queues(run.state.information) or begun.settings.plans_queues

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return {ev.SiteObserved: self._observed}

    def on_placed(self, attempt: Attempt) -> None:
        w = self.state.workflows[attempt.workflow]
        task, site, now_s = attempt.task, attempt.site, self.state.now_s
        self.models[site].place(
            attempt.key,
            attempt.cores,
            self.expected_s(w, task, site),
            now_s,
            now_s + transfer_s(self.state, w, task, site),
            None if w.runtimes_s is not None else self._predictions.prediction(w, task, site),
            self._requested_s(w, task, site),
        )

    def on_started(self, attempt: Attempt, event: ev.AttemptStarted) -> None:
        self.models[attempt.site].start(attempt.key, event.at_s)

    def on_absent(self, attempt: Attempt) -> None:
        self.models[attempt.site].unstart(attempt.key)

    def on_left(self, attempt: Attempt) -> None:
        self.models[attempt.site].end(attempt.key, self.state.now_s)

    @property
    def rebuilds(self) -> int:
        """Total number of rebuilds of the models of all sites. Between rebuilds, models only gain
        the tasks that are placed."""
        rebuilds = 0
        for model in self.models:
            rebuilds += model.rebuilds
        return rebuilds

    def expected_s(self, w: WorkflowState, task: int, site: int) -> float:
        """Expected run time of a task at a site, in seconds."""
        if w.runtimes_s is not None:
            return w.runtimes_s[task] / self._speed_ratios[site]
        return self._predictions.expected_s(w, task, site)

    def cancel_first(self, site: int) -> None:
        """Remove the first planned task from the model of a site."""
        model = self.models[site]
        for task in model.end_plan()[1:]:
            model.plan(*task)

    def end_plan(self) -> None:
        """Remove all planned tasks from the models."""
        for model in self.models:
            if model.has_plan:
                model.end_plan()

    def _observed(self, event: ev.SiteObserved) -> None:
        index = event.site
        predictor = self._foreign[index]
        now = {job.id: job for job in event.background}
        for ended in event.ended:
            predictor.observe(_job_of(ended), ended.runtime_s)
        for job in self._jobs[index].values():
            if job.id not in now and job.started_s is not None:
                predictor.observe(_job_of(job), event.at_s - job.started_s)
        self._jobs[index] = now
        self.planned_s[index] = dict(event.planned)
        accurate = self.state.information.background_runtime is Knowledge.KNOWN
        background = [
            Expected(job.cores, job.runtime_s, job.started_s, False, job.requested_s, job.planned_s)
            if accurate and job.runtime_s is not None
            else self._predicted(job, predictor.predict_s(_job_of(job)))
            for job in event.background
        ]
        starts_s = self.planned_s[index]
        if self.state.sites[index].spec.backfills is None and (
            starts_s or any(job.planned_s is not None for job in background)
        ):
            # Only schedulers that backfill plan starts.
            self.models[index] = self.models[index].backfilling()
        self.models[index].observe(background, self.state.now_s, starts_s)

    @staticmethod
    def _predicted(job: ev.BackgroundJob, runtime_s: float | None) -> Expected:
        """A job of another user with its predicted run time. Without history, a waiting job is
        assumed to run for `UNKNOWN_S`, so that sites without a queue are preferred, and a running
        job to be half done."""
        if runtime_s is None:
            runtime_s = UNKNOWN_S if job.started_s is None else 0.0
        return Expected(job.cores, runtime_s, job.started_s, True, job.requested_s, job.planned_s)

    # What policies ask

    def start_s(self, w: WorkflowState, task: int, site: int, duration_s: float) -> float:
        """Earliest start of a task that arrives now at a site and holds its cores for
        ``duration_s``; infinite if the task is larger than the site. The result is a time of the
        run's clock, in seconds. If the queue shows its own plan, the task needs a gap in this plan
        as long as its walltime. If cores are free and no job waits for them, the task starts now,
        whatever the model expects: the model is informed of unexpected ends later."""
        there, now_s = self.state.sites[site], self.state.now_s
        cores = w.workflow.tasks[task].resources.cores
        if there.committed_cores + cores <= there.slots_now and (
            not there.foreign_cores or not there.others_wait
        ):
            return now_s
        model = self.models[site]
        if model.follows_plan:
            duration_s = model.held_s(duration_s, self._requested_s(w, task, site))
        return model.start_s(cores, duration_s, now_s)

    def _requested_s(self, w: WorkflowState, task: int, site: int) -> float | None:
        """The walltime of a task at the speed of a site, in seconds; None: it has none."""
        walltime_s = w.asked(task).walltime_s
        return None if walltime_s is None else walltime_s / self.state.sites[site].spec.speed_ratio

    def earliest_completion(
        self, w: WorkflowState, task: int, sites: Sequence[int], *, staged: bool = False
    ) -> int:
        """The site of ``sites`` with the earliest completion of the task; of equal sites, the
        first. ``staged``: the task starts only after its inputs were transferred to the site, one
        after another. The details of the answer are kept in ``latest``."""
        now_s, runtimes_s = self.state.now_s, w.runtimes_s
        expected_s, start_s = self._predictions.expected_s, self.start_s
        stagings_s = transfers_s(self.state, w, task, sites) if staged else [0.0] * len(sites)
        best, best_s, second_s = sites[0], inf, inf
        best_runtime_s = best_staging_s = 0.0
        for site, staging_s in zip(sites, stagings_s, strict=True):
            if runtimes_s is not None:
                runtime_s = runtimes_s[task] / self._speed_ratios[site]
            else:
                runtime_s = expected_s(w, task, site)
            if staging_s + runtime_s >= best_s:  # However soon it starts there.
                second_s = min(second_s, staging_s + runtime_s)
                continue
            # From now, as `StateView.estimate_completion_s` has it: the same ties after rounding.
            end_s = start_s(w, task, site, staging_s + runtime_s) - now_s + staging_s + runtime_s
            if end_s < best_s:
                best, best_s, second_s = site, end_s, best_s
                best_runtime_s, best_staging_s = runtime_s, staging_s
            elif end_s < second_s:
                second_s = end_s
        self.latest = Completion(
            w.index, task, best, best_runtime_s, best_staging_s, now_s + second_s
        )
        return best

    def completes_before(self, w: WorkflowState, found: Completion) -> bool:
        """Whether the site in ``found`` still completes its task before any other site could,
        despite the tasks that were placed at this site since. The earliest completion elsewhere is
        taken from ``found.later_s``."""
        if found.later_s == inf:
            return True
        duration_s = found.staging_s + found.runtime_s
        end_s = self.start_s(w, found.task, found.site, duration_s) + duration_s
        return end_s < found.later_s - MIN_LEAD_S


def _job_of(job: ev.BackgroundJob | ev.EndedJob) -> Job:
    """The class of another user's job."""
    return Job("", job.owner, job.application, job.cores)


class ForeignRuntimes:
    """Predicts the run times of other users' jobs at one site from ended jobs. The prediction
    method is applied to the first of these groups with enough jobs: the same user, application and
    number of cores; the same user (thesis section 7.2.1); the same number of cores; all jobs.
    ``auto`` uses the best method so far."""

    def __init__(self, predictor: str) -> None:
        self._named: Predictor
        """Predictor for jobs whose owner the queue shows."""
        self._any: Predictor
        """Predictor for all jobs, whatever their owner."""
        if predictor == "auto":
            self._named, self._any = Auto(), Auto()
        else:
            self._named = Chain([ByClass(predictor, name) for name in ("application", "user-site")])
            self._any = Chain([ByClass(predictor, name) for name in ("application", "site")])
        self._cache: dict[Job, float | None] = {}
        """Cache of the predictions since the last observation: queues are long."""

    def observe(self, job: Job, runtime_s: float) -> None:
        """Observe a job that has ended. Implausible run times are ignored."""
        if not is_plausible(runtime_s):
            return
        if job.owner:
            self._named.observe(job, runtime_s)
        self._any.observe(_anonymous(job), runtime_s)
        self._cache.clear()

    def predict_s(self, job: Job) -> float | None:
        """Expected run time of a job in seconds; None if too few jobs have ended for a
        prediction."""
        if job not in self._cache:
            found = self._named.predict(job) if job.owner else None
            if found is None:
                found = self._any.predict(_anonymous(job))
            self._cache[job] = None if found is None else found.value_s
        return self._cache[job]


def _anonymous(job: Job) -> Job:
    return Job("", "", cores=job.cores)
