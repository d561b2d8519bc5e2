"""Copies of large files that go on from what an earlier copy has left at the destination.

The part of such a copy has a name that follows from that of the file, so that the next copy finds
it, also one by another transfer method or engine: the store of a site belongs to one run, and the
lock of a run lets one engine drive it. Within an engine ``PartClaims`` keeps copies apart. The
program that wrote the part may still be alive for a moment after its engine has died. It writes the
bytes of the same file at the same places, and what has arrived is compared by its digest.
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
"""Minimum size of a file whose copy is resumed: a smaller one is soon sent again."""
BACK_BYTES = 8 << 20
"""Bytes at the end of a part that are sent again. A server may write the bytes under way in any
order; this is twice as many."""
CLAIM_S = 20.0
"""Maximum wait for the end of a cancelled copy of the same file, in seconds. After that the file is
sent from its beginning."""

_T = TypeVar("_T")


class PartClaims:
    """The destinations of copies under way whose parts are kept."""

    def __init__(self) -> None:
        self._claimed: dict[tuple[int, str], asyncio.Event] = {}

    @contextlib.asynccontextmanager
    async def claim(self, destination: Location, size_bytes: int) -> AsyncIterator[str | None]:
        """The key of the part that the copies of one file share, one after another. None if the
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
    """Whether the part of a copy that failed or was cancelled is left for the next one."""
    if isinstance(error, DigestError) or not is_kept(key):
        return False
    return isinstance(error, (TransientError, asyncio.CancelledError))


async def resuming(
    to: Endpoint, name: str, key: str, size_bytes: int, copy: Callable[[int], Awaitable[_T]]
) -> _T:
    """Call ``copy`` with the size of the part that an earlier copy has left, 0 if there is no
    usable part. If the copy then differs from its source, call ``copy`` once more with 0."""
    if is_kept(key) and (left := await to.left(name, key)) is not None:
        if 0 < left <= size_bytes:
            with contextlib.suppress(DigestError):
                return await copy(left)
        await to.discard(name, key)
    return await copy(0)


def trusted(left_bytes: int) -> int:
    """Where in a part of this size a stream goes on."""
    return max(0, left_bytes - BACK_BYTES) // BLOCK_BYTES * BLOCK_BYTES
