"""Connections that launchers make to wfrun: through the agent, or forwarded by SSH."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from wfrun.engine.errors import TransientError
from wfrun.sites.remote.agent import UNADMITTED_BYTES

_LOGGER = logging.getLogger(__name__)
READ_BYTES = 1 << 18
"""Maximum number of bytes passed on at once."""


class IncomingConnection(Protocol):
    """A connection whose other side is not authenticated."""

    address: str
    """Where it comes from: a host and a port, as far as they are known."""

    def admit(self) -> None:
        """Read without limit from now on. Before this call, a connection ends if it sends more than
        UNADMITTED_BYTES."""

    async def write(self, data: bytes) -> None:
        """Send; returns when few bytes wait to be sent. Raises TransientError when the connection
        has ended."""

    def disconnect(self) -> None:
        """End the connection. Its handler is not called any more."""


class ConnectionHandler(Protocol):
    """Handles one connection. Its exceptions are logged."""

    def received(self, data: bytes) -> None:
        """Handle the next bytes. No more are read until this returns."""

    def ended(self, reason: str) -> None:
        """Handle the end of the connection, or of the SSH connection or agent that carries it."""


OnConnection = Callable[[IncomingConnection], ConnectionHandler]
"""Called with each new connection; returns its handler."""


class Listener(Protocol):
    """A listening port. It ends with the connection to the host, or with the agent."""

    port: int

    async def close(self) -> None:
        """Accept no further connections; established ones stay."""


class Writer(Protocol):
    """The part of a stream writer of asyncio or asyncssh that is used here."""

    def write(self, data: bytes) -> None: ...
    async def drain(self) -> None: ...
    def close(self) -> None: ...


class StreamConnection:
    """Implements ``IncomingConnection`` by a reader and a writer."""

    def __init__(
        self, address: str, read: Callable[[int], Awaitable[bytes]], writer: Writer
    ) -> None:
        self.address = address
        self._read = read
        self._writer = writer
        self._disconnected = False
        self._allowance = UNADMITTED_BYTES
        """Number of bytes that may still be received; unused once the connection is admitted."""
        self._admitted = False

    def admit(self) -> None:
        self._admitted = True

    async def write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except Exception as error:  # asyncssh raises errors of many types
            raise TransientError(f"{self.address}: {error}") from error

    def disconnect(self) -> None:
        self._disconnected = True
        self._writer.close()

    async def serve(self, on_connection: OnConnection) -> None:
        """Pass received data to a new handler until either side disconnects."""
        handler = on_connection(self)
        reason = "it was closed by the other side"
        try:
            while not self._disconnected:
                if not self._admitted and not self._allowance:
                    reason = "it sent too much before it identified itself"
                    break
                data = await self._read(READ_BYTES if self._admitted else self._allowance)
                if not data:
                    break
                self._allowance = max(0, self._allowance - len(data))
                if not self._disconnected:
                    deliver(handler, data)
        except Exception as error:  # asyncssh raises errors of many types
            reason = str(error) or type(error).__name__
        except asyncio.CancelledError:
            reason = "the connection was lost"
            raise
        finally:
            with contextlib.suppress(OSError, RuntimeError):
                self._writer.close()
            if not self._disconnected:
                handler.ended(reason)


def deliver(handler: ConnectionHandler, data: bytes) -> None:
    """Pass data to a handler. Its exceptions are logged and do not end the connection."""
    try:
        handler.received(data)
    except Exception:
        _LOGGER.exception("%d bytes could not be handled", len(data))
