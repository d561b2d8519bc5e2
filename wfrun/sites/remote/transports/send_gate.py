"""Keeps file data from filling the send buffers of an SSH connection.

All channels of a connection share one TCP connection. asyncssh hands over whatever the window of
a channel allows, some 2 MB, and a command that follows waits until all of it is sent: for seconds
on a slow link.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, TypeVar

import asyncssh

_T = TypeVar("_T")

_UNSENT_BYTES = 1 << 18
"""Maximum number of bytes in the kernel's send buffer that are not sent yet. More bytes would only
wait there: the kernel sends these while the event loop adds others."""
_STEP_BYTES = 1 << 18
_MAX_BURST_BYTES = 4 << 20
_SHORT_S, _LONG_S = 0.025, 0.05
"""A pause shorter than the first time makes bursts grow; a pause longer than the second makes them
shrink, since commands wait for as long as a pause."""
_CHECK_S = 1.0
"""Interval between checks whether a connection was lost, since a loss does not reopen the gate."""


class SendGate:
    """Starts requests with file data, in the order of the calls. While more bytes wait to be sent
    than asyncio's high-water mark, the gate starts at most one burst of requests.

    The size of a burst adapts to the connection, so that a fast connection has few pauses: it
    doubles after a short pause, and halves, down to nothing, after a long one.
    """

    def __init__(self) -> None:
        self._connections: list[asyncssh.SSHClientConnection] = []
        self._paused: dict[int, float] = {}
        """Monotonic time since which a connection's send buffer is full, by the connection's
        position in ``_connections``."""
        self._open = asyncio.Event()
        self._open.set()
        self._turn = asyncio.Lock()
        self._burst_bytes = _STEP_BYTES
        self._passed_bytes = 0
        """Bytes of the requests that were started since the pause began."""

    def watch(self, connection: asyncssh.SSHClientConnection) -> None:
        """Take the send buffers of a connection into account."""
        number = len(self._connections)
        self._connections.append(connection)

        def pause() -> None:
            self._paused[number] = monotonic()
            self._open.clear()

        def resume() -> None:
            self._adapt(monotonic() - self._paused.pop(number))
            if not self._paused:
                self._passed_bytes = 0
                self._open.set()

        # asyncio calls these of any protocol, and asyncssh ignores them.
        connection.pause_writing = pause  # type: ignore[method-assign]
        connection.resume_writing = resume  # type: ignore[method-assign]
        tcp = connection.get_extra_info("socket")
        option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
        if tcp is not None and option is not None and tcp.family != socket.AF_UNIX:
            tcp.setsockopt(socket.IPPROTO_TCP, option, _UNSENT_BYTES)

    def _adapt(self, paused_s: float) -> None:
        burst_bytes = self._burst_bytes
        if paused_s > _LONG_S:
            self._burst_bytes = burst_bytes // 2 if burst_bytes > _STEP_BYTES else 0
        elif paused_s < _SHORT_S:
            self._burst_bytes = min(max(2 * burst_bytes, _STEP_BYTES), _MAX_BURST_BYTES)

    def _admits(self, size_bytes: int) -> bool:
        """Whether a request may start now. After the loss of a connection every request may start,
        so that it fails."""
        return (
            self._open.is_set()
            or self._passed_bytes + size_bytes <= self._burst_bytes
            or any(connection.is_closed() for connection in self._connections)
        )

    async def start(
        self, request: Callable[[], Coroutine[Any, Any, _T]], size_bytes: int
    ) -> asyncio.Task[_T]:
        """Wait until a request that sends ``size_bytes`` of data may start, start it, and return
        its task. Requests start in the order of the calls."""
        async with self._turn:
            while not self._admits(size_bytes):
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._open.wait(), _CHECK_S)
            self._passed_bytes += 0 if self._open.is_set() else size_bytes
            task = asyncio.create_task(request())
            try:
                await asyncio.sleep(0)  # Its data is in the buffer then.
            except BaseException:
                task.cancel()
                raise
            return task
