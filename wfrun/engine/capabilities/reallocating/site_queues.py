"""The queues of all sites as last observed, with our waiting jobs, as sizing and reallocation see
them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wfrun.engine.capabilities.predictions import UNKNOWN_S
from wfrun.engine.capabilities.queue_estimates import QueueEstimates
from wfrun.engine.fit import admitted_sizes
from wfrun.engine.moldable import RunTimes, RunTimeTable, Sizing, fixed
from wfrun.engine.queue_model import Expected, left_s
from wfrun.engine.queues import JobId, Lrm, QueuedJob
from wfrun.engine.queues.conservative import Conservative
from wfrun.engine.queues.fcfs import Fcfs
from wfrun.engine.reallocation import LrmQueues, Offer, QueueJob, WaitingJob
from wfrun.engine.staging import transfer_s
from wfrun.engine.state import Attempt, Phase, RunState, WorkflowState

TaskNumber = tuple[int, int]
"""A workflow and one of its tasks."""

SHORTEST_S = 1.0
"""Minimum expected time until the end of a running job in seconds."""


class SiteQueues(LrmQueues):
    """Models of the queues of all sites at one moment, made from the open attempts and the latest
    observation of other users' jobs. Of the waiting jobs others come first, since the times of
    their submission are unknown.

    Jobs are planned with their walltimes at the speed of the site, other users' jobs with predicted
    run times. Sites that take no work now make no offers, and their jobs are left alone.
    """

    def __init__(
        self,
        state: RunState,
        sizing: Sizing,
        submitted_s: Mapping[TaskNumber, float],
        moves: Mapping[TaskNumber, int],
    ) -> None:
        """``submitted_s`` is the time of the first submission of each task, ``moves`` the number of
        its moves, by (workflow, task)."""
        lrms: list[Lrm] = [
            (Fcfs if site.spec.backfills is False else Conservative)(site.spec.slots)
            for site in state.sites
        ]
        speeds = [site.spec.speed_ratio for site in state.sites]
        super().__init__(lrms, speeds, sizing=sizing, files_s=self._transfer_s)
        self.now_s = state.now_s
        self._state = state
        self._tasks: dict[JobId, TaskNumber] = {}
        self._known: dict[tuple[int, int, int], RunTimes | None] = {}
        attempts = sorted(state.attempts.values(), key=lambda attempt: attempt.placed_s)
        self._add_running(attempts)
        self._add_others(waiting=False)
        self._add_others(waiting=True)
        for attempt in attempts:
            if attempt.started_s is None:
                self._add_waiting(attempt, submitted_s, moves)

    def _add_running(self, attempts: Iterable[Attempt]) -> None:
        for attempt in attempts:
            if attempt.started_s is not None:
                w, task, site = self._state.workflows[attempt.workflow], attempt.task, attempt.site
                length_s = requested_s(w, task) / self._speeds[site]
                end_s = attempt.started_s + length_s
                self._occupy(site, attempt.key, attempt.cores, end_s - self.now_s)

    def _occupy(self, site: int, job: JobId, cores: int, left: float) -> None:
        """Let a job run. The cluster may have more processors than the catalog grants, so that
        running jobs hold more than there are."""
        lrm = self.lrms[site]
        if (held := min(cores, lrm.free)) > 0:
            lrm.occupy(QueuedJob(job, held, max(SHORTEST_S, left)), self.now_s)

    def _add_others(self, *, waiting: bool) -> None:
        """Add other users' jobs: those that run, or those that wait."""
        models = self._state.get(QueueEstimates).models
        for site, model in enumerate(models):
            for number, job in enumerate(model.background):
                if (job.started_s is None) is waiting:
                    self._add_other(site, f"~{number}", job)

    def _add_other(self, site: int, job_id: JobId, job: Expected) -> None:
        if job.started_s is not None:
            self._occupy(site, job_id, job.cores, left_s(job, self.now_s))
            return
        lrm = self.lrms[site]
        cores = min(job.cores, lrm.processors)
        lrm.submit(QueuedJob(job_id, cores, job.runtime_s), self.now_s)

    def _add_waiting(
        self,
        attempt: Attempt,
        submitted_s: Mapping[TaskNumber, float],
        moves: Mapping[TaskNumber, int],
    ) -> None:
        """Add a job of ours. One that is on its way to a queue, or leaves it, or waits at a site
        that takes no orders now, holds its place and is not moved."""
        w, number = self._state.workflows[attempt.workflow], (attempt.workflow, attempt.task)
        length_s = requested_s(w, attempt.task) / self._speeds[attempt.site]
        job = QueuedJob(attempt.key, attempt.cores, length_s)
        self.lrms[attempt.site].submit(job, self.now_s)
        is_held = attempt.withdrawn or attempt.superseded or attempt.phase is not Phase.QUEUED
        if is_held or not self._state.sites[attempt.site].is_healthy:
            return
        self._tasks[attempt.key] = number
        self.jobs[attempt.key] = QueueJob(
            runtimes_of(w, attempt.task),
            submitted_s.get(number, attempt.placed_s),
            attempt.site,
            attempt.cores,
            length_s,
            moves.get(number, 0),
        )

    def offer(self, job: WaitingJob, site: int) -> Offer | None:
        return self._offer(*self._task(job.id), site)

    def _offer(self, w: WorkflowState, task: int, site: int) -> Offer | None:
        """The offer of a site for a job; None if it does not admit it now."""
        if not self._state.sites[site].is_healthy or not w.allowed_sites(task) >> site & 1:
            return None
        runtimes = self._runtimes(w, task, site)
        return None if runtimes is None else self.offer_of(runtimes, site)

    def _runtimes(self, w: WorkflowState, task: int, site: int) -> RunTimes | None:
        """The requested times of a job by the sizes that a site admits; None: it admits none."""
        key = w.index, task, site
        if key not in self._known:
            known = runtimes_of(w, task)
            if task in w.workflow.moldable:
                sizes = admitted_sizes(w.workflow, task, self._state.sites[site].spec)
                times = {size: known.runtime_s(size) for size in sizes}
                self._known[key] = RunTimeTable(times) if times else None
            else:
                self._known[key] = known
        return self._known[key]

    def best_site(self, w: WorkflowState, task: int, sites: int) -> int | None:
        """The site, of those in a mask, with the earliest completion of a job that is not submitted
        yet, its files included; None if no site admits it."""
        best, best_s = None, 0.0
        for site in range(self.sites):
            offer = self._offer(w, task, site) if sites >> site & 1 else None
            if offer is None:
                continue
            completion_s = offer.completion_s + transfer_s(self._state, w, task, site)
            if best is None or completion_s < best_s:
                best, best_s = site, completion_s
        return best

    def size_at(self, w: WorkflowState, task: int, site: int) -> int:
        """The size with the earliest completion at a site, which admits the job."""
        runtimes = self._runtimes(w, task, site)
        offer = None if runtimes is None else self.offer_of(runtimes, site)
        return w.workflow.moldable[task].sizes[0] if offer is None else offer.size

    def place(self, attempt: Attempt) -> None:
        """Add a job that was just placed."""
        self._add_waiting(attempt, {}, {})

    def _task(self, job: JobId) -> tuple[WorkflowState, int]:
        number, task = self._tasks[job]
        return self._state.workflows[number], task

    def _transfer_s(self, job: JobId, site: int) -> float:
        return transfer_s(self._state, *self._task(job), site)


def runtimes_of(w: WorkflowState, task: int) -> RunTimes:
    """The requested times of a job by size, on processors of speed 1."""
    moldable = w.workflow.moldable.get(task)
    if moldable is None:
        return fixed(w.asked(task).cores, requested_s(w, task))
    return RunTimeTable(dict(zip(moldable.sizes, moldable.walltimes_s, strict=True)))


def requested_s(w: WorkflowState, task: int) -> float:
    """The requested time of a job with its present size: its walltime, else its run time."""
    return w.asked(task).walltime_s or w.workflow.tasks[task].runtime_s or UNKNOWN_S
