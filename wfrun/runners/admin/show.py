"""``wfrun sites show``: the present state of each site."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import time
from collections.abc import Sequence
from typing import Literal

import msgspec
from rich.table import Table

from wfrun.engine.errors import TransientError, WfrunError
from wfrun.engine.model import SiteSpec
from wfrun.engine.visible import message_block
from wfrun.parsers.catalog.access import DEFAULT_DIRECTORY
from wfrun.runners.admin.init import ignore_status, not_reached
from wfrun.runners.admin.links import measure_link
from wfrun.runners.admin.survey import ask_offer, look_at_machine, run
from wfrun.runners.display.ascii_json import as_ascii
from wfrun.runners.display.console import make_console
from wfrun.sites.batch.jobs import Job, QueueUnknownError
from wfrun.sites.kinds import make_batch_system
from wfrun.sites.local.site import available_cores
from wfrun.sites.remote.asyncssh_login import Prompter
from wfrun.sites.remote.connection import Connection, connection_of
from wfrun.sites.remote.directory import make_directory
from wfrun.sites.remote.host import Host

ANSWERS_S = 60.0
"""Timeout of all questions to a connected site, and of the measurement of its bandwidth."""
_ROUNDS = 3
"""Measurements of latency, of which the best counts."""


class Cores(msgspec.Struct, frozen=True):
    """Cores of jobs."""

    running: int
    queued: int


class SiteNow(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a site. None: unknown, or undefined for a site of this kind."""

    site: str
    kind: str
    state: Literal["up", "down", "needs login"]
    reason: str = ""
    """Why it is not up."""
    hint: str = ""
    slots: int
    """From the catalog."""
    idle_cores: int | None = None
    """Idle cores of the site's queue; without a batch system, the host's cores minus its load."""
    ours: Cores | None = None
    """Jobs that runs of wfrun of this user have submitted."""
    others: Cores | None = None
    """All other jobs, including this user's."""
    latency_s: float | None = None
    """Latency of a question to the head node: the best of three."""
    upload_bytes_per_s: float | None = None
    download_bytes_per_s: float | None = None


async def show(sites: Sequence[SiteSpec], prompter: Prompter | None, *, as_json: bool) -> bool:
    """Ask all sites at once; print a table or a JSON document. Returns whether any is not up."""
    line = asyncio.Lock()
    found = await asyncio.gather(*(_look(site, prompter, line) for site in sites))
    if as_json:
        document = json.dumps(msgspec.to_builtins(found), indent=1)
        print(as_ascii(document.encode()).decode())
    else:
        console = make_console()
        console.print(_table(found))
        for now in found:
            if now.state != "up":
                verb = "" if now.state == "needs login" else "is "
                console.print(message_block(f"{now.site} {verb}{now.state}: {now.reason}"))
            if now.hint:
                console.print(message_block(f"  {now.hint}"), soft_wrap=True)
    return any(now.state != "up" for now in found)


async def _look(spec: SiteSpec, prompter: Prompter | None, line: asyncio.Lock) -> SiteNow:
    """``line`` is held while bandwidth is measured: all sites share this machine's network."""
    plain = SiteNow(site=spec.name, kind=spec.kind, state="up", slots=spec.slots)
    if spec.access is None:
        idle = max(0, available_cores() - round(os.getloadavg()[0]))
        return msgspec.structs.replace(plain, idle_cores=idle)
    connection = connection_of(spec.access, prompter)
    try:
        await connection.open(ignore_status)
        now = await asyncio.wait_for(_ask(plain, spec, connection), ANSWERS_S)
        async with line:
            return await asyncio.wait_for(_measure(now, spec, connection), ANSWERS_S)
    except asyncio.TimeoutError:
        reason = f"it did not answer in {ANSWERS_S:.0f} s"
        return msgspec.structs.replace(plain, state="down", reason=reason)
    except WfrunError as error:
        state: Literal["down", "needs login"]
        state = "needs login" if connection.needs_login is not None else "down"
        return msgspec.structs.replace(
            plain, state=state, reason=error.message, hint=error.hint or not_reached(spec.access)
        )
    finally:
        await connection.close()


