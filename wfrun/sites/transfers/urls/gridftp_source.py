"""Files of GridFTP and FTP servers, by ``globus-url-copy`` with the proxy certificate of the user.

Tested with globus-url-copy 10.12, which writes a file to its stdout for the destination ``-``.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import AsyncGenerator
from urllib.parse import quote, unquote

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.parsers.file_urls import RemoteUrl, shown_url
from wfrun.sites.transfers.endpoints.endpoint import CHUNK_BYTES
from wfrun.sites.transfers.gridftp.gridftp_client import PROGRAM, start_client
from wfrun.sites.transfers.gridftp.gridftp_errors import explain
from wfrun.sites.transfers.gridftp.gridftp_url import PASSED
from wfrun.sites.transfers.urls.source import check_allowed

_REFUSED = re.compile("No such file|File not found|Permission denied|Is a directory|not a plain")
"""Messages of failures that a retry does not change."""


@contextlib.asynccontextmanager
async def open_gridftp(
    url: str, hosts: frozenset[str]
) -> AsyncGenerator[AsyncGenerator[bytes, None], None]:
    """Implements `OpenUrl` for gsiftp and ftp."""
    address = _address(check_allowed(url, hosts))
    failure = f"{shown_url(url)} cannot be fetched by {PROGRAM}"
    if shutil.which(PROGRAM) is None:
        raise InfeasibleError(
            f"{failure}: it is not installed", hint="Debian has it in globus-gass-copy-progs."
        )
    process = await start_client([address, "-"])
    process.end_input()

    async def pieces() -> AsyncGenerator[bytes, None]:
        while piece := await process.read(CHUNK_BYTES):
            yield piece
        if await process.wait():
            raise _explained(failure, process.errors())

    try:
        async with contextlib.aclosing(pieces()) as content:
            yield content
    finally:
        await process.close()


def _address(url: RemoteUrl) -> str:
    """The URL for the client. Raises InfeasibleError for a path with other characters than
    printable ASCII: the client would pass a line break on to the server as a command."""
    path = unquote(url.rest.removeprefix("/"))
    if not PASSED.fullmatch(path):
        raise InfeasibleError(
            f"{shown_url(url.text())} cannot be fetched: {PROGRAM} takes names of printable ASCII "
            "alone"
        )
    return url.text(f"/{quote(path)}")


def _explained(failure: str, said: str) -> WfrunError:
    found = explain(failure, said)
    if _REFUSED.search(said):
        return InfeasibleError(found.message)
    # Other hints are about sites.
    hint = found.hint if "proxy certificate" in found.message else None
    return TransientError(found.message, hint=hint)
