"""Connections that others make to us: through the agent, or forwarded by SSH."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from wfrun.engine.errors import TransientError

_LOGGER = logging.getLogger(__name__)
READ_BYTES = 1 << 18


class Caller(Protocol):
    """Somebody who called; nobody knows who it is."""

    address: str
    """For messages: where it came from."""

    async def write(self, data: bytes) -> None:
        """Returns when little enough is still on its way. Raises TransientError when it has
        gone."""

    def hang_up(self) -> None:
        """End it. Nothing more is said of it."""


class Answerer(Protocol):
    """Who talks with one caller. What is raised here is logged."""

    def received(self, data: bytes) -> None:
        """Some bytes, in order. The caller has to wait meanwhile."""

    def ended(self, reason: str) -> None:
        """The caller has gone, or can't be reached."""


Answer = Callable[[Caller], Answerer]
"""Is told of each new caller."""


class Listener(Protocol):
    """Ends with the connection, or the agent, that it is part of."""

    port: int

    async def close(self) -> None:
        """No further callers; those that are there stay."""


class Writer(Protocol):
    """A writer of a stream, of asyncio or asyncssh."""

    def write(self, data: bytes) -> None: ...
    async def drain(self) -> None: ...
    def close(self) -> None: ...


class StreamCaller:
    """Implements ``Caller`` by a pair of streams."""

    def __init__(
        self, address: str, read: Callable[[int], Awaitable[bytes]], writer: Writer
    ) -> None:
        self.address = address
        self._read = read
        self._writer = writer
        self._hung_up = False

    async def write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except Exception as error:  # Of asyncio, or one of many of asyncssh.
            raise TransientError(f"{self.address}: {error}") from error

    def hang_up(self) -> None:
        self._hung_up = True
        self._writer.close()

    async def converse(self, answer: Answer) -> None:
        """Until it has gone, or was hung up."""
        answerer = answer(self)
        reason = "it was closed by the other side"
        try:
            while not self._hung_up and (data := await self._read(READ_BYTES)):
                if not self._hung_up:
                    receive(answerer, data)
        except Exception as error:  # Of asyncio, or one of many of asyncssh.
            reason = str(error) or type(error).__name__
        except asyncio.CancelledError:
            reason = "the connection was lost"
            raise
        finally:
            with contextlib.suppress(OSError, RuntimeError):
                self._writer.close()
            if not self._hung_up:
                answerer.ended(reason)


def receive(answerer: Answerer, data: bytes) -> None:
    """Whatever is wrong with taking it is no fault of the connection's."""
    try:
        answerer.received(data)
    except Exception:
        _LOGGER.exception("%d bytes could not be taken", len(data))
