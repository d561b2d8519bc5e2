"""A cluster with launchers in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import cast

import msgspec

from wfrun.engine.events import (
    AttemptEnded,
    AttemptsSubmitted,
    AttemptStarted,
    Event,
    LauncherEnded,
    LaunchersSubmitted,
    LauncherStarted,
)
from wfrun.engine.exchange import (
    AttemptRequest,
    Cause,
    ClaimedNode,
    Content,
    Found,
    LauncherRequest,
    Outcome,
    claim_of,
)
from wfrun.engine.fitting.information import Observed
from wfrun.engine.model import Resources, SiteSpec
from wfrun.sites.simulated.model import SiteModel
from wfrun.sites.simulated.queues import SimulatedJob
from wfrun.sites.simulated.site import (
    ENDS,
    SimulatedRequest,
    SimulatedSite,
    Timeline,
    refuse,
    request_of,
)

CHANNEL_S = 0.05
"""Delay in seconds of the report of a task's end, as over a real channel; ``SiteModel.end_s``
replaces it unless that is 0."""


class _Launcher:
    __slots__ = ("claim", "ends_s", "free_cores", "key", "running", "speed_ratio", "stopping")

    def __init__(self, key: str, cores: int, ends_s: float, speed_ratio: float) -> None:
        self.key = key
        self.claim = claim_of(key)
        self.free_cores = cores
        self.ends_s = ends_s
        self.speed_ratio = speed_ratio
        self.running: dict[str, tuple[SimulatedRequest, float]] = {}
        """Request and start time of each running attempt, by key."""
        self.stopping = False


class SimulatedLauncherSite:
    """Implements ``LauncherSite``. The launchers are jobs of a ``SimulatedSite``, and may fail like
    any job there. Attempts start first come, first served. Of the launchers with enough free cores
    and enough time left, an attempt starts in the one that ends last. If there is none, the attempt
    waits for a further launcher. But if no launcher's walltime suffices for its run time, it starts
    in the launcher with enough free cores that ends last."""

    def __init__(
        self,
        spec: SiteSpec,
        index: int,
        timeline: Timeline,
        model: SiteModel | None = None,
        *,
        background: Sequence[SimulatedJob] = (),
        observed_from_s: float = 0.0,
        observed: Observed = "nothing",
        seed: int = 0,
    ) -> None:
        self.spec = spec
        model = model or SiteModel()
        self._failure_rate = model.failure_rate
        self._kill_overruns = model.kill_overruns
        self._hold_s = model.hold_s
        self._report_s = model.end_s or CHANNEL_S
        self.jobs = SimulatedSite(
            spec,
            index,
            timeline,
            msgspec.structs.replace(model, failure_rate=0.0, hold_s=0.0),
            background=background,
            observed_from_s=observed_from_s,
            observed=observed,
            seed=seed,
        )
        """The site whose jobs are the launchers."""
        self._index = index
        self._time = timeline
        self._seed = seed
        self._post: Callable[[Event], None] = refuse
        self._asked: dict[str, LauncherRequest] = {}
        self._longest_s = 0.0
        """Longest walltime of the launchers requested last."""
        self._live: dict[str, _Launcher] = {}
        self._pending: dict[str, SimulatedRequest] = {}
        self._where: dict[str, _Launcher] = {}
        """Launcher of each running attempt, by the attempt's key."""
        self._ended: dict[str, Outcome] = {}

    async def open(self, post: Callable[[Event], None]) -> None:
        self._post = post
        await self.jobs.open(self._on_job)

    async def close(self) -> None:
        await self.jobs.close()
        self._post = refuse

    async def submit(self, batch: Sequence[AttemptRequest]) -> None:
        self.submit_now(batch)

    def submit_now(self, batch: Sequence[AttemptRequest]) -> None:
        """Submit as ``submit`` does, without a coroutine."""
        now_s = self._time.now()
        self._post(AttemptsSubmitted(now_s, self._index, tuple(r.key for r in batch)))
        for request in batch:
            if request.key in self._ended:
                self._post(AttemptEnded(now_s, request.key, self._ended[request.key]))
            elif request.key not in self._where:
                self._pending[request.key] = cast(SimulatedRequest, request)
        self._assign()

    async def cancel(self, keys: Sequence[str], *, queued_only: bool = False) -> None:
        for key in keys:
            if key in self._pending:
                self._conclude(self._pending.pop(key), "cancelled", None)
            elif key in self._where and not queued_only:
                self._end(self._where[key], key, "cancelled")
        self._assign()

    async def find(self, keys: Sequence[str]) -> Mapping[str, Found]:
        found = {}
        for key in keys:
            if key in self._ended:
                found[key] = Found("ended", self._ended[key])
            else:
                there = key in self._pending or key in self._where
                found[key] = Found("active" if there else "absent")
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

    # Launchers

    async def start_launchers(self, launchers: Sequence[LauncherRequest]) -> None:
        fresh = [launcher for launcher in launchers if launcher.key not in self._asked]
        self._longest_s = max((x.walltime_s for x in fresh), default=self._longest_s)
        self._asked.update((launcher.key, launcher) for launcher in fresh)
        await self.jobs.submit([_job_of(launcher) for launcher in fresh])

    async def stop_launchers(self, keys: Sequence[str], *, now: bool = False) -> None:
        for key in keys:
            launcher = self._live.get(key)
            if launcher is not None:
                launcher.stopping = True
                for attempt in list(launcher.running) if now else ():
                    self._end(launcher, attempt, "reclaimed")
            if launcher is None or not launcher.running:
                await self.jobs.cancel([key])

    async def resize(
        self, key: str, launcher: str, number: int, nodes: Sequence[ClaimedNode], shrink: int
    ) -> None:
        """Do nothing: simulated programs never change their size."""

    async def find_launchers(self, keys: Sequence[str]) -> Mapping[str, Found]:
        return await self.jobs.find(keys)

    async def dismiss(self) -> None:
        await self.jobs.cancel(list(self._asked))

    def _on_job(self, event: Event) -> None:
        """Report an event of a launcher's job as an event of the launcher."""
        if isinstance(event, AttemptsSubmitted):
            self._post(LaunchersSubmitted(event.at_s, self._index, event.keys))
        elif isinstance(event, AttemptStarted):
            self._begin(event.key)
        elif isinstance(event, AttemptEnded):
            self._finish(event.key, event.outcome)
        else:
            self._post(event)

    def _begin(self, key: str) -> None:
        asked, now_s = self._asked[key], self._time.now()
        cores, ends_s = asked.cores * asked.nodes, now_s + asked.walltime_s
        host, speed_ratio = self.jobs.placed(key)
        self._live[key] = _Launcher(key, cores, ends_s, speed_ratio)
        self._time.schedule(ends_s, lambda: self._expire(key), ENDS)
        self._post(
            LauncherStarted(
                now_s, self._index, key, host or "", cores, ends_s, "simulated", self._report_s
            )
        )
        self._assign()

    def _expire(self, key: str) -> None:
        """End a launcher at its walltime."""
        launcher = self._live.get(key)
        if launcher is None:
            return
        launcher.stopping = True
        for attempt in list(launcher.running):
            self._end(launcher, attempt, "expired")
        self.jobs.stop(key)

    def _finish(self, key: str, outcome: Outcome) -> None:
        launcher = self._live.pop(key, None)
        is_stopped = launcher is not None and launcher.stopping
        for attempt in list(launcher.running) if launcher is not None else ():
            assert launcher is not None
            self._end(launcher, attempt, "lost", outcome.message)
        cause, message = outcome.cause, outcome.message
        if is_stopped and cause == "cancelled":
            cause, message = "done", None
        self._post(LauncherEnded(self._time.now(), self._index, key, cause, message))

    # Attempts

    def _assign(self) -> None:
        for key, request in list(self._pending.items()):
            launcher = self._choose(request)
            if launcher is None:
                if request.claim:
                    continue  # Its placeholder runs nothing else, so nobody waits for it.
                return
            del self._pending[key]
            self._start(launcher, request)

    def _choose(self, request: SimulatedRequest) -> _Launcher | None:
        now_s = self._time.now()
        cores = request.resources.cores
        free = [
            x
            for x in self._live.values()
            if x.free_cores >= cores and not x.stopping and x.claim == request.claim
        ]
        in_time = [x for x in free if now_s + request.runtime_s / x.speed_ratio <= x.ends_s]
        if not in_time and request.runtime_s < self._longest_s:
            return None  # the next launcher will have enough time
        return max(in_time or free, key=lambda x: x.ends_s, default=None)

    def _start(self, launcher: _Launcher, request: SimulatedRequest) -> None:
        now_s, key = self._time.now(), request.key
        runtime_s = request.runtime_s / launcher.speed_ratio
        cause: Cause = "exit" if request.exit_code else "done"
        walltime_s = request.resources.walltime_s
        if walltime_s is not None and self._kill_overruns and runtime_s > walltime_s:
            runtime_s, cause = walltime_s, "walltime"
        if self._failure_rate:
            random = Random(f"{self._seed}/{key}")
            if random.random() < self._failure_rate:
                runtime_s, cause = runtime_s * random.random(), "exit"
        launcher.free_cores -= request.resources.cores
        launcher.running[key] = request, now_s
        self._where[key] = launcher
        self._post(AttemptStarted(now_s, key, launcher.key))

        def end() -> None:
            if self._where.get(key) is launcher:
                self._end(launcher, key, cause)
                self._assign()

        self._time.schedule(now_s + runtime_s, end, ENDS)

    def _end(self, launcher: _Launcher, key: str, cause: Cause, message: str | None = None) -> None:
        request, started_s = launcher.running.pop(key)
        del self._where[key]
        self._conclude(request, cause, started_s, message)

        def free() -> None:
            launcher.free_cores += request.resources.cores
            self._assign()

        if self._hold_s:
            self._time.schedule(self._time.now() + self._hold_s, free, ENDS)
        else:
            launcher.free_cores += request.resources.cores
        if launcher.stopping and not launcher.running and launcher.key in self._live:
            self.jobs.stop(launcher.key)

    def _conclude(
        self,
        request: SimulatedRequest,
        cause: Cause,
        started_s: float | None,
        message: str | None = None,
    ) -> None:
        codes = {"done": 0, "exit": request.exit_code or 1}
        outcome = Outcome(
            cause=cause,
            exit_code=codes.get(cause),
            started_s=started_s,
            ended_s=self._time.now(),
            sizes=request.sizes if cause == "done" else (),
            message=None if cause == "done" else message or f"simulated: {cause}",
        )
        self._ended[request.key] = outcome
        known_s = self._time.now() + (self._report_s if started_s is not None else 0.0)
        tell = AttemptEnded(known_s, request.key, outcome)
        self._time.schedule(known_s, lambda: self._post(tell), ENDS)


def _job_of(launcher: LauncherRequest) -> SimulatedRequest:
    """The request of a launcher's job. Its run time exceeds its walltime, so the job never ends by
    itself."""
    resources = Resources(cores=launcher.cores * launcher.nodes, walltime_s=launcher.walltime_s)
    return request_of(launcher.key, "launcher", resources, 1e3 * launcher.walltime_s)
