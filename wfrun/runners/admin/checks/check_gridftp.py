"""The check of a site's GridFTP server."""

from __future__ import annotations

import asyncio
import time

from wfrun.engine.errors import TransientError
from wfrun.engine.model import GridFtpServer
from wfrun.runners.admin.lines import SiteFindings
from wfrun.sites.transfers.gridftp.gridftp_client import PROGRAM, GridFtpClient
from wfrun.sites.transfers.gridftp.gridftp_errors import explain
from wfrun.sites.transfers.gridftp.gridftp_url import server_url

ANSWERS_S = 30.0
_OTHERWISE = "Until then files go by another method."


async def check_gridftp(server: GridFtpServer, directory: str, report: SiteFindings) -> None:
    """Let the GridFTP client list a directory of the site through the site's server. A failure is
    reported as a note only, because files are then transferred by another method."""
    client = GridFtpClient()
    version = await client.version()
    if version is None:
        hint = f"Install it on this machine (Debian: globus-gass-copy-progs). {_OTHERWISE}"
        report.note("gridftp", f"{PROGRAM} is not found", hint)
        return
    url = server_url(server, f"{directory}/")
    if url is None:
        report.note("gridftp", f"{directory} is not below 'root', {server.root}", _OTHERWISE)
        return
    begun_s = time.monotonic()
    try:
        said = await asyncio.wait_for(client.run(["-list", url], _no_progress), ANSWERS_S)
    except asyncio.TimeoutError:
        report.note("gridftp", f"{server.url} did not answer in {ANSWERS_S:.0f} s", _OTHERWISE)
        return
    except TransientError as error:
        report.note("gridftp", error.message, error.hint or _OTHERWISE)
        return
    if said is None:
        took_s = time.monotonic() - begun_s
        report.ok("gridftp", f"{server.url} by {PROGRAM} {version} in {took_s:.1f} s")
    else:
        failure = explain(f"{url} cannot be listed", said)
        report.note("gridftp", failure.message, failure.hint or _OTHERWISE)


async def _no_progress() -> None:
    """Do nothing: a listing is short, so that its progress is not watched."""
