"""Local copies of large sparse files, to full disks, and over emulated links."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.engine.exchange import Content, Receipt
from wfrun.engine.model import ORIGIN, LinkSpec, SiteSpec
from wfrun.sites.simulated.network import SimNetwork
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.local import disk
from wfrun.sites.transfers.local.local_copy import LocalCopy
from wfrun.sites.transfers.router import TransferRouter


@pytest.fixture
def stores(tmp_path: Path) -> list[Path]:
    stores = [tmp_path / "a", tmp_path / "b"]
    for store in stores:
        store.mkdir()
    return stores


async def test_links_that_leave_a_directory(stores: list[Path], tmp_path: Path) -> None:
    """A node makes none. Those of the user's own directories are theirs."""
    inner, own = stores[0] / "d" / "e", tmp_path / "own"
    inner.mkdir(parents=True)
    own.mkdir()
    (inner / "file").write_text("x")
    (inner / "in").symlink_to("../e/file")
    transfer = local_transfer(stores)
    await transfer.copy(0, "d", 1, "copy")
    assert (stores[1] / "copy" / "e" / "in").read_text() == "x"
    for target in ("../../../own", str(own)):
        (inner / "out").unlink(missing_ok=True)
        (inner / "out").symlink_to(target)
        with pytest.raises(InfeasibleError, match="its link 'e/out' leads out of it"):
            await transfer.copy(0, "d", ORIGIN, str(tmp_path / "a" / "collected"))
    assert not list((tmp_path / "a").glob("*collected*"))
    assert not list((tmp_path / "a").glob(".wfrun-part-*"))
    (own / "out").symlink_to("../nowhere")
    await transfer.copy(ORIGIN, str(own), 1, "given")
    assert (stores[1] / "given" / "out").is_symlink()


UNREADABLE = "/proc/self/mem"
"""A regular file whose first bytes cannot be read: EIO."""


async def test_what_may_be_readable_soon_is_not_given_up(tmp_path: Path) -> None:
    with pytest.raises(TransientError, match="Input/output error"):
        await LocalEndpoint().read_small(UNREADABLE, 0)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InfeasibleError, match="loop cannot be read: Too many levels"):
        await LocalEndpoint().stat(str(tmp_path / "loop"))
    assert await LocalEndpoint().stat(str(tmp_path / "none")) is None


def local_transfer(stores: Sequence[Path], *links: LinkSpec) -> TransferRouter:
    return TransferRouter(
        [
            LocalEndpoint(index, SiteSpec(name, slots=1), store)
            for index, (name, store) in enumerate(zip("ab", stores, strict=True))
        ],
        {"copy": LocalCopy(links)},
        stores[0].parent,
    )


@pytest.fixture
def transfer(stores: list[Path]) -> Iterator[TransferRouter]:
    transfer = local_transfer(stores)
    yield transfer
    transfer.close()