async def _ask(now: SiteNow, spec: SiteSpec, connection: Connection) -> SiteNow:
    host = await connection.host()
    # First, while nothing else uses the connection.
    latency_s = await _latency_s(host)
    now = msgspec.structs.replace(now, latency_s=latency_s)
    try:
        if not spec.has_batch_system:
            machine = await look_at_machine(host)
            idle = max(0, machine.cores - round(machine.load))
            now = msgspec.structs.replace(now, idle_cores=idle)
        else:
            now = await _ask_batch_system(now, spec, host)
    except QueueUnknownError as error:
        reason = f"its batch system does not answer: {error.message}"
        now = msgspec.structs.replace(now, state="down", reason=reason)
    return now


async def _measure(now: SiteNow, spec: SiteSpec, connection: Connection) -> SiteNow:
    host = await connection.host()
    written = spec.directory or DEFAULT_DIRECTORY
    name = f"wfrun-show-{secrets.token_hex(8)}"
    try:
        directory = await make_directory(host, spec.name, written, name)
        try:
            link = await measure_link(spec, connection, directory)
        finally:
            with contextlib.suppress(WfrunError):
                await host.remove([directory])
    except TransientError:
        return now  # a slow link is no reason to call the site down
    except WfrunError as error:
        reason = f"no file can be written: {error.message}"
        hint = error.hint or "Write another 'directory' in the catalog."
        return msgspec.structs.replace(now, state="down", reason=reason, hint=hint)
    return msgspec.structs.replace(
        now,
        upload_bytes_per_s=link.up.bandwidth_bytes_per_s,
        download_bytes_per_s=link.down.bandwidth_bytes_per_s,
    )


async def _latency_s(host: Host) -> float:
    best_s = float("inf")
    for _ in range(_ROUNDS):
        begun_s = time.monotonic()
        await host.stat(["/"])
        best_s = min(best_s, time.monotonic() - begun_s)
    return best_s


async def _ask_batch_system(now: SiteNow, spec: SiteSpec, host: Host) -> SiteNow:
    assert spec.access is not None
    system = make_batch_system(spec.kind, spec.access)
    offer, facts, result = await asyncio.gather(
        ask_offer(host, spec.kind),
        host.facts(),
        run(host, system.queue(None), system.environment),
    )
    output, errors = (text.decode("utf-8", "replace") for text in (result.output, result.errors))
    jobs = system.jobs(result.exit_code, output, errors)
    ours = [job for job in jobs if job.user == facts.user and job.name.startswith("wfrun-")]
    others = [job for job in jobs if not (job.user == facts.user and job.name.startswith("wfrun-"))]
    queue = offer.queue(spec.access.queue)
    queues = [queue] if queue is not None else list(offer.queues)
    now = msgspec.structs.replace(
        now,
        idle_cores=max(each.idle_cores for each in queues),
        ours=_cores(ours),
        others=_cores(others),
    )
    if queue is None and spec.access.queue is not None:
        names = ", ".join(each.name for each in offer.queues)
        reason, hint = f"there is no queue {spec.access.queue}", f"Queues: {names}."
        return msgspec.structs.replace(now, state="down", reason=reason, hint=hint)
    if not any(
        each.is_open and (not each.cores or each.cores > each.down_cores) for each in queues
    ):
        names = ", ".join(each.name for each in queues)
        reason = f"queue {names} is closed, or none of its nodes is in service"
        return msgspec.structs.replace(now, state="down", reason=reason)
    return now


def _cores(jobs: Sequence[Job]) -> Cores:
    running = sum(job.cores for job in jobs if job.state in ("running", "ending", "suspended"))
    return Cores(running, sum(job.cores for job in jobs) - running)


def _table(found: Sequence[SiteNow]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("site", no_wrap=True)
    for heading in ("slots", "idle", "ours", "others", "latency", "MB/s up", "down"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for now in found:
        table.add_row(
            now.site,
            str(now.slots),
            "-" if now.idle_cores is None else str(now.idle_cores),
            _jobs(now.ours),
            _jobs(now.others),
            "-" if now.latency_s is None else f"{now.latency_s * 1e3:.1f} ms",
            _rate(now.upload_bytes_per_s),
            _rate(now.download_bytes_per_s),
            now.state,
        )
    table.caption = "ours, others: cores of running jobs + cores of waiting jobs"
    table.caption_justify = "left"
    return table


def _jobs(cores: Cores | None) -> str:
    return "-" if cores is None else f"{cores.running} + {cores.queued}"


def _rate(bytes_per_s: float | None) -> str:
    return "-" if bytes_per_s is None else f"{bytes_per_s / 1e6:.3g}"
