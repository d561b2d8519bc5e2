"""The conformance suite for transfers."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from wfrun.engine.errors import InfeasibleError
from wfrun.engine.exchange import Content
from wfrun.engine.model import ORIGIN, LinkSpec
from wfrun.engine.protocols import Transfer
from wfrun.sites.node.tasks.digests import digest_of_bytes, measure
from wfrun.testing.sites import ODD_NAMES


class TransferConformance:
    """The suite: what every transfer guarantees. Subclasses override ``make``."""

    pytestmark = pytest.mark.asyncio

    emulates_links = True
    """Whether copies take the time that the links of the catalog state. Copies over real links do
    not; the tests of running copies then use large files instead."""

    def make(self, stores: list[Path], links: list[LinkSpec]) -> Transfer:
        """Make a transfer between sites ``site0``, ``site1``, … with these directories as their
        stores."""
        raise NotImplementedError

    def two_stores(self, tmp_path: Path) -> list[Path]:
        """Make the directories for the stores of two sites."""
        stores = [tmp_path / "store0", tmp_path / "store1"]
        for store in stores:
            store.mkdir()
        return stores

    async def test_from_origin_to_sites_and_back(self, tmp_path: Path) -> None:
        stores = self.two_stores(tmp_path)
        transfer = self.make(stores, [])
        content = os.urandom(2_000_000)
        source, target = tmp_path / "input", tmp_path / "outputs" / "new" / "result"
        source.write_bytes(content)
        receipts = [
            await transfer.copy(ORIGIN, str(source), 0, "f"),
            await transfer.copy(0, "f", 1, "g"),
            await transfer.copy(1, "g", ORIGIN, str(target)),
        ]
        assert [receipt.size_bytes for receipt in receipts] == [len(content)] * 3
        assert all(receipt.elapsed_s >= 0 for receipt in receipts)
        assert target.read_bytes() == content
        assert [path.name for path in stores[1].iterdir()] == ["g"]

    @pytest.mark.parametrize("size_bytes", [7, 2_000_000])
    async def test_contents_that_are_expected(self, tmp_path: Path, size_bytes: int) -> None:
        """Check that a copy fails and leaves no file if the source does not have the expected size
        or digest."""
        stores = self.two_stores(tmp_path)
        transfer = self.make(stores, [])
        content = os.urandom(size_bytes)
        (stores[0] / "f").write_bytes(content)
        target = tmp_path / "outputs" / "f"
        whole = Content(size_bytes, digest_of_bytes(content))
        others = Content(size_bytes + 1), Content(size_bytes, digest_of_bytes(b"another"))
        for site, path, there in ((1, "f", stores[1] / "f"), (ORIGIN, str(target), target)):
            for other in others:
                with pytest.raises(InfeasibleError, match="has changed"):
                    await transfer.copy(0, "f", site, path, other)
                assert not list(stores[1].iterdir()) or site == ORIGIN
                assert not there.exists()
            assert (await transfer.copy(0, "f", site, path, whole)).digest == whole.digest
            assert there.read_bytes() == content

    async def test_contents_of_directories(self, tmp_path: Path) -> None:
        stores = self.two_stores(tmp_path)
        transfer = self.make(stores, [])
        (stores[0] / "d" / "empty").mkdir(parents=True)
        (stores[0] / "d" / "file").write_bytes(b"x" * 1000)
        (stores[0] / "d" / "link").symlink_to("file")
        whole = Content(*measure(str(stores[0] / "d"), True))
        assert (await transfer.copy(0, "d", 1, "d", whole)).digest == whole.digest
        (stores[0] / "d" / "file").write_bytes(b"x" * 999 + b"y")
        with pytest.raises(InfeasibleError, match="has changed"):
            await transfer.copy(0, "d", 1, "e", whole)
        assert [path.name for path in stores[1].iterdir()] == ["d"]

    async def test_modes(self, tmp_path: Path) -> None:
        stores = self.two_stores(tmp_path)
        transfer = self.make(stores, [])
        for name, mode in (("program", 0o755), ("data", 0o640)):
            path = tmp_path / name
            path.write_bytes(b"x")
            path.chmod(mode)
            await transfer.copy(ORIGIN, str(path), 0, name)
            stored = (stores[0] / name).stat().st_mode
            assert not stored & 0o222
            assert bool(stored & 0o100) == bool(mode & 0o100)
            await transfer.copy(0, name, ORIGIN, str(tmp_path / "back"))
            assert (tmp_path / "back").stat().st_mode & 0o200

    async def test_odd_names(self, tmp_path: Path) -> None:
        stores = self.two_stores(tmp_path)
        transfer = self.make(stores, [])
        for name in ODD_NAMES:
            flat = name.replace("/", "_")
            (stores[0] / flat).write_text(name)
            await transfer.copy(0, flat, 1, flat)
            assert (stores[1] / flat).read_text() == name

    async def test_an_empty_file_and_a_longest_name(self, tmp_path: Path) -> None:
        stores = self.two_stores(tmp_path)
        transfer = self.make(stores, [])
        name = "n" * 255
        (stores[0] / name).touch()
        assert (await transfer.copy(0, name, 1, name)).size_bytes == 0
        assert (stores[1] / name).read_bytes() == b""

    async def test_an_existing_file_is_replaced(self, tmp_path: Path) -> None:
        stores = self.two_stores(tmp_path)
        transfer = self.make(stores, [])
        (stores[0] / "f").write_bytes(b"new")
        (stores[1] / "f").write_bytes(b"older and longer")
        await transfer.copy(0, "f", 1, "f")
        assert (stores[1] / "f").read_bytes() == b"new"

    async def test_a_directory(self, tmp_path: Path) -> None:
        stores = self.two_stores(tmp_path)
        transfer = self.make(stores, [])
        (stores[0] / "d" / "deep").mkdir(parents=True)
        (stores[0] / "d" / "deep" / "f").write_bytes(b"12345")
        (stores[0] / "d" / "g").write_bytes(b"123")
        for _ in range(2):  # the second copy replaces the first
            assert (await transfer.copy(0, "d", 1, "d")).size_bytes == 8
        assert (stores[1] / "d" / "deep" / "f").read_bytes() == b"12345"

    async def test_a_directory_from_origin_and_back(self, tmp_path: Path) -> None:
        stores = self.two_stores(tmp_path)
        transfer = self.make(stores, [])
        source, target = tmp_path / "source", tmp_path / "outputs" / "target"
        (source / "empty").mkdir(parents=True)
        large = os.urandom(200_000)
        names = (*ODD_NAMES, "line\nbreak")
        contents = {**{name: name.encode() for name in names}, "n" * 255: b"", "large": large}
        for name, content in contents.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes(content)
        (source / "program").write_bytes(b"")
        (source / "program").chmod(0o755)
        size_bytes = sum(map(len, contents.values()))
        receipts = [
            await transfer.copy(ORIGIN, str(source), 0, "d"),
            await transfer.copy(0, "d", 1, "d"),
            await transfer.copy(1, "d", ORIGIN, str(target)),
        ]
        assert [receipt.size_bytes for receipt in receipts] == [size_bytes] * 3
        for name, content in contents.items():
            assert (target / name).read_bytes() == content
        assert not list((target / "empty").iterdir())
        assert (target / "program").stat().st_mode & 0o100
        assert [path.name for path in stores[1].iterdir()] == ["d"]

    async def test_many_small_files_at_once(self, tmp_path: Path) -> None:
        stores = self.two_stores(tmp_path)
        transfer = self.make(stores, [])
        names = [f"f{number}" for number in range(200)]
        for name in names:
            (stores[0] / name).write_text(name)
        copies = [transfer.copy(0, name, 1, name) for name in names]
        receipts = await asyncio.wait_for(asyncio.gather(*copies), 60)
        assert [receipt.size_bytes for receipt in receipts] == [len(name) for name in names]
        assert sorted(path.name for path in stores[1].iterdir()) == sorted(names)
        for name in names:
            assert (stores[1] / name).read_text() == name

    async def test_a_large_file_needs_little_memory(self, tmp_path: Path) -> None:
        stores = self.two_stores(tmp_path)
        transfer = self.make(stores, [])
        block, blocks = os.urandom(1 << 20), 100
        with (stores[0] / "f").open("wb") as file:
            for _ in range(blocks):
                file.write(block)
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before_bytes = memory_bytes("VmRSS")
        assert (await transfer.copy(0, "f", 1, "f")).size_bytes == blocks << 20
        assert memory_bytes("VmHWM") - before_bytes < 48 << 20
        with (stores[1] / "f").open("rb") as file:
            for _ in range(blocks):
                assert file.read(1 << 20) == block

    async def test_copies_in_both_directions_at_once(self, tmp_path: Path) -> None:
        stores = self.two_stores(tmp_path)
        transfer = self.make(stores, [])
        content = os.urandom(2_000_000)
        for store in stores:
            for number in range(10):
                (store / f"f{number}").write_bytes(content)
        copies = [
            transfer.copy(source, f"f{number}", 1 - source, f"g{number}")
            for number in range(10)
            for source in (0, 1)
        ]
        await asyncio.wait_for(asyncio.gather(*copies), 60)
        for store in stores:
            assert len(list(store.iterdir())) == 20
            for number in range(10):
                assert (store / f"g{number}").read_bytes() == content

    async def test_an_absent_source(self, tmp_path: Path) -> None:
        stores = self.two_stores(tmp_path)
        transfer = self.make(stores, [])
        with pytest.raises(InfeasibleError, match="not-there"):
            await transfer.copy(0, "not-there", 1, "f")
        assert not list(stores[1].iterdir())

    async def test_a_store_that_is_gone(self, tmp_path: Path) -> None:
        stores = self.two_stores(tmp_path)
        (stores[0] / "f").write_bytes(b"x")
        stores[1].rmdir()
        stores[1].write_bytes(b"a file where the directory was")
        transfer = self.make(stores, [])
        (stores[0] / "d").mkdir()
        (stores[0] / "d" / "large").write_bytes(bytes(20_000_000))
        for name in ("f", "d"):
            with pytest.raises(InfeasibleError):
                await transfer.copy(0, name, 1, name)

    async def test_a_link_has_its_latency_and_bandwidth(self, tmp_path: Path) -> None:
        stores = self.two_stores(tmp_path)
        link = LinkSpec("site0", "site1", bandwidth_bytes_per_s=1_000_000, latency_s=0.1)
        transfer = self.make(stores, [link])
        (stores[0] / "f").write_bytes(bytes(100_000))
        begun_s = time.monotonic()
        await transfer.copy(1, await self._placed(stores[1]), 0, "back")  # has no link entry
        unlinked_s = time.monotonic() - begun_s
        begun_s = time.monotonic()
        receipts = await asyncio.gather(*[transfer.copy(0, "f", 1, f"f{n}") for n in range(4)])
        taken_s = time.monotonic() - begun_s
        assert [receipt.size_bytes for receipt in receipts] == [100_000] * 4
        if not self.emulates_links:
            return
        assert 0.5 <= taken_s < 0.5 + 2 + unlinked_s  # 4 × 0.1 s of bandwidth, and 0.1 s.
        assert max(receipt.elapsed_s for receipt in receipts) >= 0.45
        assert min(receipt.elapsed_s for receipt in receipts) >= 0.19

    async def _placed(self, store: Path) -> str:
        (store / "g").write_bytes(b"x")
        return "g"

    async def test_a_copy_appears_whole_or_not_at_all(self, tmp_path: Path) -> None:
        stores = self.two_stores(tmp_path)
        transfer = self.make(stores, [LinkSpec("site0", "site1", None, latency_s=0.3)])
        content = b"content" if self.emulates_links else os.urandom(20_000_000)
        (stores[0] / "f").write_bytes(content)
        copying = asyncio.ensure_future(transfer.copy(0, "f", 1, "f"))
        while not copying.done():
            if (stores[1] / "f").exists():
                assert (stores[1] / "f").read_bytes() == content
            await asyncio.sleep(0.01)
        await copying
        assert (stores[1] / "f").read_bytes() == content

    async def test_a_cancelled_copy_leaves_nothing(self, tmp_path: Path) -> None:
        stores = self.two_stores(tmp_path)
        transfer = self.make(stores, [LinkSpec("site0", "site1", None, latency_s=600)])
        with (stores[0] / "f").open("wb") as file:
            file.truncate(7 if self.emulates_links else 20 << 30)
        copying = asyncio.ensure_future(transfer.copy(0, "f", 1, "f"))
        await asyncio.sleep(0.1)
        while not self.emulates_links and not list(stores[1].iterdir()):
            assert not copying.done()
            await asyncio.sleep(0.01)
        copying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await copying
        deadline_s = time.monotonic() + 10
        while list(stores[1].iterdir()):
            assert time.monotonic() < deadline_s
            await asyncio.sleep(0.01)


def memory_bytes(key: str) -> int:
    """Memory use of this process in bytes, from the field ``key`` of ``/proc/self/status``."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(f"{key}:"))
    return int(line.split()[1]) * 1024
