"""Files that a site sends to another site itself: the suite of all transfers by rsync, scp and sftp
between real SSH servers, with a forwarded agent and with a key."""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from tests.integration.files.ssh_agent import agent_of, put_key
from tests.integration.suites.conformance import access_of, shared_directory
from tests.testbed import faults
from tests.testbed.testbed import Testbed
from wfrun.engine.errors import InfeasibleError, NoSpaceError
from wfrun.engine.exchange import Content
from wfrun.engine.model import Access, LinkSpec, SiteSpec
from wfrun.sites.remote.connection import Connection, connection_of
from wfrun.sites.transfers import METHODS
from wfrun.sites.transfers.bandwidth_cap import BandwidthCaps
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.method import MethodFailedError
from wfrun.sites.transfers.router import TransferRouter
from wfrun.testing.sites import ODD_NAMES
from wfrun.testing.transfers import TransferConformance

NAMES = ("delta", "gamma")


class Store:
    """Implements ``ConnectedSite`` by a directory."""

    def __init__(self, name: str, access: Access, connection: Connection, directory: Path) -> None:
        self.spec = SiteSpec(name, slots=1, access=access)
        self.connection = connection
        self._directory = directory

    def store_path(self, name: str) -> str:
        return f"{self._directory}/{name}"


class Direct:
    """Between two sites."""

    transport: Literal["asyncssh", "openssh"] = "asyncssh"
    direct: Literal["forward", "key"] = "forward"
    method: str
    connections: list[Connection]

    @pytest.fixture
    def tmp_path(self, testbed: Testbed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        yield from shared_directory(testbed, monkeypatch)

    @pytest.fixture(autouse=True)
    async def _connected(
        self, testbed: Testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[None]:
        key = put_key(testbed.layout, NAMES[0]) if self.direct == "key" else None
        changes = {"direct": self.direct, "direct_key": key}
        self.access = [replace(access_of(name, self.transport), **changes) for name in NAMES]
        self.connections = [connection_of(access) for access in self.access]
        with agent_of(testbed.layout, tmp_path, monkeypatch):
            for connection in self.connections:
                await connection.open(_ignore)
            yield
            for connection in self.connections:
                await connection.close()

    def router(
        self, stores: list[Path], *methods: str, large_only: Sequence[str] = ()
    ) -> TransferRouter:
        """A router that uses these methods in this order."""
        endpoints = [
            RemoteEndpoint(index, Store(f"site{index}", access, connection, store))
            for index, (access, connection, store) in enumerate(
                zip(self.access, self.connections, stores, strict=True)
            )
        ]
        chosen = {name: METHODS[name].make(BandwidthCaps()) for name in methods}
        return TransferRouter(endpoints, chosen, stores[0].parent, large_only=large_only)

    async def test_any_name_arrives(self, tmp_path: Path, testbed: Testbed) -> None:
        stores = [tmp_path / "from", tmp_path / "in a:[*?] 'quoted' \"twice\" $HOME; \\ ünï -f"]
        for store in stores:
            store.mkdir()
        transfer = self.router(stores, self.method, "stream")
        names = ["empty", "line\nend", "a:colon", *(n for n in ODD_NAMES if "/" not in n)]
        contents = {name: os.urandom(number * 1000) for number, name in enumerate(names)}
        for name, content in contents.items():
            (stores[0] / name).write_bytes(content)
        (stores[0] / "empty").chmod(0o755)
        receipts = await asyncio.gather(
            *(transfer.copy(0, name, 1, name, Content(None)) for name in names)
        )
        assert {(receipt.method, receipt.fallback) for receipt in receipts} == {(self.method, "")}
        for name, content in contents.items():
            arrived = stores[1] / name
            assert arrived.read_bytes() == content
            assert arrived.stat().st_mode & 0o777 == (0o555 if name == "empty" else 0o444)
        assert sorted(path.name for path in stores[1].iterdir()) == sorted(names)
        uid = pwd.getpwnam(testbed.layout.user(NAMES[0])).pw_uid
        for path in Path("/tmp").glob("wfrun.*"):  # keys and configurations
            with suppress(FileNotFoundError):  # that of a copy of another test
                assert path.stat().st_uid != uid


class Suite(TransferConformance):
    """The suite of all transfers. Small files and directories go as a stream."""

    __test__ = False
    emulates_links = False

    def __init__(self, sites: Direct) -> None:
        self._sites = sites

    def make(self, stores: list[Path], links: list[LinkSpec]) -> TransferRouter:
        return self._sites.router(stores, self._sites.method, "stream", large_only=["rsync"])


class TestRsync(Direct):
    method = "rsync"

    async def test_the_suite_of_transfers(self, tmp_path: Path) -> None:
        """What differs from a stream: how large files are written. One test, since each heals the
        testbed."""
        suite = Suite(self)
        tests: list[Callable[[Path], Awaitable[None]]] = [
            partial(suite.test_contents_that_are_expected, size_bytes=300_000),
            suite.test_a_copy_appears_whole_or_not_at_all,
            suite.test_a_cancelled_copy_leaves_nothing,
            suite.test_a_large_file_needs_little_memory,
        ]
        for number, test in enumerate(tests):
            place = tmp_path / str(number)
            place.mkdir()
            await test(place)

    async def test_a_full_disk(self, tmp_path: Path, testbed: Testbed) -> None:
        scratch = faults.shrink(testbed, "gamma", 1 << 20)
        here = tmp_path / "here"
        here.mkdir()
        (here / "large").write_bytes(bytes(20 << 20))
        for method in ("rsync", "scp", "sftp"):
            transfer = self.router([here, scratch], method, "stream")
            with pytest.raises(NoSpaceError, match="full"):
                await transfer.copy(0, "large", 1, "large")
            assert not list(scratch.iterdir())

    async def test_a_method_that_fails_is_tried_once(
        self, tmp_path: Path, testbed: Testbed
    ) -> None:
        stores = Suite(self).two_stores(tmp_path)
        (stores[0] / "f").write_bytes(b"x")
        with pytest.raises(InfeasibleError, match="absent"):
            await self.router(stores, "rsync").copy(0, "absent", 1, "g")
        self.access[1] = replace(self.access[1], direct_port=testbed.layout.base + 39)
        with pytest.raises(MethodFailedError, match="refused"):
            await self.router(stores, "rsync", "scp").copy(0, "f", 1, "f")
        transfer = self.router(stores, "rsync", "sftp", "stream")
        receipts = [await transfer.copy(0, "f", 1, "f") for _ in range(2)]
        assert [receipt.method for receipt in receipts] == ["stream", "stream"]
        assert "files go by stream, because rsync failed" in receipts[0].fallback
        assert "because sftp failed" in receipts[0].fallback
        assert receipts[1].fallback == ""

    async def test_the_key_of_the_destination_is_checked(
        self, tmp_path: Path, testbed: Testbed
    ) -> None:
        """The source does not send to a host with another key than the one known here."""
        stores = Suite(self).two_stores(tmp_path)
        (stores[0] / "f").write_bytes(b"x")
        other = testbed.layout.site("beta")
        self.access[1] = replace(self.access[1], direct_port=other.port)
        for method in ("rsync", "scp", "sftp"):
            with pytest.raises(MethodFailedError, match="Host key verification failed"):
                await self.router(stores, method).copy(0, "f", 1, "f")

    async def test_without_an_agent(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        stores = Suite(self).two_stores(tmp_path)
        (stores[0] / "f").write_bytes(b"x")
        monkeypatch.delenv("SSH_AUTH_SOCK")
        with pytest.raises(MethodFailedError, match="there is no SSH agent here"):
            await self.router(stores, "rsync").copy(0, "f", 1, "f")


class TestScp(Direct):
    method = "scp"
    transport = "openssh"


class TestSftp(Direct):
    method = "sftp"
    transport = "openssh"
    direct = "key"


def _ignore(reason: str | None) -> None:
    """Ignore the status: a lost connection shows in the copies that fail."""
