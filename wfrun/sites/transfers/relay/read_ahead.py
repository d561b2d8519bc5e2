"""Reading ahead: a file is read while earlier pieces of it are written."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator

from wfrun.sites.transfers.endpoints.endpoint import CHUNK_BYTES

AHEAD_BYTES = 4 << 20
"""Number of bytes waiting to be written at which reading pauses."""


async def read_ahead(data: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Pass on a stream, which is read up to AHEAD_BYTES ahead, so that neither end of a copy waits
    for the other. Small pieces that wait are joined.

    Callers close this generator before ``data``.
    """
    buffer = _Buffer(data)
    reading = asyncio.create_task(buffer.fill())
    reading.add_done_callback(lambda _: buffer.changed.set())
    try:
        while buffer.pieces or not reading.done():
            if buffer.pieces:
                yield buffer.take()
            else:
                buffer.changed.clear()
                await buffer.changed.wait()
        reading.result()
    finally:
        buffer.close()
        reading.cancel()
        await asyncio.wait([reading])
        if not reading.cancelled():
            reading.exception()  # marks it as retrieved: the copy may have failed at its other end


class _Buffer:
    """Pieces that were read and not yet written."""

    def __init__(self, data: AsyncIterator[bytes]) -> None:
        self.pieces: deque[bytes] = deque()
        self.changed = asyncio.Event()
        self._data = data
        self._size_bytes = 0
        self._room = asyncio.Event()
        self._is_closed = False

    async def fill(self) -> None:
        async for piece in self._data:
            self.pieces.append(piece)
            self._size_bytes += len(piece)
            self.changed.set()
            while self._size_bytes >= AHEAD_BYTES and not self._is_closed:
                self._room.clear()
                await self._room.wait()
            if self._is_closed:
                return

    def close(self) -> None:
        """Stop reading. A cancellation is not enough: sources wait on ``asyncio.wait_for``, which
        in Python 3.11 and older ignores a cancellation that arrives together with the result."""
        self._is_closed = True
        self._room.set()

    def take(self) -> bytes:
        """Remove and return the next piece, joined with those behind it up to CHUNK_BYTES."""
        taken = [self.pieces.popleft()]
        size = len(taken[0])
        while self.pieces and size + len(self.pieces[0]) <= CHUNK_BYTES:
            taken.append(self.pieces.popleft())
            size += len(taken[-1])
        self._size_bytes -= size
        self._room.set()
        return taken[0] if len(taken) == 1 else b"".join(taken)
