"""Writes a file from a server to a site while the file arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

from wfrun.engine.exchange import ANYTHING, Receipt
from wfrun.sites.transfers.bandwidth_cap import RateLimit, limited
from wfrun.sites.transfers.method import Location
from wfrun.sites.transfers.relay.hashed import HashedStream
from wfrun.sites.transfers.relay.read_ahead import read_ahead
from wfrun.sites.transfers.relay.stall import StallGuard


async def receive(
    shown: str,
    data: AsyncIterator[bytes],
    sent: HashedStream,
    destination: Location,
    key: str,
    limits: Sequence[RateLimit],
    *,
    verify: bool,
) -> Receipt:
    """Write a file whose size the sender knows, with the guarantees of ``TransferMethod.copy``.
    ``shown`` names the file in messages. ``sent`` has the digest of ``data`` once ``data`` has
    ended; with ``verify`` the written file is compared with this digest."""
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    guard = StallGuard(shown, destination.path)
    to, sizes = destination.endpoint, [0]
    async with (
        to.slot,
        aclosing(read_ahead(_counted(data, sizes))) as ahead,
        aclosing(limited(ahead, limits)) as slowed,
        aclosing(guard.pieces(slowed)) as pieces,
    ):
        await to.prepare(destination.name)
        # A program may be an input.
        compared = sent if verify else None
        await guard.watch(to.write(destination.name, pieces, ANYTHING, True, key, compared))
    return Receipt(sum(sizes), loop.time() - begun_s, sent.digest, method="relay")


async def _counted(data: AsyncIterator[bytes], sizes: list[int]) -> AsyncGenerator[bytes, None]:
    async for piece in data:
        sizes[0] += len(piece)
        yield piece
