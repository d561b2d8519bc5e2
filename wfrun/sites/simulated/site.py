"""A cluster in virtual time: a queue, a head node, other users, and failures.

Nothing is computed or written: a task takes the run time in its request, and its outputs have the
sizes in its request. Otherwise the site behaves like a real one, and has the same protocol.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import inf
from random import Random
from typing import Protocol

import msgspec

from wfrun.engine.events import (
    AttemptEnded,
    AttemptsSubmitted,
    AttemptStarted,
    BackgroundJob,
    EndedJob,
    Event,
    SitePaused,
    SiteReopened,
)
from wfrun.engine.exchange import AttemptRequest, Cause, Content, Found, Outcome
from wfrun.engine.fitting.information import Observed
from wfrun.engine.model import Resources, SiteSpec
from wfrun.sites.batch.observation import Observer
from wfrun.sites.simulated.model import SiteModel
from wfrun.sites.simulated.nodes import NodeMap
from wfrun.sites.simulated.queues import JobId, QueuedJob, SimulatedJob, make_lrm

MAX_PAST = 1000
"""Maximum number of other users' ended jobs that the first observation of a site reports."""

ENDS = 0
"""Rank of ends among the events of one time: before arrivals (Mu'alem and Feitelson)."""
ARRIVALS = 1
LAST = 2


class Timeline(Protocol):
    """The virtual clock of a simulated site."""

    def now(self) -> float:
        """Seconds since the start of the simulation."""

    def schedule(self, at_s: float, call: Callable[[], None], rank: int = 1) -> None:
        """Call ``call`` at the virtual time ``at_s``, before calls of a higher rank at the same
        time."""


class SimulatedRequest(AttemptRequest, frozen=True):
    """A request that contains the outcome of the attempt."""

    runtime_s: float = 0.0
    """Run time in seconds at the speed of the site. It is divided by the relative speed of the
    node."""
    sizes: tuple[int, ...] = ()
    """Sizes of the outputs in bytes."""
    exit_code: int = 0
    """Exit code of the task, unless the site ends the attempt."""


def request_of(
    key: str, program: str, resources: Resources, runtime_s: float, sizes: tuple[int, ...] = ()
) -> SimulatedRequest:
    """The request of an attempt at a simulated site, which has no files and no streams.

    ``runtime_s`` is the attempt's run time at the speed of the site; ``sizes`` are the sizes of its
    outputs in bytes.
    """
    # By position: a request of each task is made, and names cost more than the rest.
    return SimulatedRequest(
        key, (program,), {}, (), (), None, None, None, resources, runtime_s=runtime_s, sizes=sizes
    )


class _Attempt(msgspec.Struct, eq=False, gc=False):
    request: SimulatedRequest
    started_s: float | None = None
    hosts: str | None = None
    """The nodes that the attempt runs on, if the site has nodes."""
    speed_ratio: float = 1.0
    """Speed of the slowest of its nodes, relative to that of the site."""
    alive: bool = True


