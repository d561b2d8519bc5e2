"""``wfrun sites check``: try each site, from the login to the end of a test job."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.model import SiteSpec
from wfrun.parsers.catalog.access import DEFAULT_DIRECTORY
from wfrun.runners.admin.checks.check_gridftp import check_gridftp
from wfrun.runners.admin.checks.trial_job import TrialJob, until_gone
from wfrun.runners.admin.entry import describe, rounded
from wfrun.runners.admin.init import ignore_status, not_reached
from wfrun.runners.admin.limits import Mismatch, cluster_mismatches, host_mismatches
from wfrun.runners.admin.lines import CheckFailedError, Finding, Printer, SiteFindings
from wfrun.runners.admin.links.links import Measured, MeasuredLink, measure_ways
from wfrun.runners.admin.survey import ask_offer, look_at, look_at_machine, probe
from wfrun.runners.display.ascii_json import print_json
from wfrun.runners.run.sites.make_sites import make_site
from wfrun.sites.batch.jobs import QueueUnknownError
from wfrun.sites.kind import AnySite
from wfrun.sites.local.site import LocalSite, available_cores
from wfrun.sites.remote.connection import Connection
from wfrun.sites.remote.files.directory import make_directory
from wfrun.sites.remote.host import Host
from wfrun.sites.remote.transports.asyncssh_login import Prompter
from wfrun.sites.remote.transports.login_shell import profile_of

ANSWERS_S = 120.0
"""Timeout of each step before the test job, in seconds."""
LITTLE_BYTES = 1 << 30
"""Minimum free space that is not reported as a note, in bytes."""
OFFSET_S = 30.0
"""Maximum clock offset that is not reported as a note, in seconds."""
_LOGGER = logging.getLogger(__name__)


class Checked(NamedTuple):
    """The result of the checks of all sites."""

    has_failures: bool
    links: list[MeasuredLink]
    """The links between this machine and sites that were measured."""
    measured: list[Measured]
    """Each measured direction of these links, with its samples."""


async def check(
    sites: Sequence[SiteSpec],
    wait_s: float | None,
    prompter: Prompter | None,
    *,
    as_json: bool,
    nodes_wait_s: float | None = None,
) -> Checked:
    """Check all sites at once. Print each finding when it is made, or one JSON document at the end.

    The test job may wait in the queue for ``wait_s`` seconds; None: no test job. With
    ``nodes_wait_s``, jobs then check whether the nodes of the usable sites reach each other; jobs
    that have not ended after ``nodes_wait_s`` seconds are cancelled.
    """
    printer = Printer([site.name for site in sites])
    findings: list[Finding] = []

    def on_finding(finding: Finding) -> None:
        findings.append(finding)
        if not as_json:
            printer.finding(finding)

    line = asyncio.Lock()
    trials = [
        _Trial(site, wait_s, prompter, SiteFindings(site.name, on_finding), line) for site in sites
    ]
    await asyncio.gather(*(trial.run() for trial in trials))
    with_failures = {finding.site for finding in findings if finding.state == "failed"}
    if nodes_wait_s is not None:
        from wfrun.runners.admin.checks.check_nodes import check_nodes

        usable = [site for site in sites if site.name not in with_failures]
        await check_nodes(usable, nodes_wait_s, on_finding)
    apart = any(f.state == "failed" and f.site not in with_failures for f in findings)
    failed = [site.name for site in sites if site.name in with_failures]
    if as_json:
        documents = [_document(site.name, findings, site.name in failed) for site in sites]
        print_json(documents)
    else:
        printer.end(len(sites), failed)
        if apart:
            click.echo("no job can run over all of them: nodes do not reach each other")
    links = [trial.link for trial in trials if trial.link is not None]
    return Checked(
        bool(failed) or apart, links, [way for trial in trials for way in trial.measured]
    )


def _document(site: str, findings: Sequence[Finding], is_failed: bool) -> dict[str, object]:
    checks = [msgspec.structs.asdict(finding) for finding in findings if finding.site == site]
    for each in checks:
        del each["site"]
    return {"site": site, "state": "failed" if is_failed else "ok", "checks": checks}


class _Trial:
    """The checks of one site, in a fixed order."""

    def __init__(
        self,
        spec: SiteSpec,
        wait_s: float | None,
        prompter: Prompter | None,
        report: SiteFindings,
        line: asyncio.Lock,
    ) -> None:
        """``line`` is held while a link is measured, because all sites share this machine's
        network."""
        self.link: MeasuredLink | None = None
        """The measured link to the site; None: not measured."""
        self.measured: tuple[Measured, ...] = ()
        self._line = line
        self._spec = spec
        self._prompter = prompter
        self._report = report
        self._run_id = f"check{secrets.token_hex(4)}"
        self._directory = f"wfrun-{self._run_id}-{secrets.token_hex(8)}"
        self._job = TrialJob(spec, self._directory, wait_s or 0.0, report)
        self._has_job = wait_s is not None

    async def run(self) -> None:
        """Run the checks, and skip the rest after a failure that makes them pointless. Reports
        errors as findings, and raises none."""
        report = self._report
        try:
            if self._spec.access is None:
                await self._check_this_machine()
            else:
                await self._check_host(self._spec.directory or DEFAULT_DIRECTORY)
        except CheckFailedError:
            return
        except WfrunError as error:
            report.fail("site", error.message, error.hint)
        except asyncio.TimeoutError:
            report.fail("site", f"it did not answer in {ANSWERS_S:.0f} s", None)
        except OSError as error:
            report.fail("site", str(error), None)
        except Exception as error:  # a bug: report it without losing the other sites' findings
            _LOGGER.exception("site %s", self._spec.name)
            report.fail("site", f"internal error: {error!r}", "Please report it.")

    # -- a host behind a connection

    async def _check_host(self, written: str) -> None:
        unused = Path()  # only local sites have a directory on this machine
        site = make_site(
            self._spec, 0, self._run_id, self._directory, unused, time.time,
            prompter=self._prompter,
        )  # fmt: skip
        assert not isinstance(site, LocalSite)
        connection = site.connection
        try:
            host = await self._connect(connection)
            await asyncio.wait_for(self._check_limits(host), ANSWERS_S)
            base = await asyncio.wait_for(self._check_directory(host, written), ANSWERS_S)
            try:
                await self._measure_link(connection, base)
                if self._spec.access is not None and self._spec.access.gridftp is not None:
                    await check_gridftp(self._spec.access.gridftp, base, self._report)
                await self._open(site, "test job" if self._has_job else "site")
                if self._has_job:
                    await self._job.run(site)
            finally:
                if not self._job.is_stuck:
                    with contextlib.suppress(WfrunError, asyncio.TimeoutError):
                        await until_gone(site)
                        await asyncio.wait_for(_remove(connection, base), ANSWERS_S)
        finally:
            await site.close()
            await connection.close()

    async def _open(self, site: AnySite, check: str) -> None:
        try:
            await asyncio.wait_for(site.open(self._job.on_event), ANSWERS_S)
        except WfrunError as error:
            self._report.fail(check, error.message, error.hint)
            raise CheckFailedError from error

    async def _connect(self, connection: Connection) -> Host:
        access = self._spec.access
        assert access is not None
        begun_s = time.monotonic()
        try:
            await connection.open(ignore_status)
            host = await connection.host()
        except WfrunError as error:
            self._report.fail("connection", error.message, error.hint or not_reached(access))
            raise CheckFailedError from error
        took_s = time.monotonic() - begun_s
        facts = await host.facts()
        who = f"{facts.user}@{connection.host_name}"
        self._report.ok("connection", f"{who} by {access.transport} in {took_s:.1f} s")
        self._report.ok("agent", f"Python {facts.python}")
        self._check_clock(facts.clock_offset_s)
        return host

    def _check_clock(self, offset_s: float) -> None:
        self._job.clock_offset_s = offset_s
        shown = f"{abs(offset_s):.1f} s {'ahead' if offset_s > 0 else 'behind'}"
        if abs(offset_s) > OFFSET_S:
            hint = "wfrun corrects for it. Inform the cluster's administrators."
            self._report.note("clock", shown, hint)
        else:
            self._report.ok("clock", shown)

    async def _check_limits(self, host: Host) -> None:
        """Compare the limits of the catalog with those of the batch system, or with the resources
        of a host without a batch system. Raises CheckFailedError if the batch system does not
        answer."""
        if not self._spec.has_batch_system:
            machine = await look_at_machine(host)
            shown = f"{machine.cores} cores, {rounded(machine.memory_bytes)}"
            self._limits(host_mismatches(self._spec, machine), shown)
            return
        kind, access = self._spec.kind, self._spec.access
        assert access is not None
        try:
            system = await probe(host, kind)
        except QueueUnknownError as error:
            self._report.fail(
                "batch system",
                f"{kind} is not found: {error.message}",
                "Is 'kind' right in the catalog? `wfrun sites init` shows what is there. If the "
                "batch system needs `module load`, put that into "
                f"{profile_of((await host.facts()).shell)} there.",
            )
            raise CheckFailedError from error
        try:
            offer = await ask_offer(host, kind)
        except QueueUnknownError as error:
            self._report.fail("batch system", error.message, "Try again when it is up.")
            raise CheckFailedError from error
        queue = offer.queue(access.queue)
        self._report.ok("batch system", system.version)
        for note in offer.notes:
            self._report.note("history", note)
        shown = f"{queue.name}: {describe(queue)}" if queue else "there is no default queue"
        self._limits(cluster_mismatches(self._spec, offer), shown)

    def _limits(self, mismatches: Sequence[Mismatch], shown: str) -> None:
        for mismatch in mismatches:
            self._report.fail("limits", mismatch.text, mismatch.hint)
        if not mismatches:
            self._report.ok("limits", shown)

    async def _check_directory(self, host: Host, written: str) -> str:
        """Make a run's directory and look at its file system. Returns its path."""
        hint = "Write another 'directory' in the catalog."
        try:
            base = await make_directory(host, self._spec.name, written, self._directory)
        except WfrunError as error:
            self._report.fail("directory", error.message, error.hint or hint)
            raise CheckFailedError from error
        place = await look_at(host, base)
        if place is None:
            text = f"{written} cannot be written to, or its file system hangs"
            self._report.fail("directory", text, f"Free space there, or: {hint}")
            raise CheckFailedError
        self._free_space(written, place.free_bytes, place.file_system)
        return base

    def _free_space(self, written: str, free_bytes: int, file_system: str) -> None:
        kind = f" on {file_system}" if file_system else ""
        text = f"{written}: {rounded(free_bytes)} free{kind}"
        if free_bytes < LITTLE_BYTES:
            hint = "Is that enough for the files of your workflows?"
            self._report.note("directory", text, hint)
        else:
            self._report.ok("directory", text)

    async def _measure_link(self, connection: Connection, base: str) -> None:
        async with self._line:
            try:
                up, down = self.measured = await measure_ways(self._spec, connection, base)
                self.link = MeasuredLink(up.link, down.link)
            except (TransientError, OSError) as error:
                self._report.note("link", f"it was not measured: {error}")
            except InfeasibleError as error:
                self._report.fail("link", error.message, error.hint)
                raise CheckFailedError from error
            else:
                self._report.ok("link", str(self.link))

    # -- this machine

    async def _check_this_machine(self) -> None:
        cores = available_cores()
        if self._spec.slots > cores:
            text = f"{self._spec.slots} slots, but this machine has {cores} cores"
            hint = "That is right for --emulate. Otherwise lower 'slots'."
            self._report.note("limits", text, hint)
        else:
            self._report.ok("limits", f"{cores} cores")
        async with _local_directory(self._spec, self._directory) as directory:
            site = make_site(self._spec, 0, self._run_id, self._directory, directory, time.time)
            try:
                await self._open(site, "directory")
                found = await asyncio.to_thread(_free_bytes, directory)
                self._free_space(self._spec.directory or str(directory.parent), found, "")
                if self._has_job:
                    await self._job.run(site)
            finally:
                await site.close()


@contextlib.asynccontextmanager
async def _local_directory(spec: SiteSpec, name: str) -> AsyncIterator[Path]:
    """Yield the path of a run's directory at a local site, without making it. Remove the directory
    at the end of the block."""
    base = Path(spec.directory) if spec.directory else Path()
    was_there = base.exists()
    directory = (base / name).absolute()
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
