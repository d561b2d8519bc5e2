"""Files of SSH servers, with the keys and the configuration of the user's ssh."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from urllib.parse import unquote, urlsplit

from wfrun.engine.errors import InfeasibleError
from wfrun.parsers.file_urls import shown_url
from wfrun.sites.transfers.urls.source import check_allowed


@contextlib.asynccontextmanager
async def open_sftp(
    url: str, hosts: frozenset[str]
) -> AsyncGenerator[AsyncGenerator[bytes, None], None]:
    """``OpenUrl`` for sftp: ``sftp://[USER@]HOST[:PORT]/ABSOLUTE/PATH``."""
    # Imported lazily: it takes half of a second.
    from wfrun.sites.remote.asyncssh_transport import AsyncsshTransport

    check_allowed(url, hosts)
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError as error:
        raise InfeasibleError(f"{shown_url(url)} cannot be fetched: {error}") from error
    transport = AsyncsshTransport(parts.hostname or "", parts.username, port)
    await transport.connect()
    try:
        async with contextlib.aclosing(transport.read_file(unquote(parts.path))) as pieces:
            yield pieces
    finally:
        await transport.close()
