"""The test job of ``wfrun sites check``: one core, a moment long, submitted as a run does it."""

from __future__ import annotations

import asyncio
import contextlib
import time

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
from wfrun.engine.model import Resources, SiteSpec
from wfrun.runners.admin.lines import CheckFailedError, Report
from wfrun.sites.kind import AnySite
from wfrun.sites.launchers.site import BatchLauncherSite

END_S = 120.0
"""Timeout from the start of the test job until wfrun knows its end."""
CANCEL_S = 120.0
"""Timeout of a cancellation."""
TEST_WALLTIME_S = 60.0
LAUNCHER_WALLTIME_S = 300.0
DISMISS_S = 5.0
"""Timeout for a dismissed launcher to end."""
_KEY = "check-1"
_LAUNCHER = "check-launcher"
_ADVICE: dict[Cause, str] = {
    "refused": "Correct the site's queue, account, options or walltime in the catalog.",
    "launch-failed": "Do the nodes have /bin/sh and Python 3.6 or later?",
    "lost": "Do the nodes see the site's 'directory'? It must be on a file system that they share.",
    "node": "Try again: the node that it ran on has failed.",
    "disk-full": "Free space in the site's 'directory', or write another one in the catalog.",
    "memory": "Request more memory for small jobs with 'options' in the catalog, as [--mem=1G].",
    "walltime": "The nodes or their file system are very slow; try again later.",
}
_ASK = "Ask the cluster's administrators."


class TrialJob:
    """The test job of one site. It runs in a launcher if the site's tasks do."""

    def __init__(self, spec: SiteSpec, directory: str, wait_s: float, report: Report) -> None:
        self._spec = spec
        self._directory = directory
        self._wait_s = wait_s
        self._report = report
        self._events: asyncio.Queue[tuple[float, Event]] = asyncio.Queue()
        self._has_launcher = False
        """The launcher was submitted and has not ended."""
        self.clock_offset_s = 0.0
        """Of the head node."""
        self.is_stuck = False
        """It has started and not ended: its files at the site may show why."""

    def on_event(self, event: Event) -> None:
        """Callback of the site."""
        self._events.put_nowait((time.time(), event))

    async def run(self, site: AnySite) -> None:
        """Run the job at this open site and report its outcome. Raises CheckFailedError if no
        launcher starts."""
        times = _Times()
        try:
            if isinstance(site, BatchLauncherSite):
                await self._start_launcher(site)
            begun_s = time.time()
            await site.submit([self._request()])
            while times.outcome is None:
                since_s = times.started_s or times.submitted_s or begun_s
                limit_s = self._wait_s if times.started_s is None else END_S
                left_s = max(0.0, since_s + limit_s - time.time())
                times.take(*await asyncio.wait_for(self._events.get(), left_s))
        except asyncio.TimeoutError:
            self._not_ended(times)
        else:
            self._ended(times, times.outcome, begun_s)
        finally:
            if times.outcome is None:  # timeout or Ctrl-C
                with contextlib.suppress(WfrunError, asyncio.TimeoutError):
                    await asyncio.wait_for(site.cancel([_KEY]), CANCEL_S)
            if isinstance(site, BatchLauncherSite):
                await self._dismiss(site)

    def _request(self) -> AttemptRequest:
        granted_s = self._spec.walltime_s
        walltime_s = TEST_WALLTIME_S if granted_s is None else min(TEST_WALLTIME_S, granted_s)
        return AttemptRequest(
            key=_KEY,
            argv=("/bin/sh", "-c", "uname -n >node && cat node"),
            env={},
            inputs=(),
            outputs=(OutputFile("node", "node"),),
            stdin=None,
            stdout=None,
            stderr=None,
            resources=Resources(walltime_s=walltime_s),
        )

    async def _start_launcher(self, site: BatchLauncherSite) -> None:
        """Start a launcher and wait until it connects. Raises CheckFailedError if it does not."""
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
        hint = (
            "It waits in the queue (see `wfrun sites show`; --wait waits longer), or its node "
            f"does not reach this machine by {' or '.join(channels)} "
            "(see 'channels' and 'address' in docs/launchers.md)."
        )
        self._report.note("launcher", text, hint)

    async def _dismiss(self, site: BatchLauncherSite) -> None:
        """End the launcher, and wait for its end: the directory that it writes to is removed."""
        with contextlib.suppress(WfrunError, asyncio.TimeoutError):
            await asyncio.wait_for(site.dismiss(), DISMISS_S)
            end_s = time.monotonic() + DISMISS_S
            while self._has_launcher:
                left_s = end_s - time.monotonic()
                _, event = await asyncio.wait_for(self._events.get(), left_s)
                self._has_launcher = not isinstance(event, LauncherEnded)

    def _not_ended(self, times: _Times) -> None:
        if times.started_s is not None:
            self.is_stuck = True
            text = f"it has started, and has not ended in {END_S:.0f} s"
            hint = "Do the nodes see the site's 'directory'? See the logs there in "
            self._report.fail("test job", text, f"{hint}{self._directory}.")
        elif times.submitted_s is None:
            reason = f": {times.paused}" if times.paused else ""
            text = f"it could not be submitted in {self._wait_s:.0f} s{reason}"
            self._report.fail("test job", text, None)
        else:
            self._report.note(
                "test job",
                f"it was accepted, waited in the queue for {self._wait_s:.0f} s and was cancelled",
                "The cluster may be busy: see `wfrun sites show`, or wait longer with --wait.",
            )

    def _ended(self, times: _Times, outcome: Outcome, begun_s: float) -> None:
        if outcome.cause != "done":
            text = f"{outcome.cause}: {outcome.message or 'no message'}"
            self._report.fail("test job", text, _ADVICE.get(outcome.cause, _ASK))
            return
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
        self._report.ok("test job", f"done{where}: {', '.join(parts)}")


class _Times:
    """The reported events of the test job, with their times on this machine."""

    def __init__(self) -> None:
        self.submitted_s: float | None = None
        self.started_s: float | None = None
        self.ended_s = 0.0
        self.outcome: Outcome | None = None
        self.paused = ""
        """Reason of the last pause of the site."""

    def take(self, at_s: float, event: Event) -> None:
        if isinstance(event, AttemptsSubmitted):
            self.submitted_s = at_s
        elif isinstance(event, AttemptStarted):
            self.started_s = at_s
        elif isinstance(event, AttemptEnded):
            self.outcome, self.ended_s = event.outcome, at_s
        else:
            self.paused = str(getattr(event, "reason", "")) or self.paused
