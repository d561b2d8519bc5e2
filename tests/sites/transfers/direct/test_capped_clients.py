"""Clients of a site obey the maximum bandwidth of the catalog. It promises a lower bound of time,
which a slow machine only exceeds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.sites.transfers.test_faults import opened
from wfrun.engine.model import LinkSpec
from wfrun.sites.transfers import METHODS
from wfrun.sites.transfers.bandwidth_cap import BandwidthCaps
from wfrun.sites.transfers.router import TransferRouter

if TYPE_CHECKING:
    from tests.servers.ssh import FaultySSH

pytestmark = pytest.mark.slow

RATE = 300_000.0
SIZE_BYTES = 1_000_000


@pytest.fixture
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[FaultySSH]]:
    from tests.servers.ssh import FaultySSH

    base = tmp_path_factory.mktemp("faulty")
    made = [FaultySSH(base / name, name) for name in ("one", "two")]
    try:
        yield made
    finally:
        for server in made:
            server.close()


async def test_a_client_obeys_the_cap_of_its_link(servers: list[FaultySSH]) -> None:
    caps = BandwidthCaps([LinkSpec("site0", "site1", max_bandwidth_bytes_per_s=RATE)])
    loop = asyncio.get_running_loop()
    async with opened(servers, "stream") as rig:
        content = os.urandom(SIZE_BYTES)
        (rig.stores[0] / "f").write_bytes(content)
        for method in ("rsync", "scp", "sftp"):
            router = TransferRouter(
                rig.endpoints, {method: METHODS[method].make(caps)}, rig.stores[0]
            )
            begun_s = loop.time()
            assert (await router.copy(0, "f", 1, method)).method == method
            # Clients begin with a burst.
            assert loop.time() - begun_s >= 0.7 * SIZE_BYTES / RATE
            assert (rig.stores[1] / method).read_bytes() == content
            router.close()
