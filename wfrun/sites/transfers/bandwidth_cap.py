"""Maximum bandwidths of links and sites, which the catalog states as ``max_bandwidth``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from wfrun.engine.model import LinkSpec
from wfrun.sites.transfers.endpoints.endpoint import Endpoint, endpoint_name

_PORTION_S = 0.25
_MIN_PORTION_BYTES = 1 << 12
"""Minimum size of a piece of a limited stream. A piece has as many bytes as the lowest cap lets
pass in _PORTION_S; with larger pieces, copies would pause in turns."""


RESERVED_SHARE = 0.9
"""Share of a rate that is reserved for one copy by a client at a site. Small files use the rest."""


class RateLimit:
    """A rate in bytes per second that all its users share, in the order in which they ask."""

    def __init__(self, bytes_per_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self.reserved_bytes_per_s = 0.0
        """The part of the rate that is reserved for a copy by a client at a site."""
        self.reservation = asyncio.Lock()
        """Lock held by the copy that has the reservation."""
        self._free_s = 0.0
        """Event loop time at which all requested bytes have passed."""

    async def spend(self, size_bytes: int) -> None:
        """Wait until ``size_bytes`` have passed. Idle time is not saved up."""
        now_s = asyncio.get_running_loop().time()
        free_bytes_per_s = self.bytes_per_s - self.reserved_bytes_per_s
        self._free_s = max(self._free_s, now_s) + size_bytes / free_bytes_per_s
        await asyncio.sleep(self._free_s - now_s)


class BandwidthCaps:
    """The caps of all links and sites. The copies by all methods share them; each copy obeys the
    caps of its link and of both of its sites."""

    def __init__(self, links: Sequence[LinkSpec] = ()) -> None:
        self.links = links
        self._links = {
            (link.source, link.destination): RateLimit(link.max_bandwidth_bytes_per_s)
            for link in links
            if link.max_bandwidth_bytes_per_s is not None
        }
        self._sites: dict[str, RateLimit] = {}

    def between(self, source: Endpoint, destination: Endpoint) -> list[RateLimit]:
        """The limits of a copy: those of its link and of both of its sites."""
        names = endpoint_name(source), endpoint_name(destination)
        limits = [self._links[names]] if names in self._links else []
        for spec in {end.index: end.spec for end in (source, destination)}.values():
            if spec is not None and spec.max_bandwidth_bytes_per_s is not None:
                limit = RateLimit(spec.max_bandwidth_bytes_per_s)
                limits.append(self._sites.setdefault(spec.name, limit))
        return limits


async def spend(limits: Sequence[RateLimit], size_bytes: int) -> None:
    """Wait until ``size_bytes`` have passed all limits."""
    if limits:
        await asyncio.gather(*(limit.spend(size_bytes) for limit in limits))


@contextlib.asynccontextmanager
async def reserved(limits: Sequence[RateLimit]) -> AsyncIterator[float | None]:
    """Reserve most of the lowest rate for a copy by a client at a site, since the client cannot ask
    for each piece. Yields the reserved rate in bytes per second; None if there is no limit. Only
    one copy at a time has a reservation of a limit; others wait."""
    if not limits:
        yield None
        return
    async with contextlib.AsyncExitStack() as stack:
        # All in one order, so that no two wait for each other.
        for limit in sorted(limits, key=id):
            await stack.enter_async_context(limit.reservation)
        rate = RESERVED_SHARE * min(limit.bytes_per_s for limit in limits)
        for limit in limits:
            limit.reserved_bytes_per_s = rate
        try:
            yield rate
        finally:
            for limit in limits:
                limit.reserved_bytes_per_s = 0.0


async def limited(
    data: AsyncIterator[bytes], limits: Sequence[RateLimit]
) -> AsyncGenerator[bytes, None]:
    """Pass on a stream within the limits."""
    if not limits:
        async for piece in data:
            yield piece
        return
    lowest = min(limit.bytes_per_s for limit in limits)
    portion = max(_MIN_PORTION_BYTES, int(lowest * _PORTION_S))
    async for piece in data:
        for start in range(0, len(piece), portion):
            part = piece[start : start + portion]
            await spend(limits, len(part))
            yield part
