"""Local transfers of large sparse files, to full disks, and in scaled time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.engine.model import ORIGIN, LinkSpec
from wfrun.sites import transfer as transfer_module
from wfrun.sites.transfer import LocalTransfer


@pytest.fixture
def stores(tmp_path: Path) -> list[Path]:
    stores = [tmp_path / "a", tmp_path / "b"]
    for store in stores:
        store.mkdir()
    return stores


@pytest.fixture
def transfer(stores: list[Path]) -> Iterator[LocalTransfer]:
    transfer = LocalTransfer(stores, [], ["a", "b"])
    yield transfer
    transfer.close()


async def test_a_sparse_file_stays_sparse(stores: list[Path], transfer: LocalTransfer) -> None:
    size_bytes = 20_000_000_000
    with (stores[0] / "f").open("wb") as file:
        file.seek(size_bytes // 2)
        file.write(b"middle")
        file.truncate(size_bytes)
    begun_s = time.monotonic()
    assert (await transfer.copy(0, "f", 1, "f")).size_bytes == size_bytes
    assert time.monotonic() - begun_s < 10
    with (stores[1] / "f").open("rb") as file:
        file.seek(size_bytes // 2)
        assert file.read(8) == b"middle\0\0"
    assert (stores[1] / "f").stat().st_blocks < 1000


async def test_without_help_from_the_kernel(
    stores: list[Path], transfer: LocalTransfer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    content = bytes(range(256)) * 20_000
    (stores[0] / "f").write_bytes(content)
    await transfer.copy(0, "f", 1, "f")
    assert (stores[1] / "f").read_bytes() == content


async def test_a_full_disk(tmp_path: Path, stores: list[Path]) -> None:
    small = tmp_path / "small"
    small.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a file system")
    transfer = LocalTransfer([stores[0], small], [], ["a", "b"])
    try:
        (stores[0] / "f").write_bytes(bytes(range(256)) * 8192)
        with pytest.raises(InfeasibleError, match="No space left"):
            await transfer.copy(0, "f", 1, "f")
        assert not list(small.iterdir())
    finally:
        transfer.close()
        subprocess.run(["umount", "-l", str(small)], check=True)


async def test_bandwidth_and_latency_hold_in_their_direction(
    stores: list[Path], tmp_path: Path
) -> None:
    links = [
        LinkSpec("origin", "a", bandwidth_bytes_per_s=100_000, latency_s=0.1),
        LinkSpec("a", "origin", bandwidth_bytes_per_s=1),
    ]
    transfer = LocalTransfer(stores, links, ["a", "b"])
    (tmp_path / "f").write_bytes(bytes(10_000))
    receipt = await transfer.copy(ORIGIN, str(tmp_path / "f"), 0, "f")
    assert 0.19 <= receipt.elapsed_s < 5
    transfer.close()


async def test_a_failed_copy_does_not_occupy_the_link(stores: list[Path]) -> None:
    transfer = LocalTransfer(stores, [LinkSpec("a", "b", 10.0)], ["a", "b"])
    (stores[0] / "large" / "d").mkdir(parents=True)
    (stores[0] / "large" / "f").write_bytes(bytes(100_000))
    os.mkfifo(stores[0] / "large" / "pipe")
    with pytest.raises(InfeasibleError, match="neither a file nor a directory"):
        await transfer.copy(0, "large", 1, "large")
    assert not list(stores[1].iterdir())
    (stores[0] / "small").write_bytes(b"1")
    await asyncio.wait_for(transfer.copy(0, "small", 1, "small"), 20)
    transfer.close()


async def test_what_is_no_file_is_refused(transfer: LocalTransfer) -> None:
    with pytest.raises(InfeasibleError, match="neither a file nor a directory"):
        await transfer.copy(ORIGIN, "/dev/null", 1, "f")


async def test_a_closed_transfer_is_transient(
    stores: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was being copied when it was closed may be tried again; nothing of it is left."""
    transfer = LocalTransfer(stores, [], ["a", "b"])

    def close_meanwhile(reader: int, writer: int, position: int, count: int) -> int:
        transfer._aborted.set()
        return 1

    monkeypatch.setattr(transfer_module, "_copy_chunk", close_meanwhile)
    (stores[0] / "f").write_bytes(b"content")
    with pytest.raises(TransientError):
        await transfer.copy(0, "f", 1, "f")
    assert not list(stores[1].iterdir())
    transfer.close()
