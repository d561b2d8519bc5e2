"""The test jobs of ``wfrun sites check``. A test job has one core, takes a moment, and is submitted
as by a run."""

from __future__ import annotations

import asyncio
import contextlib
import time

import msgspec

from wfrun.engine.errors import WfrunError
from wfrun.engine.events import (
    AttemptEnded,
    AttemptsSubmitted,
    AttemptStarted,
    Event,
    LauncherEnded,
    LaunchersSubmitted,
    LauncherStarted,
)
from wfrun.engine.exchange import AttemptRequest, Cause, LauncherRequest, Outcome, OutputFile
from wfrun.engine.fitting.containers import SiteEnvironment
from wfrun.engine.model import Resources, SiteSpec
from wfrun.runners.admin.lines import CheckFailedError, SiteFindings
from wfrun.sites.cluster.site import ClusterSite
from wfrun.sites.kind import AnySite
from wfrun.sites.launchers.site import BatchLauncherSite

END_S = 120.0
"""Timeout from the start of the test job until wfrun knows its end, in seconds."""
CANCEL_S = 120.0
"""Timeout of a cancellation, in seconds."""
TEST_WALLTIME_S = 60.0
LAUNCHER_WALLTIME_S = 300.0
LEFT_S = 60.0
"""Additional timeout for a job that has left the queue although no start was reported, in
seconds."""
GONE_S = 30.0
"""Maximum time to wait until ended jobs have left the queue, in seconds."""
DISMISS_S = 5.0
"""Timeout for a dismissed launcher to end, in seconds."""
_KEY = "check-1"
_ELEMENTS = ["check-2", "check-3"]
_LAUNCHER = "check-launcher"
_ADVICE: dict[Cause, str] = {
    "refused": "Correct the site's queue, account, options or walltime in the catalog.",
    "launch-failed": "Do the nodes have /bin/sh and Python 3.6 or later?",
    "environment": "Correct the site's 'prologue' or 'container' in the catalog.",
    "lost": "Do the nodes see the site's 'directory'? It must be on a file system that they share. "
    "If the job has printed something, correct what prints it, such as ~/.profile.",
    "node": "Try again: the node that it ran on has failed.",
    "disk-full": "Free space in the site's 'directory', or write another one in the catalog.",
    "memory": "Request more memory for small jobs with 'options' in the catalog, as [--mem=1G].",
    "walltime": "The nodes or their file system are very slow; try again later.",
}
_ABSENT = "absent"
_SCRIPT = f'uname -n >node && cat node && {{ [ $# = 0 ] || "$@" 2>&1 || echo {_ABSENT}; }}'
_ASK = "Ask the cluster's administrators."