class SimulatedSite:
    """Implements ``Site``. ``background`` has other users' jobs in order of submission; none is
    submitted before the start of the clock. Before ``observed_from_s`` these jobs are not reported
    and no outage begins. ``observed`` selects what is reported of other users' jobs.

    If ``spec`` has nodes, ``NodeMap`` places jobs on them. Raises InvalidError for invalid nodes.
    """

    def __init__(
        self,
        spec: SiteSpec,
        index: int,
        timeline: Timeline,
        model: SiteModel | None = None,
        *,
        background: Sequence[SimulatedJob] = (),
        observed_from_s: float = 0.0,
        observed: Observed = "jobs",
        seed: int = 0,
    ) -> None:
        self.spec = spec
        self._observer = Observer(index, observed)
        self.lrm = make_lrm((model or SiteModel()).lrm, spec.slots)
        self.nodes = NodeMap(spec) if spec.nodes else None
        """The nodes of running jobs; None: the site is a single pool of cores."""
        self._model = model or SiteModel()
        self._is_immediate = not self._model.submit_s and not self._model.start_s
        """Whether a submission reaches the queue at once."""
        self._index = index
        self._time = timeline
        self._post: Callable[[Event], None] = refuse
        self._attempts: dict[str, _Attempt] = {}
        """Attempts that have not ended, by key."""
        self._ended: dict[str, Outcome] = {}
        self._head_free_s = 0.0
        self._background = iter(background)
        self._others: dict[JobId, tuple[SimulatedJob, BackgroundJob]] = {}
        self._repairs: dict[int, BackgroundJob] = {}
        """Repair of each failed node, as the information service reports it, by node."""
        self._node_random: dict[int, Random] = {}
        """Random generator for the failures of each node that may fail, by node."""
        self._past: deque[EndedJob] | None = deque(maxlen=MAX_PAST)
        """Other users' jobs that ended before the first observation; None after it."""
        self._others_changed = False
        self._observed_from_s = observed_from_s
        self._random = Random(f"{seed}/{spec.name}")
        self._seed = seed
        self._wakeup_s = inf
        self._down = False
        self._held: list[_Attempt] = []
        """Attempts submitted during an outage; they join the queue after it."""
        self._ending: set[str] = set()
        """Attempts that have ended and still hold their cores."""

    # The protocol

    async def open(self, post: Callable[[Event], None]) -> None:
        self._post = post
        self._next_background(self._background)
        if self._model.outage_every_s:
            self._plan_outage()
        for node in range(len(self.nodes.nodes) if self.nodes is not None else 0):
            self._plan_failure(node)

    async def submit(self, batch: Sequence[AttemptRequest]) -> None:
        self.submit_now(batch)

    def submit_now(self, batch: Sequence[AttemptRequest]) -> None:
        """Submit as ``submit`` does, without a coroutine, which would double the cost of a
        submission."""
        now_s = self._time.now()
        keys = tuple([request.key for request in batch])
        self._post(AttemptsSubmitted(now_s, self._index, keys))
        for request in batch:
            assert isinstance(request, SimulatedRequest)
            if request.key in self._ended:
                self._post(AttemptEnded(now_s, request.key, self._ended[request.key]))
            elif request.key not in self._attempts:
                attempt = self._attempts[request.key] = _Attempt(request)
                if self._is_immediate:
                    self._arrive(attempt, now_s)
                else:
                    self._pass_head(attempt, now_s)
        if self._is_immediate:
            self._schedule(now_s)

    async def cancel(self, keys: Sequence[str], *, queued_only: bool = False) -> None:
        for key in keys:
            attempt = self._attempts.get(key)
            if attempt is None or (queued_only and attempt.started_s is not None):
                continue
            self.stop(key)

    async def find(self, keys: Sequence[str]) -> Mapping[str, Found]:
        found = {}
        for key in keys:
            if key in self._ended:
                found[key] = Found("ended", self._ended[key])
            else:
                found[key] = Found("active" if key in self._attempts else "absent")
        return found

    async def log(self, key: str) -> tuple[bytes, bytes]:
        """Simulated tasks have no output."""
        return b"", b""

    async def absent(self, files: Mapping[str, Content]) -> list[str]:
        """Return no file: none is ever lost."""
        return []

    async def remove(self, names: Sequence[str]) -> None:
        """Do nothing: there are no files."""

    async def clean(self) -> None:
        """Do nothing: there are no files."""

    async def close(self) -> None:
        self._post = refuse

    def placed(self, key: str) -> tuple[str | None, float]:
        """Return the nodes of a running attempt, and the speed of the slowest of them relative to
        that of the site."""
        attempt = self._attempts[key]
        return attempt.hosts, attempt.speed_ratio

    def stop(self, key: str) -> None:
        """End an attempt as cancelled."""
        attempt = self._attempts.get(key)
        if attempt is not None:
            now_s = self._time.now()
            self._leave(key, attempt)
            self._report(key, self._outcome(attempt, "cancelled", now_s), now_s)
            self._schedule(now_s)

    # The head node

    def _pass_head(self, attempt: _Attempt, now_s: float) -> None:
        """Serve submissions one after another; each takes longer the more attempts are at the
        site."""
        cost_s = self._model.submit_s
        if self._model.overload_jobs:
            cost_s *= 1 + (len(self._attempts) / self._model.overload_jobs) ** 2
        self._head_free_s = max(self._head_free_s, now_s) + cost_s
        arrives_s = self._head_free_s + self._model.start_s
        self._time.schedule(arrives_s, lambda: self._arrive_late(attempt), ARRIVALS)

    def _arrive_late(self, attempt: _Attempt) -> None:
        now_s = self._time.now()
        self._arrive(attempt, now_s)
        self._schedule(now_s)

    def _arrive(self, attempt: _Attempt, now_s: float) -> None:
        """Put an attempt into the queue, or hold it during an outage. A cancelled attempt is
        ignored."""
        if not attempt.alive:
            return
        request = attempt.request
        if self._down:
            self._held.append(attempt)
            return
        requested_s = request.resources.walltime_s
        if requested_s is None:  # exactly its run time, on the slowest node
            slowest_ratio = 1.0 if self.nodes is None else self.nodes.slowest_ratio
            requested_s = request.runtime_s / slowest_ratio + self._model.hold_s
        self.lrm.submit(QueuedJob(request.key, request.resources.cores, requested_s), now_s)

    # The queue

    def _schedule(self, now_s: float) -> None:
        """Start the jobs that the queue selects, and schedule its next wake-up."""
        for job in self.lrm.schedule(now_s):
            if isinstance(job, str):
                self._start(job, now_s)
            else:
                self._start_other(job, now_s)
        wakeup_s = self.lrm.next_wakeup_s
        if wakeup_s != self._wakeup_s:
            self._wakeup_s = wakeup_s
            if wakeup_s < inf:
                self._time.schedule(wakeup_s, self._wake, LAST)

    def _wake(self) -> None:
        now_s = self._time.now()
        if now_s == self._wakeup_s:
            self._wakeup_s = inf
            self._schedule(now_s)

    def _start(self, key: str, now_s: float) -> None:
        attempt = self._attempts[key]
        attempt.started_s = now_s
        request = attempt.request
        runtime_s = request.runtime_s
        if self.nodes is not None:
            attempt.speed_ratio = self.nodes.place(key, request.resources.cores)
            attempt.hosts = self.nodes.hosts(key)
            runtime_s /= attempt.speed_ratio
        self._post(AttemptStarted(now_s, key))
        cause: Cause = "exit" if request.exit_code else "done"
        walltime_s = request.resources.walltime_s
        if walltime_s is not None and self._model.kill_overruns and runtime_s > walltime_s:
            runtime_s, cause = walltime_s, "walltime"
        if self._model.failure_rate:
            random = Random(f"{self._seed}/{key}")
            if random.random() < self._model.failure_rate:
                runtime_s, cause = runtime_s * random.random(), "exit"
        self._time.schedule(now_s + runtime_s, partial(self._end, attempt, cause), ENDS)

    def _end(self, attempt: _Attempt, cause: Cause) -> None:
        if not attempt.alive:
            return  # it was cancelled, or lost with its node or in an outage
        key, now_s = attempt.request.key, self._time.now()
        attempt.alive = False
        del self._attempts[key]
        self._report(key, self._outcome(attempt, cause, now_s), now_s)
        if self._model.hold_s:
            self._ending.add(key)
            self._time.schedule(now_s + self._model.hold_s, lambda: self._let_go(key), ENDS)
        else:
            self._release(key, now_s)
            self._schedule(now_s)

    def _let_go(self, key: str) -> None:
        """Free the cores of an attempt that has ended, unless its node has failed since."""
        if key in self._ending:
            now_s = self._time.now()
            self._ending.remove(key)
            self._release(key, now_s)
            self._schedule(now_s)

    def _leave(self, key: str, attempt: _Attempt) -> None:
        attempt.alive = False
        del self._attempts[key]
        now_s = self._time.now()
        if attempt.started_s is not None:
            self._release(key, now_s)
        else:
            try:
                self.lrm.cancel(key, now_s)
            except KeyError:
                return  # it is still at the head node

    def _release(self, job: JobId, now_s: float) -> None:
        """Free the processors of a running job."""
        self.lrm.end(job, now_s)
        if self.nodes is not None:
            self.nodes.release(job)

    def _outcome(
        self, attempt: _Attempt, cause: Cause, now_s: float, why: str | None = None
    ) -> Outcome:
        request = attempt.request
        if cause == "done":
            return Outcome(
                cause,
                exit_code=0,
                started_s=attempt.started_s,
                ended_s=now_s,
                sizes=request.sizes,
                host=attempt.hosts,
            )
        return Outcome(
            cause,
            exit_code=(request.exit_code or 1) if cause == "exit" else None,
            started_s=attempt.started_s,
            ended_s=now_s,
            host=attempt.hosts,
            message=f"simulated: {why or cause}",
        )

    def _report(self, key: str, outcome: Outcome, now_s: float) -> None:
        """Record the outcome of an attempt, and report it after ``end_s``, at the next poll."""
        self._ended[key] = outcome
        poll_s, end_s = self._model.poll_s, self._model.end_s
        if not poll_s and not end_s:
            self._post(AttemptEnded(now_s, key, outcome))
            return
        known_s = now_s + end_s
        if poll_s:
            known_s = -(-known_s // poll_s) * poll_s
        self._time.schedule(known_s, lambda: self._tell(key, outcome), ENDS)

    def _tell(self, key: str, outcome: Outcome) -> None:
        self._post(AttemptEnded(self._time.now(), key, outcome))

    # Other users

    def _next_background(self, jobs: Iterator[SimulatedJob], number: int = 0) -> None:
        job = next(jobs, None)
        if job is None:
            return

        def arrive() -> None:
            if not self._down:
                length_s = self._length_s(job, 1.0)
                record = BackgroundJob(
                    str(number), job.cores, None, length_s, job.owner, job.application
                )
                self._others[number] = job, record
                self._change_others()
                now_s = self._time.now()
                self.lrm.submit(QueuedJob(number, job.cores, job.requested_s), now_s)
                self._schedule(now_s)
            self._next_background(jobs, number + 1)

        self._time.schedule(job.submit_s, arrive, ARRIVALS)

    def _start_other(self, number: JobId, now_s: float) -> None:
        job, record = self._others[number]
        speed_ratio = 1.0 if self.nodes is None else self.nodes.place(number, job.cores)
        length_s = self._length_s(job, speed_ratio)
        running = BackgroundJob(record.id, job.cores, now_s, length_s, job.owner, job.application)
        self._others[number] = job, running
        self._change_others()

        def end() -> None:
            if self._others.pop(number, None) is not None:
                if self._past is not None:
                    self._past.append(EndedJob(job.cores, length_s, job.owner, job.application))
                self._change_others()
                now_s = self._time.now()
                self._release(number, now_s)
                self._schedule(now_s)

        self._time.schedule(now_s + length_s, end, ENDS)

    def _length_s(self, job: SimulatedJob, speed_ratio: float) -> float:
        length_s = job.runtime_s / speed_ratio
        return min(length_s, job.requested_s) if self._model.kill_overruns else length_s

    def _change_others(self) -> None:
        """Schedule the next report of the information service."""
        if self._others_changed:
            return
        self._others_changed = True
        period_s = self._model.observe_s
        turn_s = (self._time.now() // period_s + 1) * period_s
        self._time.schedule(max(turn_s, self._observed_from_s), self._observe, LAST)

    def _observe(self) -> None:
        """Report other users' jobs: repairs and running jobs first, then the queue in its order."""
        self._others_changed = False
        others = [record for _, record in self._others.values()]
        jobs = [*self._repairs.values(), *sorted(others, key=lambda job: job.started_s is None)]
        ended, self._past = self._past or (), None
        event = self._observer.observe(self._time.now(), jobs, tuple(ended))
        if event is not None:
            self._post(event)

    # Outages

    def _plan_outage(self) -> None:
        from_s = max(self._time.now(), self._observed_from_s)
        wait_s = self._random.expovariate(1 / self._model.outage_every_s)
        self._time.schedule(from_s + wait_s, self._go_down, LAST)

    def _go_down(self) -> None:
        now_s = self._time.now()
        self._down = True
        self._head_free_s = now_s  # the submissions that waited there are lost
        self._post(SitePaused(now_s, self._index, "simulated outage"))
        for key, attempt in list(self._attempts.items()):
            self._leave(key, attempt)
            self._report(key, self._outcome(attempt, "lost", now_s), now_s)
        for number, (_, record) in list(self._others.items()):
            del self._others[number]
            if record.started_s is None:
                self.lrm.cancel(number, now_s)
            else:
                self._release(number, now_s)
        self._change_others()
        mean_s = self._model.outage_s or 1.0
        self._time.schedule(now_s + self._random.expovariate(1 / mean_s), self._come_up, LAST)

    def _come_up(self) -> None:
        now_s = self._time.now()
        self._down = False
        self._post(SiteReopened(now_s, self._index))
        held, self._held = self._held, []
        for attempt in held:
            self._arrive(attempt, now_s)
        self._schedule(now_s)
        self._plan_outage()

    # Failures of nodes

    def _plan_failure(self, node: int) -> None:
        """Schedule the next failure of a node. Each node has a generator of its own, so that
        failures do not change other random numbers."""
        assert self.nodes is not None
        name, kind = self.nodes.nodes[node].name, self.nodes.nodes[node].kind
        if not kind.mtbf_s:
            return
        random = self._node_random.setdefault(node, Random(f"{self._seed}/node/{name}"))
        fails_s = self._time.now() + random.expovariate(1 / kind.mtbf_s)
        self._time.schedule(fails_s, lambda: self._fail(node), LAST)

    def _fail(self, node: int) -> None:
        """End the jobs of a node as lost, and take it out of service until it is repaired."""
        assert self.nodes is not None
        now_s = self._time.now()
        name, kind = self.nodes.nodes[node].name, self.nodes.nodes[node].kind
        for job in self.nodes.jobs_on(node):
            if job in self._ending:
                self._ending.remove(str(job))
                self._release(job, now_s)
            elif isinstance(job, str):
                attempt = self._attempts[job]
                self._leave(job, attempt)
                outcome = self._outcome(attempt, "lost", now_s, f"node {name} failed")
                self._report(job, outcome, now_s)
            else:
                del self._others[job]
                self._release(job, now_s)
        self.nodes.take_out(node)
        repair = f"repair of {name}"
        self.lrm.occupy(QueuedJob(repair, kind.cores, kind.mttr_s), now_s)
        self._repairs[node] = BackgroundJob(repair, kind.cores, now_s, kind.mttr_s)
        self._change_others()
        takes_s = self._node_random[node].expovariate(1 / kind.mttr_s)
        self._time.schedule(now_s + takes_s, lambda: self._put_back(node), ENDS)
        self._schedule(now_s)

    def _put_back(self, node: int) -> None:
        assert self.nodes is not None
        now_s = self._time.now()
        self.lrm.end(self._repairs.pop(node).id, now_s)
        self.nodes.put_back(node)
        self._change_others()
        self._schedule(now_s)
        self._plan_failure(node)


def refuse(event: Event) -> None:
    """Receiver of events while the site is not open: raises AssertionError."""
    raise AssertionError("the site is not open")
