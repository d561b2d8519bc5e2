"""Bounds the memory of copies."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator


class Room:
    """A number of bytes of memory, granted to requests in the order in which they arrive."""

    def __init__(self, size_bytes: int) -> None:
        self._free_bytes = size_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @contextlib.asynccontextmanager
    async def hold(self, size_bytes: int) -> AsyncIterator[None]:
        """Wait until ``size_bytes`` are free, and hold them. ``size_bytes`` must not exceed the
        whole room."""
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, asked))
        self._give()
        try:
            await asked
            yield
        finally:
            if asked.done() and not asked.cancelled():
                self._free_bytes += size_bytes
            self._give()

    def _give(self) -> None:
        """Grant bytes to the waiting requests, in order, until the next request does not fit."""
        while self._waiting:
            size_bytes, asked = self._waiting[0]
            if not asked.cancelled():
                if size_bytes > self._free_bytes:
                    return
                self._free_bytes -= size_bytes
                asked.set_result(None)
            self._waiting.popleft()
