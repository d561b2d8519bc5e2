"""``wfrun sites show``: the present state of each site."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Sequence

import msgspec
from rich.table import Table

from wfrun.engine.errors import TransientError, WfrunError
from wfrun.engine.explain.visible import message_block
from wfrun.engine.model import SiteSpec
from wfrun.parsers.catalog.access import DEFAULT_DIRECTORY
from wfrun.runners.admin.links.links import measure_link
from wfrun.runners.admin.site_now import ANSWERS_S, QueueNow, SiteNow, ask_site
from wfrun.runners.display.ascii_json import print_json
from wfrun.runners.display.console import make_console
from wfrun.runners.display.counts import counted
from wfrun.runners.display.durations import duration
from wfrun.runners.display.record_table import RecordColumn, number_column, record_table
from wfrun.runners.simulate.plan_queues import jobs_ahead
from wfrun.runners.simulate.queue_waits import BOUND, expected_wait
from wfrun.sites.remote.connection import Connection
from wfrun.sites.remote.files.directory import make_directory
from wfrun.sites.remote.transports.asyncssh_login import Prompter

REQUESTED_S = 3600.0
"""Requested time of the jobs whose waits are predicted, in seconds."""


async def show(sites: Sequence[SiteSpec], prompter: Prompter | None, *, as_json: bool) -> bool:
    """Ask all sites at once for their state, and print a table or a JSON document. Returns whether
    some site is not up."""
    line = asyncio.Lock()

    async def measure(now: SiteNow, spec: SiteSpec, connection: Connection) -> SiteNow:
        async with line:  # all sites share this machine's network
            return await asyncio.wait_for(_measure(now, spec, connection), ANSWERS_S)

    looks = await asyncio.gather(*(ask_site(site, prompter, measure) for site in sites))
    now_s = time.time()
    found = [
        _with_waits(now, spec, queue, now_s)
        for spec, (now, queue) in zip(sites, looks, strict=True)
    ]
    if as_json:
        print_json(found)
    else:
        console = make_console()
        console.print(_table(found))
        if any(now.waits for now in found):
            console.print()
            console.print(_waits(found))
            console.print(
                f"predicted, of a job submitted now that requests {duration(REQUESTED_S)}; "
                f"at most: with {BOUND:.0%}"
            )
        for now in found:
            if now.state != "up":
                verb = "" if now.state == "needs login" else "is "
                console.print(message_block(f"{now.site} {verb}{now.state}: {now.reason}"))
            if now.hint:
                console.print(message_block(f"  {now.hint}"), soft_wrap=True)
    return any(now.state != "up" for now in found)


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


def _with_waits(now: SiteNow, spec: SiteSpec, queue: QueueNow, now_s: float) -> SiteNow:
    """Add the expected waits of new jobs, computed from the queue of the site."""
    if now.state != "up" or not spec.has_batch_system or now.idle_cores is None:
        return now
    ahead = jobs_ahead(queue.jobs, spec.slots, now.idle_cores, queue.cores, now_s)
    sizes = sorted({1, min(queue.node_cores or 1, spec.slots)})
    waits = tuple(expected_wait(cores, REQUESTED_S, spec.slots, ahead) for cores in sizes)
    return msgspec.structs.replace(now, waits=waits)


def _waits(found: Sequence[SiteNow]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("site", no_wrap=True)
    for heading in ("job of", "waits", "at most"):
        table.add_column(heading, justify="right", no_wrap=True)
    for now in found:
        for number, wait in enumerate(now.waits):
            table.add_row(
                "" if number else now.site,
                counted(wait.cores, "core"),
                duration(wait.wait_s),
                duration(wait.bound_s),
            )
    return table


_COLUMNS = (
    RecordColumn("site", "site"),
    number_column("slots", "slots"),
    number_column("idle", "idle_cores"),
    number_column("ours", "ours", lambda cores: f"{cores.running} + {cores.queued}"),
    number_column("others", "others", lambda cores: f"{cores.running} + {cores.queued}"),
    number_column("latency", "latency_s", "{:.1f} ms", 1e-3),
    number_column("MB/s up", "upload_bytes_per_s", "{:.3g}", 1e6),
    number_column("down", "download_bytes_per_s", "{:.3g}", 1e6),
    RecordColumn("state", "state"),
)


def _table(found: Sequence[SiteNow]) -> Table:
    table = record_table(found, _COLUMNS)
    table.caption = "ours, others: cores of running jobs + cores of waiting jobs"
    table.caption_justify = "left"
    return table
