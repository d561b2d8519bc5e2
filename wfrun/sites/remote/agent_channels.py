"""Connections and spool files that the agent reports; ``agent.py`` describes the protocol."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from wfrun.engine.errors import WfrunError
from wfrun.sites.remote.agent import MAX_CONNECTIONS
from wfrun.sites.remote.frames import Frame, FrameError, Header
from wfrun.sites.remote.incoming import ConnectionHandler, OnConnection, deliver

_LOGGER = logging.getLogger(__name__)
PASS_S = 120.0
"""Timeout of a write. A peer that reads nothing for this long counts as gone."""


class Request(Protocol):
    """Sends a request to the agent and returns its answer."""

    async def __call__(
        self, verb: str, content: bytes = b"", patience_s: float = 60.0, **request: Any
    ) -> Frame: ...


class _Connection:
    """Implements ``IncomingConnection``."""

    def __init__(self, channels: AgentChannels, number: int, address: str) -> None:
        self.address = address
        self._channels = channels
        self._number = number
        self._admission: asyncio.Task[None] | None = None
        """The request to admit the connection. The next write waits for its answer; None: no write
        has to wait."""

    async def write(self, data: bytes) -> None:
        if self._admission is not None:
            # An answer that reached the peer first could let it send more than a stranger may.
            await asyncio.wait([self._admission])
            self._admission = None
        await self._channels.request("pass", data, PASS_S, connection=self._number)

    def admit(self) -> None:
        self._admission = self._channels.notify("admit", self._number)

    def disconnect(self) -> None:
        self._channels.disconnect(self._number)


class _Listener:
    """Implements ``Listener``."""

    def __init__(self, channels: AgentChannels, number: int, port: int) -> None:
        self.port = port
        self._channels = channels
        self._number = number

    async def close(self) -> None:
        await self._channels.unlisten(self._number)


class AgentChannels:
    """All listeners, incoming connections and spool directories of one agent.

    The agent identifies a listener or spool directory by the number of the request that began it.
    ``listen`` and ``spool`` take the number of the next request.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self._listeners: dict[int, OnConnection] = {}
        self._spools: dict[int, Callable[[str, bytes], None]] = {}
        self._handlers: dict[int, ConnectionHandler] = {}
        """Handlers of the open connections, by the connection's number."""
        self._notifying: set[asyncio.Task[None]] = set()
        self._ended = False

    async def listen(
        self, number: int, address: str | None, on_connection: OnConnection
    ) -> _Listener:
        """Implements ``Host.listen``."""
        self._listeners[number] = on_connection
        header, _ = await self.request("listen", address=address)
        return _Listener(self, number, header.port)

    async def spool(
        self, number: int, directory: str, session: int, on_file: Callable[[str, bytes], None]
    ) -> _Listener:
        """Implements ``Host.spool``."""
        self._spools[number] = on_file
        await self.request("spool", path=directory, session=session)
        return _Listener(self, number, 0)

    async def unlisten(self, number: int) -> None:
        """Close a listener or spool directory."""
        self._listeners.pop(number, None)
        self._spools.pop(number, None)
        if not self._ended:
            with contextlib.suppress(WfrunError):  # the agent has ended, and with it the listener
                await self.request("unlisten", of=number)

    def take(self, number: int, header: Header, payload: bytes) -> None:
        """Handle a frame about a connection: its start, its data or its end. Raises FrameError for
        a number in use, or for more connections than an agent can have."""
        if header.of is not None:
            if len(self._handlers) + len(self._notifying) > 4 * MAX_CONNECTIONS:
                raise FrameError("connections without end")
            if number in self._handlers:
                raise FrameError(f"a second connection {number}")
            on_connection = self._listeners.get(header.of)
            if on_connection is None:
                self.disconnect(number)
                return
            connection = _Connection(self, number, header.address)
            try:
                self._handlers[number] = on_connection(connection)
            except Exception:  # a defect of the handler must not end the agent
                _LOGGER.exception("a connection could not be handled")
                self.disconnect(number)
        elif header.ended is not None:
            handler = self._handlers.pop(number, None)
            if handler is not None:
                _end(handler, header.ended)
        elif number in self._handlers:
            deliver(self._handlers[number], payload)

    def take_files(
        self, number: int, names: Sequence[str], contents: Sequence[bytes | None]
    ) -> None:
        """Handle a frame with spool files. Raises FrameError unless each content has a name."""
        if len(names) != len(contents):
            raise FrameError("files without names")
        on_file = self._spools.get(number)
        for name, content in zip(names, contents, strict=True):
            if on_file is not None:
                try:
                    on_file(name, content or b"")
                except Exception:  # a defect of the receiver must not end the agent
                    _LOGGER.exception("a spool file could not be handled")

    def disconnect(self, number: int) -> None:
        """End a connection, without waiting for the agent."""
        self._handlers.pop(number, None)
        self.notify("disconnect", number)

    def notify(self, verb: str, number: int) -> asyncio.Task[None] | None:
        """Send a request about a connection, without waiting for the agent. Returns the task that
        waits for the answer, None if the agent has ended."""
        if self._ended:
            return None
        task = asyncio.create_task(self._notify(verb, number))
        self._notifying.add(task)
        task.add_done_callback(self._notifying.discard)
        return task

    async def _notify(self, verb: str, number: int) -> None:
        with contextlib.suppress(WfrunError):  # it has ended with the agent
            await self.request(verb, connection=number)

    def end(self, reason: str) -> None:
        """End all connections, because the agent has ended."""
        if self._ended:
            return
        self._ended = True
        handlers, self._handlers = self._handlers, {}
        for handler in handlers.values():
            _end(handler, reason)


def _end(handler: ConnectionHandler, reason: str) -> None:
    try:
        handler.ended(reason)
    except Exception:
        _LOGGER.exception("the end of a connection could not be handled")
