"""A stream of bytes whose digest is computed while they are sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from wfrun.sites.node.tasks.digests import LARGE_BYTES, new_digest


class HashedStream:
    """Passes on the pieces of a file, and hashes each in a thread while its receiver has it."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._total = new_digest(LARGE_BYTES)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Pass on the pieces. Callers close the generator unless they exhaust it."""
        async for piece in self._pieces:
            # hashlib lets other threads run meanwhile.
            hashing = asyncio.ensure_future(asyncio.to_thread(self._total.update, piece))
            try:
                yield piece
            finally:
                await hashing

    @property
    def digest(self) -> str:
        """The digest of all pieces so far."""
        return str(self._total.hexdigest())