async def test_a_sparse_file_stays_sparse(stores: list[Path], transfer: TransferRouter) -> None:
    size_bytes = 20_000_000_000
    with (stores[0] / "f").open("wb") as file:
        file.seek(size_bytes // 2)
        file.write(b"middle")
        file.truncate(size_bytes)
    begun_s = time.process_time()
    assert (await transfer.copy(0, "f", 1, "f")).size_bytes == size_bytes
    assert time.process_time() - begun_s < 10
    with (stores[1] / "f").open("rb") as file:
        file.seek(size_bytes // 2)
        assert file.read(8) == b"middle\0\0"
    assert (stores[1] / "f").stat().st_blocks < 1000


async def test_without_help_from_the_kernel(
    stores: list[Path], transfer: TransferRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    content = bytes(range(256)) * 20_000
    (stores[0] / "f").write_bytes(content)
    await transfer.copy(0, "f", 1, "f")
    assert (stores[1] / "f").read_bytes() == content


async def test_a_full_disk(small_disk: Path, stores: list[Path]) -> None:
    transfer = local_transfer([stores[0], small_disk])
    try:
        (stores[0] / "f").write_bytes(bytes(range(256)) * 8192)
        with pytest.raises(InfeasibleError, match="No space left"):
            await transfer.copy(0, "f", 1, "f")
        assert not list(small_disk.iterdir())
    finally:
        transfer.close()


async def test_bandwidth_and_latency_hold_in_their_direction(
    stores: list[Path], tmp_path: Path
) -> None:
    links = [
        LinkSpec("origin", "a", bandwidth_bytes_per_s=100_000, latency_s=0.1),
        LinkSpec("a", "origin", bandwidth_bytes_per_s=1),
    ]
    transfer = local_transfer(stores, *links)
    (tmp_path / "f").write_bytes(bytes(10_000))
    receipt = await transfer.copy(ORIGIN, str(tmp_path / "f"), 0, "f")
    assert 0.19 <= receipt.elapsed_s < 60
    transfer.close()


async def test_files_on_a_link_share_it_evenly_and_arrive_as_in_a_simulation(
    stores: list[Path],
) -> None:
    link = LinkSpec("a", "b", bandwidth_bytes_per_s=1_000_000, latency_s=0.02)
    sizes = {"large": 400_000, "small": 100_000, "late": 100_000, "empty": 0}
    begins_s = {"large": 0.0, "small": 0.0, "late": 0.3, "empty": 0.1}
    network: SimNetwork[str] = SimNetwork(["a", "b"], [link])
    expected_s: dict[str, float] = {}
    for name in [*sorted(sizes, key=begins_s.__getitem__), None]:
        until_s = math.inf if name is None else begins_s[name]
        while (at_s := network.next_change_s) < math.inf and at_s <= until_s:
            expected_s |= dict.fromkeys(network.advance(at_s), at_s)
        if name is not None:
            network.start(name, 0, 1, sizes[name], until_s)
    assert expected_s == pytest.approx({"empty": 0.12, "small": 0.22, "late": 0.52, "large": 0.62})

    transfer = local_transfer(stores, link)
    loop = asyncio.get_running_loop()
    begun_s = loop.time()

    async def copied_s(name: str) -> float:
        with (stores[0] / name).open("wb") as file:
            file.truncate(sizes[name])
        await asyncio.sleep(begins_s[name] + begun_s - loop.time())
        await transfer.copy(0, name, 1, name)
        return loop.time() - begun_s

    ends_s = await asyncio.gather(*map(copied_s, sizes))
    for name, end_s in zip(sizes, ends_s, strict=True):
        assert expected_s[name] - 0.005 <= end_s < expected_s[name] + 60
    assert ends_s[1] < ends_s[0]  # the small one does not wait for the large one
    transfer.close()


async def test_a_cancelled_copy_leaves_the_link_to_others(stores: list[Path]) -> None:
    transfer = local_transfer(stores, LinkSpec("a", "b", 1_000_000))
    for name, size_bytes in (("huge", 10**12), ("small", 500_000)):
        with (stores[0] / name).open("wb") as file:
            file.truncate(size_bytes)
    huge = [asyncio.ensure_future(transfer.copy(0, "huge", 1, f"{n}")) for n in range(60)]
    small = asyncio.ensure_future(transfer.copy(0, "small", 1, "small"))
    await asyncio.sleep(0.05)
    for copy in huge:
        copy.cancel()
    await asyncio.wait_for(small, 15)  # half a second; 30 s beside the others
    assert all(copy.cancelled() for copy in huge)
    transfer.close()


async def test_a_failed_copy_does_not_occupy_the_link(stores: list[Path]) -> None:
    transfer = local_transfer(stores, LinkSpec("a", "b", 10.0))
    (stores[0] / "large" / "d").mkdir(parents=True)
    (stores[0] / "large" / "f").write_bytes(bytes(100_000))
    os.mkfifo(stores[0] / "large" / "pipe")
    with pytest.raises(InfeasibleError, match="neither a file nor a directory"):
        await transfer.copy(0, "large", 1, "large")
    assert not list(stores[1].iterdir())
    (stores[0] / "small").write_bytes(b"1")
    await asyncio.wait_for(transfer.copy(0, "small", 1, "small"), 20)
    transfer.close()


async def test_what_is_no_file_is_refused(transfer: TransferRouter) -> None:
    with pytest.raises(InfeasibleError, match="neither a file nor a directory"):
        await transfer.copy(ORIGIN, "/dev/null", 1, "f")


async def test_a_closed_transfer_is_transient(
    stores: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was being copied when it was closed may be tried again; nothing of it is left."""
    method = LocalCopy()
    endpoints = [LocalEndpoint(0, SiteSpec("a", slots=1), stores[0])]
    endpoints.append(LocalEndpoint(1, SiteSpec("b", slots=1), stores[1]))
    transfer = TransferRouter(endpoints, {"copy": method}, stores[0].parent)

    def close_meanwhile(reader: int, writer: int, position: int, count: int) -> int:
        method._aborted.set()
        return 1

    monkeypatch.setattr(disk, "_copy_chunk", close_meanwhile)
    (stores[0] / "f").write_bytes(b"content")
    with pytest.raises(TransientError):
        await transfer.copy(0, "f", 1, "f")
    assert not list(stores[1].iterdir())
    transfer.close()


async def test_small_outputs_share_the_sync_of_their_folder(
    stores: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each alone waits twice for the disk: for its content, and for its name."""
    contents = {f"f{n}": os.urandom(n) for n in range(300)} | {"m": os.urandom(1 << 20)}
    for name, content in contents.items():
        (stores[0] / name).write_bytes(content)
    synced: list[bool] = []
    fsync = os.fsync

    def count(fd: int) -> None:
        synced.append(os.path.isdir(f"/proc/self/fd/{fd}"))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", count)
    transfer = local_transfer(stores)
    outputs = tmp_path / "outputs"
    try:
        await asyncio.gather(
            *(transfer.copy(0, name, ORIGIN, str(outputs / name)) for name in contents)
        )
    finally:
        transfer.close()
    assert {name: (outputs / name).read_bytes() for name in contents} == contents
    assert synced.count(False) == len(contents)
    assert 1 <= synced.count(True) <= 10


async def test_one_bad_output_does_not_fail_those_that_are_copied_with_it(
    stores: list[Path], tmp_path: Path, transfer: TransferRouter
) -> None:
    (stores[0] / "good").write_bytes(b"1")
    (stores[0] / "short").write_bytes(b"2")
    (stores[0] / "folder").mkdir()
    (stores[0] / "folder" / "f").write_bytes(b"3")
    outputs = tmp_path / "outputs"
    good, short, gone, folder = await asyncio.gather(
        transfer.copy(0, "good", ORIGIN, str(outputs / "good"), Content(1)),
        transfer.copy(0, "short", ORIGIN, str(outputs / "short"), Content(2)),
        transfer.copy(0, "gone", ORIGIN, str(outputs / "gone"), Content(1)),
        transfer.copy(0, "folder", ORIGIN, str(outputs / "folder"), Content(1)),
        return_exceptions=True,
    )
    assert [type(answer) for answer in (good, folder)] == [Receipt, Receipt]
    assert "has changed since it was written" in str(short)
    assert "is absent" in str(gone)
    assert sorted(path.name for path in outputs.iterdir()) == ["folder", "good"]
    assert (outputs / "folder" / "f").read_bytes() == b"3"