class TrialJob:
    """The test job of one site, and an array of two such jobs. They run in a launcher if the site
    runs its tasks in launchers."""

    def __init__(self, spec: SiteSpec, directory: str, wait_s: float, report: SiteFindings) -> None:
        self._spec = spec
        self._directory = directory
        self._wait_s = wait_s
        self._report = report
        self._events: asyncio.Queue[tuple[float, Event]] = asyncio.Queue()
        self._has_launcher = False
        """Whether a launcher was submitted and has not ended."""
        self.clock_offset_s = 0.0
        """Clock offset of the head node, in seconds."""
        self.is_stuck = False
        """Whether a job has started but not ended in time. Its files at the site may then show the
        cause."""

    def on_event(self, event: Event) -> None:
        """Callback of the site for its events."""
        self._events.put_nowait((time.time(), event))

    async def run(self, site: AnySite) -> None:
        """Run the job at this open site and report its outcome. If the job succeeds and the site
        has job arrays, run an array of two jobs as well. Raises CheckFailedError if no launcher
        starts."""
        try:
            if isinstance(site, BatchLauncherSite):
                await self._start_launcher(site)
            if await self._try(site, "test job", [_KEY]):
                if self._runtime:
                    await self._report_runtime(site)
                if _has_arrays(site):
                    await self._try(site, "array", _ELEMENTS)
        finally:
            if isinstance(site, BatchLauncherSite):
                await self._dismiss(site)

    async def _try(self, site: AnySite, check: str, keys: list[str]) -> bool:
        """Submit jobs together and report their outcome. Jobs that do not end in time are
        cancelled. Returns whether all have succeeded."""
        times = {key: _Times() for key in keys}
        begun_s = time.time()
        try:
            await site.submit([self._request(key) for key in keys])
            while waits := [key for key in keys if times[key].outcome is None]:
                deadline_s = min(self._deadline_s(site, key, times[key], begun_s) for key in waits)
                left_s = deadline_s - time.time()
                if left_s <= 0:
                    raise asyncio.TimeoutError
                try:
                    at_s, event = await asyncio.wait_for(self._events.get(), left_s)
                except asyncio.TimeoutError:
                    continue  # the deadline may be later now
                for key in waits:
                    times[key].take(key, at_s, event)
        except asyncio.TimeoutError:
            self._not_ended(check, next(t for t in times.values() if t.outcome is None))
            return False
        finally:
            unended = [key for key in keys if times[key].outcome is None]
            if unended:  # timeout or Ctrl-C
                with contextlib.suppress(WfrunError, asyncio.TimeoutError):
                    await asyncio.wait_for(site.cancel(unended), CANCEL_S)
        outcomes = [(t, t.outcome) for t in times.values() if t.outcome is not None]
        return self._ended(check, *max(outcomes, key=_last_to_tell), begun_s)

    def _deadline_s(self, site: AnySite, key: str, times: _Times, begun_s: float) -> float:
        """Latest time for the next event of a job, in seconds since the epoch on this machine's
        clock."""
        if times.started_s is not None:
            return times.started_s + END_S
        limit_s = self._wait_s
        if isinstance(site, ClusterSite) and site.has_left(key):
            limit_s += LEFT_S  # it waits no more, and has not begun: why will be known
        return (times.submitted_s or begun_s) + limit_s

    def _request(self, key: str) -> AttemptRequest:
        granted_s = self._spec.walltime_s
        walltime_s = TEST_WALLTIME_S if granted_s is None else min(TEST_WALLTIME_S, granted_s)
        stored = f"{key}.node"
        return AttemptRequest(
            key=key,
            argv=("/bin/sh", "-c", _SCRIPT, "sh", *self._runtime),
            env={},
            inputs=(),
            outputs=(OutputFile("node", stored),),
            stdin=None,
            stdout=None,
            stderr=None,
            resources=Resources(walltime_s=walltime_s),
            environment=self._bare_environment(),
        )

    @property
    def _runtime(self) -> tuple[str, ...]:
        """A command that prints the version or the path of the container runtime, and fails if
        there is none. Empty if the catalog states no runtime."""
        environment = self._spec.environment
        runtime = None if environment is None else environment.container
        if runtime is None:
            return ()
        return ("command", "-v", runtime.command[0]) if runtime.command else (
            runtime.name, "--version"
        )  # fmt: skip

    def _bare_environment(self) -> SiteEnvironment | None:
        """The environment of the site outside of containers."""
        environment = self._spec.environment
        return environment and msgspec.structs.replace(environment, container=None)

    async def _report_runtime(self, site: AnySite) -> None:
        """Report what the test job has found about the container runtime on its node."""
        lines = (await site.log(_KEY))[0].decode(errors="replace").splitlines()[1:]
        if lines and lines[-1] != _ABSENT:
            self._report.ok("container", lines[-1])
        else:
            text = " ".join(lines[:-1]) or "there is no output"
            hint = "Load it in the site's 'prologue', or correct its 'container' in the catalog."
            self._report.fail("container", f"{' '.join(self._runtime)} failed: {text}", hint)

    async def _start_launcher(self, site: BatchLauncherSite) -> None:
        """Start a launcher and wait until it connects. Raises CheckFailedError if it does not
        connect."""
        assert self._spec.access is not None
        wanted = self._spec.access.launchers
        assert wanted is not None
        walltime_s = min(wanted.walltime_s, LAUNCHER_WALLTIME_S)
        begun_s = time.time()
        await site.start_launchers([
            LauncherRequest(_LAUNCHER, wanted.nodes, wanted.cores, wanted.memory_bytes,
                            wanted.gpus, walltime_s)
        ])  # fmt: skip
        paused = ""
        try:
            while True:
                left_s = max(0.0, begun_s + self._wait_s - time.time())
                at_s, event = await asyncio.wait_for(self._events.get(), left_s)
                if isinstance(event, LauncherStarted):
                    text = f"connected from {event.host} after {at_s - begun_s:.1f} s"
                    self._report.ok("launcher", f"{text}, {event.slots} slots, by {event.channel}")
                    return
                if isinstance(event, LauncherEnded):
                    self._has_launcher = False
                    text = f"{event.cause}: {event.message or 'no message'}"
                    self._report.fail("launcher", text, _ADVICE.get(event.cause, _ASK))
                    raise CheckFailedError
                self._has_launcher |= isinstance(event, LaunchersSubmitted)
                paused = str(getattr(event, "reason", "")) or paused
        except asyncio.TimeoutError:
            self._no_launcher(paused, wanted.channels)
            raise CheckFailedError from None

    def _no_launcher(self, paused: str, channels: tuple[str, ...]) -> None:
        text = f"none has connected in {self._wait_s:.0f} s"
        if paused:
            hint = "Correct 'launchers' in the catalog."
            self._report.fail("launcher", f"{text}: {paused}", hint)
            return
        if not self._has_launcher:
            text = f"it could not be submitted in {self._wait_s:.0f} s"
            self._report.fail("launcher", text, "Does the batch system accept jobs of yours?")
            return
        hint = (
            "It waits in the queue (see `wfrun sites show`; --wait waits longer), or its node "
            f"does not reach this machine by {' or '.join(channels)} "
            "(see 'channels' and 'address' in docs/launchers.md)."
        )
        self._report.note("launcher", text, hint)

    async def _dismiss(self, site: BatchLauncherSite) -> None:
        """End the launcher, and wait until it has ended. Its directory can then be removed
        safely."""
        with contextlib.suppress(WfrunError, asyncio.TimeoutError):
            await asyncio.wait_for(site.dismiss(), DISMISS_S)
            end_s = time.monotonic() + DISMISS_S
            while self._has_launcher:
                left_s = end_s - time.monotonic()
                _, event = await asyncio.wait_for(self._events.get(), left_s)
                self._has_launcher = not isinstance(event, LauncherEnded)

    def _not_ended(self, check: str, times: _Times) -> None:
        if times.started_s is not None:
            self.is_stuck = True
            text = f"it has started, and has not ended in {END_S:.0f} s"
            hint = "Do the nodes see the site's 'directory'? See the logs there in "
            self._report.fail(check, text, f"{hint}{self._directory}.")
        elif times.submitted_s is None:
            reason = f": {times.paused}" if times.paused else ""
            text = f"it could not be submitted in {self._wait_s:.0f} s{reason}"
            self._report.fail(check, text, None)
        else:
            self._report.note(
                check,
                f"it was accepted, waited in the queue for {self._wait_s:.0f} s and was cancelled",
                "The cluster may be busy: see `wfrun sites show`, or wait longer with --wait.",
            )

    def _ended(self, check: str, times: _Times, outcome: Outcome, begun_s: float) -> bool:
        """Report the common outcome of jobs. ``times`` and ``outcome`` are those of a job that
        failed, or, if all jobs succeeded, of the job that ended last. Returns whether all have
        succeeded."""
        if outcome.cause != "done":
            text = f"{outcome.cause}: {outcome.message or 'no message'}"
            self._report.fail(check, text, _ADVICE.get(outcome.cause, _ASK))
            return False
        parts = []
        if times.submitted_s is not None:
            parts.append(f"submitted in {times.submitted_s - begun_s:.1f} s")
            if outcome.started_s is not None:
                waited_s = outcome.started_s - self.clock_offset_s - times.submitted_s
                parts.append(f"started after {max(0.0, waited_s):.1f} s")
        if outcome.ended_s is not None:
            known_s = times.ended_s - (outcome.ended_s - self.clock_offset_s)
            parts.append(f"its end known {max(0.0, known_s):.1f} s after it")
        where = f" on {outcome.host}" if outcome.host else ""
        self._report.ok(check, f"done{where}: {', '.join(parts)}")
        return True


