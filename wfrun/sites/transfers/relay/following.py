"""Digests of parts, computed while programs write the parts."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from wfrun.engine.exchange import Content
from wfrun.sites.remote.agent import GrowingDigest
from wfrun.sites.tasks import end_tasks

FOLLOW_S = 60.0
"""Timeout in seconds for the digest of a part after the part has been written. After the timeout
the part is read back."""


class Following:
    """The digest of a part, computed while it is written. Each byte must be written once."""

    def __init__(self, task: asyncio.Task[str | None] | None) -> None:
        self._task = task

    async def digest(self) -> str | None:
        """The digest of the complete part; None: the part has to be read back."""
        if self._task is not None:
            with contextlib.suppress(asyncio.TimeoutError):
                return await asyncio.wait_for(asyncio.shield(self._task), FOLLOW_S)
        return None


@contextlib.asynccontextmanager
async def following(
    follow: Callable[[str, int], Coroutine[Any, Any, str | None]],
    part: str,
    size_bytes: int | None,
) -> AsyncIterator[Following]:
    """Compute the digest of a part by ``follow`` while the part is written. If ``size_bytes``, the
    size of the part, is None, no digest is computed."""
    if size_bytes is None:
        yield Following(None)
        return
    task = asyncio.create_task(follow(part, size_bytes))
    try:
        yield Following(task)
    finally:
        await end_tasks([task])


def followed_bytes(whole: Content, start: int) -> int | None:
    """Return the size of the part if its digest is to be compared and can be computed while a
    program writes it; else None. With a ``start`` above 0 the digest cannot be computed, since
    bytes that an earlier copy has left may be written again."""
    is_compared = whole.verify or whole.digest is not None
    return whole.size_bytes if is_compared and not start else None


async def follow_here(path: str, size_bytes: int) -> str | None:
    """The digest of a file of this machine, computed while it is written; None if the file has to
    be read back."""
    growing = GrowingDigest(os.fsencode(path), size_bytes)
    with contextlib.suppress(OSError):
        while (pause_s := await asyncio.to_thread(growing.look)) is not None:
            await asyncio.sleep(pause_s)
    return growing.digest
