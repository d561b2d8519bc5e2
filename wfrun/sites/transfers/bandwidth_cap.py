"""Maximum bandwidths of links and sites, which the catalog states as ``max_bandwidth``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from wfrun.engine.model import LinkSpec
from wfrun.sites.transfers.endpoint import Endpoint, endpoint_name

_PORTION_S = 0.25
_MIN_PORTION_BYTES = 1 << 12
"""What passes at once takes this time at the cap, and is at least so large: with larger portions
copies would stand still in turns."""


class RateLimit:
    """A rate in bytes per second that all its users share, in the order in which they ask."""

    def __init__(self, bytes_per_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self._free_s = 0.0
        """Time at which all that was asked for so far has passed."""

    async def spend(self, size_bytes: int) -> None:
        """Return when these bytes have passed. Idle time is not saved up."""
        now_s = asyncio.get_running_loop().time()
        self._free_s = max(self._free_s, now_s) + size_bytes / self.bytes_per_s
        await asyncio.sleep(self._free_s - now_s)


class BandwidthCaps:
    """The caps of all links and sites. A copy obeys those of its link and of both of its ends."""

    def __init__(self, links: Sequence[LinkSpec]) -> None:
        self._links = {
            (link.source, link.destination): RateLimit(link.max_bandwidth_bytes_per_s)
            for link in links
            if link.max_bandwidth_bytes_per_s is not None
        }
        self._sites: dict[str, RateLimit] = {}

    def between(self, source: Endpoint, destination: Endpoint) -> list[RateLimit]:
        """The limits of a copy."""
        names = endpoint_name(source), endpoint_name(destination)
        limits = [self._links[names]] if names in self._links else []
        for spec in {end.index: end.spec for end in (source, destination)}.values():
            if spec is not None and spec.max_bandwidth_bytes_per_s is not None:
                limit = RateLimit(spec.max_bandwidth_bytes_per_s)
                limits.append(self._sites.setdefault(spec.name, limit))
        return limits


async def spend(limits: Sequence[RateLimit], size_bytes: int) -> None:
    """Return when these bytes have passed all limits."""
    if limits:
        await asyncio.gather(*(limit.spend(size_bytes) for limit in limits))


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
