"""Ends a copy through this machine if its source or its destination stalls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine

from wfrun.engine.errors import TransientError
from wfrun.sites.stored import SLOW_BYTES_PER_S

STALL_S = 1800.0
"""Maximum time without progress, in seconds. Files on tape take minutes to appear; a site that
neither sends nor takes anything must not hold the other end's slots for ever."""


class StallGuard:
    """Watches the pieces of one copy on their way from its source to its destination."""

    def __init__(self, source: str, destination: str, start: int = 0) -> None:
        """``source`` and ``destination`` are paths, for messages. ``start`` is the number of bytes
        that are at the destination already."""
        self._source = source
        self._destination = destination
        self._steps = 0
        """Number of pieces requested, plus number of pieces received."""
        self._bytes = start
        self._at_source = False
        """Whether the copy waits for a piece from its source; else it waits for its destination."""
        self._sent_all = False
        self._is_ended = False
        """Whether nothing more is to be written."""

    async def pieces(self, data: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Pass on a stream, and record its progress."""
        self._step(at_source=True)
        async for piece in data:
            self._bytes += len(piece)
            self._step(at_source=False)
            if self._is_ended:  # The writer has ignored its cancellation: see `read_ahead`.
                raise asyncio.CancelledError
            yield piece
            self._step(at_source=True)
        self._step(at_source=False)
        self._sent_all = True

    def _step(self, *, at_source: bool) -> None:
        self._at_source = at_source
        self._steps += 1

    async def watch(self, writing: Coroutine[None, None, None]) -> None:
        """Run ``writing``, which writes the pieces. Cancels it and raises TransientError if it
        makes no progress for STALL_S. Once it has all pieces, the limit is longer by the time to
        read the whole file again."""
        task = asyncio.ensure_future(writing)
        try:
            while not task.done():
                before, limit_s = self._steps, STALL_S
                if self._sent_all:  # What it has written is synced and compared.
                    limit_s += self._bytes / SLOW_BYTES_PER_S
                await asyncio.wait([task], timeout=limit_s)
                if not task.done() and self._steps == before:
                    raise self._stalled(limit_s)
        finally:
            self._is_ended = True
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        task.result()

    def _stalled(self, limit_s: float) -> TransientError:
        if self._at_source:
            return TransientError(f"{self._source}: nothing came for {limit_s:g} s")
        return TransientError(f"{self._destination}: nothing was taken for {limit_s:g} s")
