"""Files of SSH servers, with the keys and the configuration of the user's ssh."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from urllib.parse import unquote

from wfrun.sites.transfers.urls.source import check_allowed


@contextlib.asynccontextmanager
async def open_sftp(
    url: str, hosts: frozenset[str]
) -> AsyncGenerator[AsyncGenerator[bytes, None], None]:
    """Implements `OpenUrl` for sftp: ``sftp://[USER@]HOST[:PORT]/ABSOLUTE/PATH``."""
    # Imported lazily: it takes half of a second.
    from wfrun.sites.remote.transports.asyncssh_transport import AsyncsshTransport

    found = check_allowed(url, hosts)
    path = unquote(found.rest.partition("?")[0].partition("#")[0])
    transport = AsyncsshTransport(found.host, found.user or None, found.port)
    await transport.connect()
    try:
        async with contextlib.aclosing(transport.read_file(path)) as pieces:
            yield pieces
    finally:
        await transport.close()