async def until_gone(site: AnySite) -> None:
    """Wait until the queue no longer shows jobs of wfrun, at most GONE_S seconds. Call it before
    the directory of the jobs is removed.

    PBS delivers the output of a job after its end. If the directory is missing, PBS retries for
    half a minute while the job keeps its cores, and then mails the user.
    """
    if isinstance(site, ClusterSite | BatchLauncherSite):
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(site.until_gone(), GONE_S)


def _has_arrays(site: AnySite) -> bool:
    return isinstance(site, ClusterSite) and site.max_array > 1


def _last_to_tell(ended: tuple[_Times, Outcome]) -> tuple[bool, float]:
    times, outcome = ended
    return outcome.cause != "done", times.ended_s


class _Times:
    """The events of a test job, with the times of their arrival on this machine."""

    def __init__(self) -> None:
        self.submitted_s: float | None = None
        self.started_s: float | None = None
        self.ended_s = 0.0
        self.outcome: Outcome | None = None
        self.paused = ""
        """Reason of the last pause of the site."""

    def take(self, key: str, at_s: float, event: Event) -> None:
        """Record an event of the job ``key``, or the reason of a pause of the site. Events of other
        jobs are ignored."""
        if isinstance(event, AttemptsSubmitted):
            if key in event.keys:
                self.submitted_s = at_s
        elif isinstance(event, AttemptStarted | AttemptEnded):
            if key == event.key:
                self._take_own(at_s, event)
        else:
            self.paused = str(getattr(event, "reason", "")) or self.paused

    def _take_own(self, at_s: float, event: AttemptStarted | AttemptEnded) -> None:
        if isinstance(event, AttemptStarted):
            self.started_s = at_s
        else:
            self.outcome, self.ended_s = event.outcome, at_s
