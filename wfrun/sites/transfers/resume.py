"""Copies of large files that go on from the part that an earlier copy has left at the destination.

The name of such a part follows from the name of the file. So the next copy finds the part, even if
it is made by another transfer method or engine. Two copies never write one part at once: the store
of a site belongs to one run, the lock of a run lets one engine drive it, and within an engine
``PartClaims`` keeps copies apart. Only the program that wrote the part may live for a moment longer
than its engine. It writes the bytes of the same file at the same places, and the complete part is
compared by its digest.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import sha256
from os.path import basename
from typing import TypeVar

from wfrun.engine.errors import TransientError
from wfrun.sites.remote.files.cat import BLOCK_BYTES
from wfrun.sites.transfers.endpoints.endpoint import KEPT, DigestError, Endpoint, is_kept
from wfrun.sites.transfers.method import Location

RESUME_BYTES = 64 << 20
"""Minimum size in bytes of a file whose copy is resumed. A smaller file is soon sent again."""
BACK_BYTES = 8 << 20
"""Number of bytes at the end of a part that are sent again: twice the number of bytes that are in
flight, which a server may write in any order."""
CLAIM_S = 20.0
"""Maximum wait, in seconds, for the end of a cancelled copy of the same file. After this time the
file is sent from its beginning, into another part."""

_T = TypeVar("_T")


class PartClaims:
    """The destinations of running copies whose parts are kept."""

    def __init__(self) -> None:
        self._claimed: dict[tuple[int, str], asyncio.Event] = {}

    @contextlib.asynccontextmanager
    async def claim(self, destination: Location, size_bytes: int) -> AsyncIterator[str | None]:
        """Yield the key of the part that all copies of a file share, one after another. None if the
        file is not large, or if another copy of it is still under way after CLAIM_S."""
        if size_bytes < RESUME_BYTES:
            yield None
            return
        place = destination.endpoint.index, destination.name
        if (earlier := self._claimed.get(place)) is not None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(earlier.wait(), CLAIM_S)
        if place in self._claimed:
            yield None
            return
        released = self._claimed[place] = asyncio.Event()
        try:
            name = basename(destination.name).encode("utf-8", "surrogateescape")
            yield f"{KEPT}{sha256(name).hexdigest()[:24]}"
        finally:
            del self._claimed[place]
            released.set()


def keeps_part(key: str, error: BaseException) -> bool:
    """Whether the part of a copy that failed with ``error``, or was cancelled, is left for the next
    copy."""
    if isinstance(error, DigestError) or not is_kept(key):
        return False
    return isinstance(error, (TransientError, asyncio.CancelledError))


async def resuming(
    to: Endpoint, name: str, key: str, size_bytes: int, copy: Callable[[int], Awaitable[_T]]
) -> _T:
    """Call ``copy`` with the size in bytes of the part that an earlier copy has left, 0 if there is
    no usable part. If the result differs from its source (DigestError), discard it and call
    ``copy`` once more with 0."""
    if is_kept(key) and (left := await to.left(name, key)) is not None:
        if 0 < left <= size_bytes:
            with contextlib.suppress(DigestError):
                return await copy(left)
        await to.discard(name, key)
    return await copy(0)


def trusted(left_bytes: int) -> int:
    """Position in bytes at which a stream continues a part of ``left_bytes``: a multiple of
    BLOCK_BYTES, at least BACK_BYTES before its end, or 0."""
    return max(0, left_bytes - BACK_BYTES) // BLOCK_BYTES * BLOCK_BYTES
