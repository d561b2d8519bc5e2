"""Maximum bandwidths of links and sites. What they promise is a lower bound of time, which a slow
machine only exceeds."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from wfrun.engine.model import LinkSpec, SiteSpec
from wfrun.sites.catalog import parse_catalog
from wfrun.sites.transfers.bandwidth_cap import (
    RESERVED_SHARE,
    BandwidthCaps,
    RateLimit,
    reserved,
)
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.relay.stream import Stream
from wfrun.sites.transfers.router import TransferRouter

RATE = 1e6
EARLY_S = 0.05
"""Clocks are this coarse."""


def router(stores: list[Path], links: list[LinkSpec], *caps: float | None) -> TransferRouter:
    specs = [SiteSpec(f"site{i}", 1, max_bandwidth_bytes_per_s=cap) for i, cap in enumerate(caps)]
    ends = enumerate(zip(specs, stores, strict=True))
    endpoints = [LocalEndpoint(index, spec, store) for index, (spec, store) in ends]
    return TransferRouter(endpoints, {"stream": Stream(BandwidthCaps(links))}, stores[0].parent)


@pytest.fixture
def stores(tmp_path: Path) -> list[Path]:
    made = [tmp_path / "one", tmp_path / "two"]
    for store in made:
        store.mkdir()
    for name, size_bytes in (("large", 200_000), ("small", 50_000), ("other", 150_000)):
        (made[0] / name).write_bytes(os.urandom(size_bytes))
    (made[0] / "tree").mkdir()
    (made[0] / "tree" / "file").write_bytes(bytes(200_000))
    return made


async def _seconds(transfer: TransferRouter, names: list[str], to: int = 1) -> float:
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    await asyncio.gather(*(transfer.copy(0, name, to, name) for name in names))
    return loop.time() - begun_s


async def test_the_copies_of_a_link_share_its_cap(stores: list[Path]) -> None:
    link = LinkSpec("site0", "site1", max_bandwidth_bytes_per_s=RATE)
    names = ["large", "small", "other"]
    assert await _seconds(router(stores, [link], None, None), names) >= 0.4 - EARLY_S
    for name in names:
        assert (stores[1] / name).read_bytes() == (stores[0] / name).read_bytes()


async def test_a_directory_obeys_the_cap(stores: list[Path]) -> None:
    assert await _seconds(router(stores, [], RATE, None), ["tree"]) >= 0.2 - EARLY_S


async def test_the_copies_of_a_site_share_its_cap(stores: list[Path]) -> None:
    assert await _seconds(router(stores, [], None, RATE), ["large", "other"]) >= 0.35 - EARLY_S


def test_the_catalog_states_caps() -> None:
    document = b"""
sites:
  a: {slots: 1, max_bandwidth: 50 MB/s}
links:
  - {between: [origin, a], max_bandwidth: 8 Mb/s}
"""
    catalog = parse_catalog(document, "sites.yaml")
    assert catalog.sites[0].max_bandwidth_bytes_per_s == 50e6
    assert [link.max_bandwidth_bytes_per_s for link in catalog.links] == [1e6, 1e6]
    assert not any(link.has_speed for link in catalog.links)


async def test_copies_by_clients_share_a_cap_with_others() -> None:
    """One at a time gets most of it, and the others the rest meanwhile."""
    low, high = RateLimit(RATE), RateLimit(2 * RATE)
    running = 0

    async def copy(limits: list[RateLimit]) -> None:
        nonlocal running
        async with reserved(limits) as rate:
            running += 1
            assert running == 1
            assert rate == RESERVED_SHARE * min(limit.bytes_per_s for limit in limits)
            begun_s = asyncio.get_running_loop().time()
            await limits[0].spend(10_000)
            left = limits[0].bytes_per_s - rate
            assert asyncio.get_running_loop().time() - begun_s >= 10_000 / left - EARLY_S
            running -= 1

    await asyncio.gather(copy([low, high]), copy([high, low]), copy([low]))
    assert (low.reserved_bytes_per_s, high.reserved_bytes_per_s) == (0.0, 0.0)
    async with reserved([]) as rate:
        assert rate is None
