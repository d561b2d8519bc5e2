"""The engine's end of the spool channel. ``wfrun/sites/node/channels/channels.py`` describes its
files."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence

from wfrun.engine.errors import WfrunError
from wfrun.parsers.foreign import number_of
from wfrun.sites.remote.host import Host, NewFile
from wfrun.sites.remote.incoming import ConnectionHandler, Listener, OnConnection, deliver

MAX_FILE_BYTES = 4 << 20
MAX_SOURCES = 100_000
"""Maximum number of launcher nodes from which files are accepted; larger than in any real run."""
_NAME = re.compile(r"([\w.-]{1,200})\.\d{1,9}\.(\d{1,9})", re.ASCII)
"""Pattern of ``<launcher>.<node>.<session>.<connection>``."""


class _SpoolConnection:
    """Implements ``IncomingConnection`` for one connection of a launcher over the spool. ``name``
    is ``<launcher>.<node>.<session>.<connection>``."""

    def __init__(self, host: Host, directory: str, name: str) -> None:
        source, session, connection = name.rsplit(".", 2)
        self.address = f"{directory}/{source}"
        self.connection = number_of(connection, 0)
        self.handler: ConnectionHandler | None = None
        self._host = host
        self._stem = f"{self.address}/{session}.{connection}"
        self._written = 0
        self._end_task: asyncio.Task[None] | None = None

    async def write(self, data: bytes) -> None:
        self._written += 1
        await self._host.write([NewFile(f"{self._stem}.{self._written}", data)])

    def admit(self) -> None:
        """Does nothing: only the user can write spool files, so their amount is not limited."""

    def disconnect(self) -> None:
        self.handler = None
        self._end_task = asyncio.create_task(self._write_end())

    async def _write_end(self) -> None:
        """Write the empty file that ends a connection. Errors are ignored: the launcher then ends
        the connection at its timeout."""
        with contextlib.suppress(WfrunError):
            await self.write(b"")


class SpoolListener:
    """Listens for the spool files of one session of a run. Each node of a launcher has one
    connection at a time."""

    def __init__(
        self, host: Host, directory: str, session: int, on_connection: OnConnection
    ) -> None:
        self._host = host
        self._in = f"{directory}/launchers/in"
        self._out = f"{directory}/launchers/out"
        self._session = session
        self._on_connection = on_connection
        self._connections: dict[str, _SpoolConnection] = {}
        """The latest connection of each node of a launcher, by ``<launcher>.<node>``."""
        self._listener: Listener | None = None

    async def open(self) -> None:
        """Start watching for files. Raises InfeasibleError if the head node cannot watch the
        folder."""
        self._listener = await self._host.spool(self._out, self._session, self._on_file)

    async def close(self) -> None:
        """Stop watching for files."""
        self._connections.clear()
        if self._listener is not None:
            await self._listener.close()

    def _on_file(self, name: str, data: bytes) -> None:
        """Handle the next file of a connection. If the node has made a newer connection since, the
        file is ignored: the file system has shown it late."""
        match = _NAME.fullmatch(name)
        if match is None:
            return  # no launcher writes such a file
        source, connection = match[1], match[2]
        latest = self._connections.get(source)
        if latest is None or latest.connection < number_of(connection, 0):
            if latest is not None and latest.handler is not None:
                latest.handler.ended("the launcher has connected again")
            latest = _SpoolConnection(self._host, self._in, name)
            if len(self._connections) >= MAX_SOURCES and source not in self._connections:
                return
            self._connections[source] = latest
            latest.handler = self._on_connection(latest)
        handler = latest.handler
        if latest.connection != number_of(connection, 0) or handler is None:
            return
        if data:
            deliver(handler, data)
        else:
            latest.handler = None
            handler.ended("it was closed by the other side")


def leftovers(directory: str, launchers: Sequence[str], nodes: int) -> list[str]:
    """Return the spool directories to remove after the end of ``launchers``, each with up to
    ``nodes`` nodes. They have files from the engine; files to the engine are removed when read."""
    return [
        f"{directory}/launchers/in/{launcher}.{node}"
        for launcher in launchers
        for node in range(nodes)
    ]
