"""The queues of all sites as last observed, with our waiting jobs, as sizing and reallocation see
them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from wfrun.engine.capabilities.estimates.predictions import UNKNOWN_S
from wfrun.engine.capabilities.estimates.queue_estimates import QueueEstimates
from wfrun.engine.core.state import Attempt, Phase, RunState, WorkflowState
from wfrun.engine.files.staging import transfer_s
from wfrun.engine.fitting.fit import admitted_sizes
from wfrun.engine.jobs.moldable import MoldableRunTimes, RunTimeTable, Sizing, fixed
from wfrun.engine.jobs.reallocation import LrmQueues, QueueJob, QueueOffer, WaitingJob
from wfrun.engine.queues import JobId, Lrm, QueuedJob
from wfrun.engine.queues.conservative import Conservative
from wfrun.engine.queues.fcfs import Fcfs
from wfrun.engine.queues.queue_model import Expected, left_s, planned_start_s

TaskNumber = tuple[int, int]
"""(workflow, task)."""

SHORTEST_S = 1.0
"""Minimum expected time until the end of a running job in seconds."""


class SiteQueues(LrmQueues):
    """Models of the queues of all sites at one moment, made from the open attempts and the latest
    observation of other users' jobs. In each queue other users' waiting jobs come before ours,
    since their submission times are unknown.

    Our jobs are planned with their walltimes at the speed of the site, other users' jobs with
    predicted run times. If a queue shows its own plan, as Slurm's does, its jobs are planned with
    the starts in this plan and with their walltimes, and an offer is the first gap of the plan that
    is large enough. Sites that take no work now make no offers, and jobs that wait there are not
    moved.
    """

    def __init__(
        self,
        state: RunState,
        sizing: Sizing,
        submitted_s: Mapping[TaskNumber, float],
        moves: Mapping[TaskNumber, int],
    ) -> None:
        """``submitted_s``: time of the first submission of each task. ``moves``: number of moves of
        each task. Both by (workflow, task); absent tasks have the time of their present attempt,
        and no moves."""
        lrms: list[Lrm] = [
            (Fcfs if site.spec.backfills is False else Conservative)(site.spec.slots)
            for site in state.sites
        ]
        speeds = [site.spec.speed_ratio for site in state.sites]
        super().__init__(lrms, speeds, sizing=sizing, files_s=self._transfer_s)
        self.now_s = state.now_s
        self._state = state
        self._tasks: dict[JobId, TaskNumber] = {}
        self._known: dict[tuple[int, int, int], MoldableRunTimes | None] = {}
        attempts = sorted(state.attempts.values(), key=lambda attempt: attempt.placed_s)
        waiting = [attempt for attempt in attempts if attempt.started_s is None]
        self._plans = self._read_plans(waiting)
        self._add_running(attempts)
        others = self._add_others()
        ours = [
            (attempt.site, self._add_waiting(attempt, submitted_s, moves)) for attempt in waiting
        ]
        self._submit_all(others + ours)

    def _add_running(self, attempts: Iterable[Attempt]) -> None:
        for attempt in attempts:
            if attempt.started_s is not None:
                w, task, site = self._state.workflows[attempt.workflow], attempt.task, attempt.site
                length_s = requested_s(w, task) / self._speeds[site]
                end_s = attempt.started_s + length_s
                self._occupy(site, attempt.key, attempt.cores, end_s - self.now_s)

    def _occupy(self, site: int, job: JobId, cores: int, left: float) -> None:
        """Add a running job to the model of a site. ``left``: seconds until its end. A cluster may
        have more processors than the catalog grants, so that running jobs hold more processors than
        the model has. The job gets at most the free processors of the model."""
        lrm = self.lrms[site]
        if (held := min(cores, lrm.free)) > 0:
            lrm.occupy(QueuedJob(job, held, max(SHORTEST_S, left)), self.now_s)

    def _read_plans(self, waiting: Iterable[Attempt]) -> list[dict[JobId, float]]:
        """By site and job: the start in the plan of the site's own queue. Empty for a site whose
        queue shows no plan, or starts jobs strictly in order."""
        estimates = self._state.get(QueueEstimates)
        plans: list[dict[JobId, float]] = [{} for _ in self.lrms]
        for site, model in enumerate(estimates.models):
            if isinstance(self.lrms[site], Conservative):
                for number, job in enumerate(model.background):
                    self._read_start(plans[site], f"~{number}", job.planned_s)
        for attempt in waiting:
            if isinstance(self.lrms[attempt.site], Conservative):
                planned_s = estimates.planned_s[attempt.site].get(attempt.key)
                self._read_start(plans[attempt.site], attempt.key, planned_s)
        return plans

    def _read_start(self, plan: dict[JobId, float], job: JobId, planned_s: float | None) -> None:
        """Add a planned start, unless it is absent or implausible."""
        start_s = planned_start_s(planned_s, self.now_s)
        if start_s is not None:
            plan[job] = start_s

    def _add_others(self) -> list[tuple[int, QueuedJob]]:
        """Add other users' running jobs to the models. Returns other users' waiting jobs, each with
        its site."""
        found = []
        for site, model in enumerate(self._state.get(QueueEstimates).models):
            most = self.lrms[site].processors
            for number, job in enumerate(model.background):
                id, job = f"~{number}", self._as_planned(site, job)
                if job.started_s is not None:
                    self._occupy(site, id, job.cores, left_s(job, self.now_s))
                else:
                    found.append((site, QueuedJob(id, min(job.cores, most), job.runtime_s)))
        return found

    def _as_planned(self, site: int, job: Expected) -> Expected:
        """The job, with its walltime as run time if the queue shows a plan: plans of queues are
        made with walltimes."""
        if not self._plans[site] or job.requested_s is None:
            return job
        return job._replace(runtime_s=job.requested_s, is_predicted=False)

    def _submit_all(self, jobs: Sequence[tuple[int, QueuedJob]]) -> None:
        """Submit waiting jobs to the models of their queues: first the jobs with a planned start,
        in the order of these starts, then the others in the given order."""
        plans = self._plans
        planned = [(plans[site][job.id], site, job) for site, job in jobs if job.id in plans[site]]
        for start_s, site, job in sorted(planned, key=lambda each: each[0]):
            lrm = self.lrms[site]
            assert isinstance(lrm, Conservative), "other queues have no plan"
            lrm.submit(job, self.now_s, start_s)
        for site, job in jobs:
            if job.id not in plans[site]:
                self.lrms[site].submit(job, self.now_s)

    def _add_waiting(
        self,
        attempt: Attempt,
        submitted_s: Mapping[TaskNumber, float],
        moves: Mapping[TaskNumber, int],
    ) -> QueuedJob:
        """Return a waiting job of ours, which the caller submits to the model of its queue. The job
        is registered in ``jobs`` if it can be moved. A job cannot be moved while it is on its way
        to a queue or being withdrawn, while its site takes no jobs, and if its site would no longer
        admit it after a change of the run."""
        w, number = self._state.workflows[attempt.workflow], (attempt.workflow, attempt.task)
        length_s = requested_s(w, attempt.task) / self._speeds[attempt.site]
        most = self.lrms[attempt.site].processors  # may be fewer than it holds, after a change
        job = QueuedJob(attempt.key, min(attempt.cores, most), length_s)
        is_held = attempt.withdrawn or attempt.superseded or attempt.phase is not Phase.QUEUED
        if is_held or attempt.cores > most or not self._is_open(w, attempt.task, attempt.site):
            return job
        self._tasks[attempt.key] = number
        self.jobs[attempt.key] = QueueJob(
            runtimes_of(w, attempt.task),
            submitted_s.get(number, attempt.placed_s),
            attempt.site,
            attempt.cores,
            length_s,
            moves.get(number, 0),
        )
        return job

    def offer(self, job: WaitingJob, site: int) -> QueueOffer | None:
        return self._offer(*self._task(job.id), site)

    def _offer(self, w: WorkflowState, task: int, site: int) -> QueueOffer | None:
        """The offer of a site for a job; None if the site does not admit the job now."""
        if not self._is_open(w, task, site):
            return None
        runtimes = self._runtimes(w, task, site)
        return None if runtimes is None else self.offer_of(runtimes, site)

    def _is_open(self, w: WorkflowState, task: int, site: int) -> bool:
        """Whether a site may get a job now."""
        return self._state.sites[site].is_healthy and bool(w.allowed_sites(task) >> site & 1)

    def _runtimes(self, w: WorkflowState, task: int, site: int) -> MoldableRunTimes | None:
        """The requested time of a job for each size that a site admits, on processors of speed 1;
        None if the site admits no size."""
        key = w.index, task, site
        if key not in self._known:
            known = runtimes_of(w, task)
            if task in w.workflow.moldable:
                spec, growth = self._state.sites[site].spec, w.growth(task)
                sizes = admitted_sizes(w.workflow, task, spec, growth)
                most = w.max_sizes.get((task, site), self._state.sites[site].spec.slots)
                times = {size: known.runtime_s(size) for size in sizes if size <= most}
                self._known[key] = RunTimeTable(times) if times else None
            else:
                self._known[key] = known
        return self._known[key]

    def best_site(self, w: WorkflowState, task: int, sites: int) -> int | None:
        """The site in a mask with the earliest completion of a job that is not submitted yet,
        including the transfer of its files; None if no site admits the job."""
        best, best_s = None, 0.0
        for offer, completion_s in self.offers(w, task, sites):
            if best is None or completion_s < best_s:
                best, best_s = offer.site, completion_s
        return best

    def offers(self, w: WorkflowState, task: int, sites: int) -> Iterator[tuple[QueueOffer, float]]:
        """The offers of the sites in a mask for a job that is not submitted yet. Each comes with
        the completion time of the job there, including the transfer of its files."""
        for site in range(self.sites):
            offer = self._offer(w, task, site) if sites >> site & 1 else None
            if offer is not None:
                yield offer, offer.completion_s + transfer_s(self._state, w, task, site)

    def size_at(self, w: WorkflowState, task: int, site: int) -> int:
        """The size with the earliest completion of a job at a site; its smallest size if the site
        admits none."""
        runtimes = self._runtimes(w, task, site)
        offer = None if runtimes is None else self.offer_of(runtimes, site)
        return w.workflow.moldable[task].sizes[0] if offer is None else offer.size

    def place(self, attempt: Attempt) -> None:
        """Add a job that was just placed to the model of its site."""
        self.lrms[attempt.site].submit(self._add_waiting(attempt, {}, {}), self.now_s)

    def _task(self, job: JobId) -> tuple[WorkflowState, int]:
        number, task = self._tasks[job]
        return self._state.workflows[number], task

    def _transfer_s(self, job: JobId, site: int) -> float:
        return transfer_s(self._state, *self._task(job), site)


def runtimes_of(w: WorkflowState, task: int) -> MoldableRunTimes:
    """The requested time of a job for each of its sizes, on processors of speed 1."""
    moldable = w.workflow.moldable.get(task)
    if moldable is None:
        return fixed(w.asked(task).cores, requested_s(w, task))
    factor = w.growth(task).walltimes
    times_s = (walltime_s * factor for walltime_s in moldable.walltimes_s)
    return RunTimeTable(dict(zip(moldable.sizes, times_s, strict=True)))


def requested_s(w: WorkflowState, task: int) -> float:
    """The requested time of a job with its present size, in seconds on processors of speed 1: its
    walltime, else its documented run time, else `UNKNOWN_S`."""
    return w.asked(task).walltime_s or w.workflow.tasks[task].runtime_s or UNKNOWN_S
