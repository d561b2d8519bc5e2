"""Copies that go on from what an earlier copy has left at the destination."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sites.transfers.test_faults import Rig, opened
from tests.waiting import PATIENCE_S, until
from wfrun.engine.errors import TransientError
from wfrun.engine.exchange import Content, Receipt
from wfrun.sites.transfers import METHODS, resume
from wfrun.sites.transfers.bandwidth_cap import BandwidthCaps
from wfrun.sites.transfers.endpoints.endpoint import KEPT_PATTERN
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.router import TransferRouter

if TYPE_CHECKING:
    from tests.servers.ssh import FaultySSH

pytestmark = pytest.mark.slow

MIB = 1 << 20
SIZE_BYTES = 8 * MIB
CUT_BYTES = 6 * MIB
RESUMING = ("rsync", "sftp", "stream")


@pytest.fixture(autouse=True)
def _small_files_are_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resume, "RESUME_BYTES", MIB)
    monkeypatch.setattr(resume, "BACK_BYTES", MIB)


class Pair:
    """Two sites behind SSH servers, of which the first has the file ``f``."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.sources, self.arrived = rig.stores
        self.write()

    def write(self) -> None:
        """Write the file, with another content."""
        self.content = os.urandom(SIZE_BYTES)
        (self.sources / "f").write_bytes(self.content)

    async def leave_part(self) -> Path:
        """The part that a copy leaves when the destination loses the connection in mid-file."""
        self.rig.clear()
        self.write()
        self.cut()
        with pytest.raises(TransientError, match="connection"):
            await self.copy("stream")
        (part,) = self.arrived.glob(KEPT_PATTERN)
        return part

    def router(self, *methods: str) -> TransferRouter:
        made = {name: METHODS[name].make(BandwidthCaps()) for name in methods}
        ends = [RemoteEndpoint(index, site) for index, site in enumerate(self.rig.sites)]
        return TransferRouter(
            ends, made, self.sources, resuming=RESUMING, checksums=True, large_only=["sftp"]
        )

    async def copy(self, *methods: str, size_bytes: int | None = SIZE_BYTES) -> Receipt:
        """Copy by a new router, as a new engine does."""
        router = self.router(*methods)
        try:
            return await asyncio.wait_for(
                router.copy(0, "f", 1, "f", Content(size_bytes)), PATIENCE_S
            )
        finally:
            router.close()

    def cut(self, *, times: int = 1) -> None:
        """Let the destination lose the connection in mid-file."""
        self.rig.servers[1].faults.inject(
            "reset", at_byte=CUT_BYTES, operation="write", times=times
        )

    def check(self) -> None:
        """The file has arrived, and nothing else is there."""
        assert (self.arrived / "f").read_bytes() == self.content
        assert [path.name for path in self.arrived.iterdir()] == ["f"]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[FaultySSH]]:
    from tests.servers.ssh import FaultySSH

    base = tmp_path_factory.mktemp("faulty")
    made = [FaultySSH(base / name, name) for name in ("one", "two")]
    try:
        yield made
    finally:
        for server in made:
            server.close()


@pytest.fixture
async def pair(servers: list[FaultySSH]) -> AsyncIterator[Pair]:
    async with opened(servers, "stream") as rig:
        yield Pair(rig)


async def test_a_copy_goes_on_where_a_stream_was_cut(pair: Pair) -> None:
    part = await pair.leave_part()
    left_bytes = part.stat().st_size
    for method in RESUMING:
        # The server may write what it has received after the connection was lost.
        assert 2 * MIB < left_bytes < SIZE_BYTES
        receipt = await pair.copy(method)
        assert (receipt.method, receipt.size_bytes) == (method, SIZE_BYTES)
        assert receipt.sent_bytes is not None
        assert 0 < receipt.sent_bytes <= SIZE_BYTES - left_bytes + 2 * MIB
        pair.check()
        (pair.arrived / "f").unlink()
        part.write_bytes(pair.content[:left_bytes])


async def test_a_stream_without_sftp_goes_on_where_it_was_cut(pair: Pair) -> None:
    for server in pair.rig.servers:
        server.faults.inject("no-sftp")
    left_bytes = (await pair.leave_part()).stat().st_size
    receipt = await pair.copy("stream")
    assert receipt.sent_bytes is not None
    assert 0 < receipt.sent_bytes <= SIZE_BYTES - left_bytes + 2 * MIB
    pair.check()


async def test_a_stream_goes_on_where_the_client_of_a_site_was_cut(pair: Pair) -> None:
    (pair.sources / "f").chmod(0o444)  # as files of a store are
    pair.cut()
    receipt = await pair.copy("sftp", "stream")
    assert receipt.method == "stream"
    assert "sftp failed" in receipt.fallback
    assert receipt.sent_bytes is not None
    assert receipt.sent_bytes < SIZE_BYTES
    pair.check()


async def test_a_part_of_something_else_is_not_used(pair: Pair) -> None:
    part = await pair.leave_part()
    half = SIZE_BYTES // 2
    lengths = [(method, half) for method in RESUMING]
    for method, left_bytes in (*lengths, ("stream", 2 * SIZE_BYTES), ("sftp", SIZE_BYTES)):
        part.write_bytes(os.urandom(left_bytes))
        receipt = await pair.copy(method)
        # rsync compares what is there itself, and sends it again.
        assert method == "rsync" or receipt.sent_bytes is None
        pair.check()
        (pair.arrived / "f").unlink()
    for method in RESUMING:  # The source has changed, or a byte at the beginning.
        part.write_bytes(bytes([pair.content[0] ^ 1]) + pair.content[1:half])
        receipt = await pair.copy(method)
        assert method == "rsync" or receipt.sent_bytes is None
        pair.check()
        (pair.arrived / "f").unlink()


async def test_a_copy_that_cannot_be_resumed_leaves_nothing_of_earlier_ones(pair: Pair) -> None:
    await pair.leave_part()
    receipt = await pair.copy("scp")
    assert (receipt.method, receipt.sent_bytes) == ("scp", None)
    pair.check()


async def test_what_is_not_compared_is_not_resumed(pair: Pair) -> None:
    """Nothing would tell that a part is of another file."""
    pair.cut()
    with pytest.raises(TransientError):
        await pair.rig.router.copy(0, "f", 1, "f", Content(SIZE_BYTES))
    await until(lambda: not list(pair.arrived.iterdir()))


async def test_copies_of_one_file_at_a_time_never_share_a_part(pair: Pair) -> None:
    """The second one goes on where the first one was cancelled."""
    router = pair.router("stream")
    pair.rig.servers[0].faults.inject(
        "slow", at_byte=4 * MIB, operation="read", amount=MIB // 2, times=None
    )
    first = asyncio.create_task(router.copy(0, "f", 1, "f", Content(SIZE_BYTES)))

    def has_begun() -> bool:
        parts = list(pair.arrived.glob(KEPT_PATTERN))
        return bool(parts) and parts[0].stat().st_size >= 3 * MIB

    await until(has_begun)
    second = asyncio.create_task(router.copy(0, "f", 1, "f", Content(SIZE_BYTES)))
    await asyncio.sleep(0)
    first.cancel()
    pair.rig.heal()
    receipt = await asyncio.wait_for(second, PATIENCE_S)
    assert receipt.sent_bytes is not None
    assert receipt.sent_bytes < SIZE_BYTES
    with pytest.raises(asyncio.CancelledError):
        await first
    pair.check()
    router.close()
