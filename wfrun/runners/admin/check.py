"""``wfrun sites check``: each site is tried, from login to the end of a test job."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

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
from wfrun.engine.exchange import AttemptRequest, LauncherRequest, Outcome, OutputFile
from wfrun.engine.model import Resources, SiteSpec
from wfrun.parsers.catalog.access import DEFAULT_DIRECTORY
from wfrun.runners.admin.entry import describe, rounded
from wfrun.runners.admin.init import not_reached
from wfrun.runners.admin.limits import wrong_limits, wrong_machine
from wfrun.runners.admin.lines import Finding, Printer
from wfrun.runners.admin.survey import ask_offer, look_at, look_at_machine, probe
from wfrun.runners.run.sites import make_site
from wfrun.sites.batch.jobs import QueueUnknownError
from wfrun.sites.kind import AnySite
from wfrun.sites.launchers.site import BatchLauncherSite
from wfrun.sites.local.site import LocalSite, available_cores
from wfrun.sites.remote.asyncssh_login import Prompter
from wfrun.sites.remote.connection import Connection
from wfrun.sites.remote.directory import make_directory
from wfrun.sites.remote.host import Host

END_S = 120.0
"""From the start of the test job to our knowing its end; it takes a moment."""
ANSWERS_S = 120.0
"""For all that is asked besides."""
LITTLE_BYTES = 1 << 30
"""Free space below this is worth a word."""
OFF_S = 30.0
"""A clock that is off by more is worth a word."""
TEST_WALLTIME_S = 60.0
LAUNCHER_WALLTIME_S = 300.0
DISMISS_S = 5.0
"""For a launcher to end when it is told to."""
_KEY = "check-1"
_LAUNCHER = "check-launcher"
_News = asyncio.Queue[tuple[float, Event]]
_LOGGER = logging.getLogger(__name__)


class _FailedError(Exception):
    """A check failed, and those after it make no sense; it has been told of."""


async def check(
    sites: Sequence[SiteSpec], wait_s: float, prompter: Prompter | None, *, as_json: bool
) -> bool:
    """Try all at once, and print what is found as it is found, or one JSON document at the end.
    The test job may wait ``wait_s`` in the queue. Returns whether any site failed."""
    printer = Printer([site.name for site in sites])
    findings: list[Finding] = []

    def tell(finding: Finding) -> None:
        findings.append(finding)
        if not as_json:
            printer.finding(finding)

    trials = [_Trial(site, wait_s, prompter, tell) for site in sites]
    await asyncio.gather(*(trial.run() for trial in trials))
    failed = [s.name for s in sites if any(f.site == s.name and f.state == "failed"
                                           for f in findings)]  # fmt: skip
    if as_json:
        documents = [
            {
                "site": site.name,
                "state": "failed" if site.name in failed else "ok",
                "checks": [
                    {k: v for k, v in msgspec.structs.asdict(f).items() if k != "site"}
                    for f in findings
                    if f.site == site.name
                ],
            }
            for site in sites
        ]
        print(json.dumps(documents, indent=1))
    else:
        printer.end(len(sites), failed)
    return bool(failed)


class _Trial:
    """The checks of one site, in their order."""

    def __init__(
        self,
        spec: SiteSpec,
        wait_s: float,
        prompter: Prompter | None,
        tell: Callable[[Finding], None],
    ) -> None:
        self._spec = spec
        self._wait_s = wait_s
        self._prompter = prompter
        self._tell = tell
        self._run_id = f"check{secrets.token_hex(4)}"
        self._offset_s = 0.0
        self._has_launcher = False
        """The queue has it, and it has not ended."""
        self._is_kept = False
        """What was put there may tell why the test job did not end."""

    async def run(self) -> None:
        """All that makes sense; errors are told of, not raised."""
        try:
            if self._spec.access is None:
                await self._try_this_machine()
            else:
                await self._try_host(self._spec.directory or DEFAULT_DIRECTORY)
        except _FailedError:
            return
        except WfrunError as error:
            self._fail("site", error.message, error.hint)
        except asyncio.TimeoutError:
            self._fail("site", f"it did not answer in {ANSWERS_S:.0f} s", None)
        except OSError as error:
            self._fail("site", str(error), None)
        except Exception as error:  # a bug, which must not hide what the other sites say
            _LOGGER.exception("site %s", self._spec.name)
            self._fail("site", f"internal error: {error!r}", "Please report it.")

    def _say(self, check: str, text: str) -> None:
        self._tell(Finding(self._spec.name, check, "ok", text))

    def _note(self, check: str, text: str, hint: str = "") -> None:
        self._tell(Finding(self._spec.name, check, "note", text, hint))

    def _fail(self, check: str, text: str, hint: str | None) -> None:
        hint = hint or "Try again later; if it stays so, ask the people who run the site."
        self._tell(Finding(self._spec.name, check, "failed", text, hint))

    # -- a host

    async def _try_host(self, written: str) -> None:
        directory = Path()  # a site behind a connection has none on this machine
        site = make_site(self._spec, 0, self._run_id, directory, time.time, prompter=self._prompter)
        assert not isinstance(site, LocalSite)
        connection = site.connection
        try:
            host = await self._connect(connection)
            await asyncio.wait_for(self._look(host), ANSWERS_S)
            base = await asyncio.wait_for(self._find_room(host, written), ANSWERS_S)
            try:
                await self._run_job(site)
            finally:
                if not self._is_kept:
                    with contextlib.suppress(WfrunError, asyncio.TimeoutError):
                        await asyncio.wait_for(_remove(connection, base), ANSWERS_S)
        finally:
            await site.close()
            await connection.close()

    async def _connect(self, connection: Connection) -> Host:
        begun_s = time.monotonic()
        try:
            await connection.open(_ignore)
            host = await connection.host()
        except WfrunError as error:
            assert self._spec.access is not None
            hint = error.hint or not_reached(self._spec.access)
            self._fail("connection", error.message, hint)
            raise _FailedError from error
        took_s = time.monotonic() - begun_s
        facts = await host.facts()
        assert self._spec.access is not None
        way = self._spec.access.transport
        self._say("connection", f"{facts.user}@{connection.host_name} by {way} in {took_s:.1f} s")
        self._say("agent", f"Python {facts.python}")
        self._offset_s = facts.clock_offset_s
        shown = f"{abs(facts.clock_offset_s):.1f} s {'ahead' if self._offset_s > 0 else 'behind'}"
        if abs(self._offset_s) > OFF_S:
            self._note("clock", shown, "wfrun takes this into account; tell those who run it.")
        else:
            self._say("clock", shown)
        return host

    async def _look(self, host: Host) -> None:
        """The batch system, and what it offers beside what the catalog says."""
        kind = self._spec.kind
        if not self._spec.has_batch_system:
            machine = await look_at_machine(host)
            self._limits(
                wrong_machine(self._spec, machine.cores, machine.memory_bytes, machine.gpus),
                f"{machine.cores} cores, {rounded(machine.memory_bytes)}",
            )
            return
        try:
            system = await probe(host, kind)
        except QueueUnknownError as error:
            self._fail(
                "batch system",
                f"no {kind} is seen: {error.message}",
                "Is 'kind' right in the catalog? `wfrun sites init` finds what is there. Is it "
                "only there after `module load`? Then put that into ~/.profile there.",
            )
            raise _FailedError from error
        try:
            offer = await ask_offer(host, kind)
        except QueueUnknownError as error:
            self._fail("batch system", error.message, "Try again when it is up.")
            raise _FailedError from error
        assert self._spec.access is not None
        queue = offer.queue(self._spec.access.queue)
        self._say("batch system", system.version)
        seen = f"{queue.name}: {describe(queue)}" if queue else "no queue is the default"
        self._limits(wrong_limits(self._spec, offer), seen)

    def _limits(self, wrong: Sequence[tuple[str, str]], seen: str) -> None:
        for text, hint in wrong:
            self._fail("limits", text, hint)
        if not wrong:
            self._say("limits", seen)

    async def _find_room(self, host: Host, written: str) -> str:
        """Make a run's directory, and look at the room there; returns its path."""
        try:
            base = await make_directory(host, self._spec.name, written, self._run_id)
        except WfrunError as error:
            self._fail("directory", error.message, error.hint or
                       "Write another 'directory' in the catalog.")  # fmt: skip
            raise _FailedError from error
        place = await look_at(host, base)
        if place is None:
            self._fail("directory", f"{written} can't be written to, or hangs",
                       "Make room there, or write another 'directory' in the catalog.")  # fmt: skip
            raise _FailedError
        self._room(written, place.free_bytes, place.file_system)
        return base

    def _room(self, written: str, free_bytes: int, file_system: str) -> None:
        kind = f" on {file_system}" if file_system else ""
        text = f"{written}: {rounded(free_bytes)} free{kind}"
        if free_bytes < LITTLE_BYTES:
            self._note("directory", text, "Is that enough for the files of your workflows?")
        else:
            self._say("directory", text)

    # -- this machine

    async def _try_this_machine(self) -> None:
        cores = available_cores()
        if self._spec.slots > cores:
            text = f"{self._spec.slots} slots, and this machine has {cores} cores"
            self._note("limits", text, "That is good for --emulate; else write less as 'slots'.")
        else:
            self._say("limits", f"{cores} cores")
        async with _directory_here(self._spec, self._run_id) as directory:
            site = make_site(self._spec, 0, self._run_id, directory, time.time)
            try:
                await self._run_job(site, directory)
            finally:
                await site.close()

    # -- the test job

    async def _run_job(self, site: AnySite, here: Path | None = None) -> None:
        news: _News = asyncio.Queue()
        try:
            opening = site.open(lambda event: news.put_nowait((time.time(), event)))
            await asyncio.wait_for(opening, ANSWERS_S)
        except WfrunError as error:
            self._fail("directory" if here else "test job", error.message, error.hint)
            raise _FailedError from error
        if here is not None:
            found = await asyncio.to_thread(_free_bytes, here)
            self._room(self._spec.directory or str(here.parent), found, "")
        walltime_s = TEST_WALLTIME_S
        if self._spec.walltime_s is not None:
            walltime_s = min(walltime_s, self._spec.walltime_s)
        request = AttemptRequest(
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
        times = _Times()
        try:
            if isinstance(site, BatchLauncherSite):
                await self._start_launcher(site, news)
            begun_s = time.time()
            await site.submit([request])
            while times.outcome is None:
                since_s = times.started_s or times.submitted_s or begun_s
                limit_s = self._wait_s if times.started_s is None else END_S
                left_s = max(0.0, since_s + limit_s - time.time())
                times.take(*await asyncio.wait_for(news.get(), left_s))
        except asyncio.TimeoutError:
            self._not_ended(times)
        else:
            self._judge(times, times.outcome, begun_s)
        finally:
            if times.outcome is None:  # too late, or Ctrl-C
                with contextlib.suppress(WfrunError, asyncio.TimeoutError):
                    await asyncio.wait_for(site.cancel([_KEY]), ANSWERS_S)
            if isinstance(site, BatchLauncherSite):
                await _dismiss(site, news, wait=self._has_launcher)

    async def _start_launcher(self, site: BatchLauncherSite, news: _News) -> None:
        """The test job runs inside it, as any task does. Raises _FailedError where none comes."""
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
                at_s, event = await asyncio.wait_for(news.get(), left_s)
                if isinstance(event, LauncherStarted):
                    self._say("launcher", f"live on {event.host} after {at_s - begun_s:.1f} s, "
                              f"{event.slots} slots, by {event.channel}")  # fmt: skip
                    return
                if isinstance(event, LauncherEnded):
                    self._has_launcher = False
                    text = f"{event.cause}: {event.message or 'without a word'}"
                    hint = _ADVICE.get(event.cause, "Ask the people who run the site.")
                    self._fail("launcher", text, hint)
                    raise _FailedError
                self._has_launcher |= isinstance(event, LaunchersSubmitted)
                paused = str(getattr(event, "reason", "")) or paused
        except asyncio.TimeoutError:
            text = f"none has called in {self._wait_s:.0f} s"
            if paused:
                self._fail("launcher", f"{text}: {paused}", "Correct 'launchers' in the catalog.")
                raise _FailedError from None
            hint = (
                "It waits in the queue (see `wfrun sites show`; --wait waits longer), or its node "
                f"does not reach this machine by {' or '.join(wanted.channels)} "
                "(see 'channels' and 'address' in docs/launchers.md)."
            )
            self._note("launcher", text, hint)
            raise _FailedError from None

    def _not_ended(self, times: _Times) -> None:
        """The job has not come to its end in time; it is withdrawn."""
        if times.started_s is not None:
            self._is_kept = True
            self._fail("test job", f"it has started, and has not ended in {END_S:.0f} s",
                       "Does the node see the site's 'directory'? Look there at the logs in "
                       f"wfrun-{self._run_id}.")  # fmt: skip
        elif times.submitted_s is None:
            self._fail("test job", f"it could not be submitted in {self._wait_s:.0f} s"
                       + (f": {times.paused}" if times.paused else ""), None)  # fmt: skip
        else:
            self._note(
                "test job",
                f"it was taken, and has waited in the queue for {self._wait_s:.0f} s; withdrawn",
                "The cluster may be busy: see `wfrun sites show`, or wait longer with --wait.",
            )

    def _judge(self, times: _Times, outcome: Outcome, begun_s: float) -> None:
        if outcome.cause != "done":
            self._fail(
                "test job",
                f"{outcome.cause}: {outcome.message or 'without a word'}",
                _ADVICE.get(outcome.cause, "Ask the people who run the site."),
            )
            return
        parts = []
        if times.submitted_s is not None:
            parts.append(f"submitted in {times.submitted_s - begun_s:.1f} s")
            if outcome.started_s is not None:
                waited_s = outcome.started_s - self._offset_s - times.submitted_s
                parts.append(f"started after {max(0.0, waited_s):.1f} s")
        if outcome.ended_s is not None:
            known_s = times.ended_s - (outcome.ended_s - self._offset_s)
            parts.append(f"its end known {max(0.0, known_s):.1f} s after it")
        where = f" on {outcome.host}" if outcome.host else ""
        self._say("test job", f"done{where}: {', '.join(parts)}")


async def _dismiss(site: BatchLauncherSite, news: _News, *, wait: bool) -> None:
    """End the launcher; ``wait`` until it has ended, since what it writes into is to be removed."""
    with contextlib.suppress(WfrunError, asyncio.TimeoutError):
        await asyncio.wait_for(site.dismiss(), DISMISS_S)
        end_s = time.monotonic() + DISMISS_S
        while wait and not isinstance(
            (await asyncio.wait_for(news.get(), end_s - time.monotonic()))[1], LauncherEnded
        ):
            pass


class _Times:
    """What has been told of the test job, and when."""

    def __init__(self) -> None:
        self.submitted_s: float | None = None
        self.started_s: float | None = None
        self.ended_s = 0.0
        self.outcome: Outcome | None = None
        self.paused = ""

    def take(self, at_s: float, event: Event) -> None:
        if isinstance(event, AttemptsSubmitted):
            self.submitted_s = at_s
        elif isinstance(event, AttemptStarted):
            self.started_s = at_s
        elif isinstance(event, AttemptEnded):
            self.outcome, self.ended_s = event.outcome, at_s
        else:
            self.paused = str(getattr(event, "reason", "")) or self.paused


_ADVICE = {
    "refused": "Correct the site's queue, account, options or walltime in the catalog.",
    "start": "Do the nodes have /bin/sh and Python 3.6 or later?",
    "lost": "Do the nodes see the site's 'directory'? Put it on a file system that they share.",
    "node": "Try again; the node that it ran on has failed.",
    "storage": "Make room in the site's 'directory', or write another in the catalog.",
    "memory": "Write more memory for small jobs into 'options', as [--mem=1G].",
    "walltime": "The nodes are very slow, or their file system hangs; try again later.",
}


@contextlib.asynccontextmanager
async def _directory_here(spec: SiteSpec, run_id: str) -> AsyncIterator[Path]:
    """Of a local site, removed at the end: where its runs would be, or in this folder."""
    base = Path(spec.directory) if spec.directory else Path()
    was_there = base.exists()
    directory = (base / f"wfrun-{run_id}").absolute()
    try:
        yield directory
    finally:
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
        if not was_there:
            with contextlib.suppress(OSError):
                base.rmdir()


async def _remove(connection: Connection, path: str) -> None:
    await (await connection.host()).remove([path])


def _free_bytes(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def _ignore(reason: str | None) -> None:
    """A connection that is lost is an error of the next question."""
