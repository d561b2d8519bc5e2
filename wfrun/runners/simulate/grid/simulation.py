"""Simulates a grid scheduler over clusters that have their own queues (thesis section 7.4;
Ramírez-Alcaraz et al., J. Grid Computing 9, 2011, sections 2 and 3).

Jobs are submitted to the scheduler. Its placement policy sends each job to a cluster immediately,
but a policy that binds late keeps the job in the global queue until a cluster has enough free
processors. The queue of the chosen cluster decides when the job starts. Jobs do not move to another
cluster.

Queues and policies are those of ``wfrun simulate``. As in real runs, a policy can use only the
information that it declares. The core is not used:
docs/decisions/0018-grids-of-jobs-do-without-the-core.md explains why.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from math import inf

from wfrun.engine.model import SiteSpec
from wfrun.engine.policies.placement import placement_options
from wfrun.engine.policies.policy_error import answer_error
from wfrun.engine.queues import QueuedJob
from wfrun.engine.queues.queue import LrmQueue
from wfrun.runners.simulate.grid.model import GridJob, GridSchedule, Scheduler
from wfrun.runners.simulate.grid.state import GridState
from wfrun.runners.simulate.grid.view import GridView


def simulate_grid(
    jobs: Sequence[GridJob], sites: Sequence[SiteSpec], scheduler: Scheduler, lrm: str = "fcfs"
) -> GridSchedule:
    """Simulate until all jobs have ended. Equal arguments give equal schedules.

    ``jobs`` are in order of submission. Of events at the same time, ends come before submissions.
    No job is killed at its run time limit, because the run times that queues get are only
    estimates. Raises InvalidError if no site can run a job, if the queue model is unknown, or if
    the policy uses files or links. Raises PolicyError if the policy chooses a site that is not a
    candidate.
    """
    return GridSimulation(jobs, sites, scheduler, lrm).run()


class GridSimulation:
    """One simulation of a grid."""

    def __init__(
        self, jobs: Sequence[GridJob], sites: Sequence[SiteSpec], scheduler: Scheduler, lrm: str
    ) -> None:
        self._state = state = GridState(jobs, sites, scheduler, lrm)
        self._policy_class = scheduler.policy
        self._view = GridView(state)
        self._policy = scheduler.policy(self._view, placement_options(scheduler.policy, {}))
        self._queue = _GlobalQueue(blocks=scheduler.blocks)
        self._sleepers = [
            (site, lrm) for site, lrm in enumerate(state.lrms) if not isinstance(lrm, LrmQueue)
        ]
        """(site number, LRM) of each queue that may start a job without an arrival or an end."""
        count = len(jobs)
        self._site = array("i", [-1]) * count
        self._start_s = array("d", [inf]) * count
        self._end_s = array("d", [inf]) * count
        self._ends: list[tuple[float, int]] = []

    def run(self) -> GridSchedule:
        jobs, ends, state = self._state.jobs, self._ends, self._state
        arrived, count = 0, len(jobs)
        while arrived < count or ends or len(self._queue):
            submit_s = jobs[arrived].submit_s if arrived < count else inf
            end_s = ends[0][0] if ends else inf
            wakeup_s, sleeper = self._next_wakeup()
            if wakeup_s < min(submit_s, end_s):
                state.now_s = wakeup_s
                self._start_jobs(sleeper)
            elif end_s <= submit_s:
                state.now_s = end_s
                self._end(heappop(ends)[1])
            else:
                state.now_s = submit_s
                self._arrive(arrived)
                arrived += 1
        return GridSchedule(jobs, state.sites, self._site, self._start_s, self._end_s)

    def _next_wakeup(self) -> tuple[float, int]:
        """(time in seconds, site number) of the earliest start of a job that no submission or end
        triggers; (inf, -1) if there is none."""
        best_s, best = inf, -1
        for site, lrm in self._sleepers:
            if lrm.next_wakeup_s < best_s:
                best_s, best = lrm.next_wakeup_s, site
        return best_s, best

    def _arrive(self, job: int) -> None:
        self._state.submitted(job)
        cores = self._state.cores[job]
        if self._policy_class.binds_late and (
            (self._queue.blocks and len(self._queue)) or max(self._state.free) < cores
        ):
            self._queue.add(job, cores)
        else:
            self._send(job)

    def _send(self, job: int) -> None:
        """Send a job to the site that the policy chooses."""
        state, policy = self._state, self._policy
        site = policy.place(job)
        cores = state.cores[job]
        if site is None or site not in self._view.candidates(job):
            raise answer_error(
                f"placement policy {self._policy_class.name!r} placed job {job} at site {site!r}",
                type(policy).place,
                "It answers with one of view.candidates(task)",
            )
        state.last_site = self._site[job] = site
        state.committed[site] += cores
        state.open_jobs[site] += 1
        length_s = state.expected_s(job, site) if state.is_requested else 0.0
        if state.is_asked:
            state.estimates[site].submit(job, cores, length_s, state.now_s)
        state.lrms[site].submit(QueuedJob(job, cores, length_s), state.now_s)
        self._start_jobs(site)
        policy.placed(job, site)

    def _start_jobs(self, site: int) -> None:
        """Start the jobs that the queue of a site can start now."""
        state, now_s = self._state, self._state.now_s
        for job in state.lrms[site].schedule(now_s):
            assert isinstance(job, int)
            state.free[site] -= state.cores[job]
            end_s = now_s + state.jobs[job].runtime_s / state.speeds[site]
            self._start_s[job], self._end_s[job] = now_s, end_s
            heappush(self._ends, (end_s, job))
            if state.is_asked:
                state.estimates[site].start(job, now_s)

    def _end(self, job: int) -> None:
        state, site = self._state, self._site[job]
        cores = state.cores[job]
        state.lrms[site].end(job, state.now_s)
        state.free[site] += cores
        state.committed[site] -= cores
        state.open_jobs[site] -= 1
        if state.is_asked:
            state.estimates[site].end(job, state.now_s)
        state.ended(job, site)
        self._start_jobs(site)
        while (waiting := self._queue.take(max(state.free))) is not None:
            self._send(waiting)


class _GlobalQueue:
    """The global queue: jobs in order of submission that wait for free processors."""

    def __init__(self, *, blocks: bool) -> None:
        """``blocks``: only the first job of the queue is eligible."""
        self.blocks = blocks
        self._jobs: dict[int, deque[int]] = {}
        """The waiting jobs, by number of cores."""
        self._order: deque[int] = deque()
        """Number of cores of each waiting job, in the order of the queue. Used only if the first
        job blocks the others."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, job: int, cores: int) -> None:
        self._jobs.setdefault(cores, deque()).append(job)
        self._count += 1
        if self.blocks:
            self._order.append(cores)

    def take(self, free: int) -> int | None:
        """Remove and return the first eligible job that needs at most ``free`` cores; None if there
        is no such job."""
        if not self._count:
            return None
        if self.blocks:
            if self._order[0] > free:
                return None
            cores = self._order.popleft()
        else:
            fitting = [(jobs[0], cores) for cores, jobs in self._jobs.items() if cores <= free]
            if not fitting:
                return None
            _, cores = min(fitting)
        jobs = self._jobs[cores]
        job = jobs.popleft()
        if not jobs:
            del self._jobs[cores]
        self._count -= 1
        return job
