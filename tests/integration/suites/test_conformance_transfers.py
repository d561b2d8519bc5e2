"""Files to, from and between sites behind SSH: the suite of all transfers, and failures of real
connections."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest

from tests.integration.suites.conformance import access_of, shared_directory
from tests.runners.harness import LONG_S
from tests.testbed import faults
from tests.testbed.testbed import Testbed
from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.engine.model import ORIGIN, LinkSpec, SiteSpec
from wfrun.sites.remote.connection import Connection, connection_of
from wfrun.sites.transfers.endpoints.endpoint import Endpoint
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.relay.stream import Stream
from wfrun.sites.transfers.router import TransferRouter
from wfrun.testing.transfers import TransferConformance


class Store:
    """Implements ``ConnectedSite`` by a directory."""

    def __init__(self, name: str, connection: Connection, directory: Path) -> None:
        self.spec = SiteSpec(name, slots=1)
        self.connection = connection
        self._directory = directory

    def store_path(self, name: str) -> str:
        return f"{self._directory}/{name}"


class Far(TransferConformance):
    """Between two sites, over their real connections."""

    emulates_links = False
    transport: Literal["asyncssh", "openssh"]
    names: tuple[str | None, ...] = ("delta", "gamma")
    """None: a store of this machine."""
    connections: list[Connection | None]

    @pytest.fixture
    def tmp_path(self, testbed: Testbed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        yield from shared_directory(testbed, monkeypatch)

    @pytest.fixture(autouse=True)
    async def _connected(self, tmp_path: Path) -> AsyncIterator[None]:
        self.connections = []
        for name in self.names:
            connection = None
            if name is not None:
                connection = connection_of(access_of(name, self.transport))
                await connection.open(_ignore)
            self.connections.append(connection)
        yield
        for connection in self.connections:
            if connection is not None:
                await connection.close()

    def make(self, stores: list[Path], links: list[LinkSpec]) -> TransferRouter:
        endpoints: list[Endpoint] = []
        for connection, store in zip(self.connections, stores, strict=True):
            index = len(endpoints)
            if connection is None:
                endpoints.append(LocalEndpoint(index, SiteSpec(f"site{index}", slots=1), store))
            else:
                endpoints.append(RemoteEndpoint(index, Store(f"site{index}", connection, store)))
        return TransferRouter(endpoints, {"stream": Stream()}, stores[0].parent)


class TestAsyncssh(Far):
    transport = "asyncssh"

    async def test_a_full_disk(self, tmp_path: Path, testbed: Testbed) -> None:
        scratch = faults.shrink(testbed, "delta", 1 << 20)
        other = tmp_path / "other"
        other.mkdir()
        transfer = self.make([scratch, other], [])
        (other / "d").mkdir()
        for path in (other / "large", other / "d" / "large"):
            path.write_bytes(bytes(20 << 20))
        for number in range(40):
            (other / f"small{number}").write_bytes(bytes(50_000))
        for name in ("large", "d"):
            with pytest.raises(InfeasibleError, match=r"(?i)no space|full|wrote only"):
                await transfer.copy(1, name, 0, name)
        assert not list(scratch.iterdir())
        results = await asyncio.gather(
            *(transfer.copy(1, f"small{number}", 0, f"small{number}") for number in range(40)),
            return_exceptions=True,
        )
        failures = [result for result in results if isinstance(result, BaseException)]
        assert failures
        assert all(isinstance(failure, InfeasibleError) for failure in failures)
        there = {path.name for path in scratch.iterdir()}
        for number, result in enumerate(results):
            if not isinstance(result, BaseException):
                assert (scratch / f"small{number}").stat().st_size == 50_000
                there.remove(f"small{number}")
        assert not [name for name in there if "part" in name]


class TestOpenssh(Far):
    transport = "openssh"


class TestOneEndIsHere(Far):
    transport = "asyncssh"
    names = (None, "delta")


@pytest.mark.parametrize("transport", ["asyncssh", "openssh"])
class TestLostConnections:
    @pytest.fixture
    def tmp_path(self, testbed: Testbed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        yield from shared_directory(testbed, monkeypatch)

    async def test_amid_a_copy(
        self, tmp_path: Path, testbed: Testbed, transport: Literal["asyncssh", "openssh"]
    ) -> None:
        """The connection of the reader is lost, then that of the writer. The part is removed after
        a reconnection, and the same copy succeeds."""
        stores = [tmp_path / "a", tmp_path / "b"]
        for store in stores:
            store.mkdir()
        with (stores[0] / "f").open("wb") as file:
            file.truncate(20 << 30)
        (stores[0] / "g").write_bytes(os.urandom(2_000_000))
        connections = [connection_of(access_of(name, transport)) for name in ("delta", "gamma")]
        transfer = TransferRouter(
            [
                RemoteEndpoint(index, Store(store.name, connection, store))
                for index, (connection, store) in enumerate(zip(connections, stores, strict=True))
            ],
            {"stream": Stream()},
            tmp_path,
        )
        try:
            for connection in connections:
                await connection.open(_ignore)
            for site in ("delta", "gamma"):
                copies = [
                    asyncio.create_task(transfer.copy(*between))
                    for between in ((0, "f", 1, "f"), (0, "f", ORIGIN, str(tmp_path / "here")))
                ]
                await _until_large(stores[1])
                faults.cut(testbed, site)
                lost = copies if site == "delta" else copies[:1]
                for copy in lost:
                    with pytest.raises(TransientError):
                        await asyncio.wait_for(copy, LONG_S)
                for copy in copies:
                    copy.cancel()
                    with suppress(asyncio.CancelledError, TransientError):
                        await copy
                assert not list(stores[1].iterdir())
                assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
            assert (await transfer.copy(0, "g", 1, "g")).size_bytes == 2_000_000
        finally:
            for connection in connections:
                await connection.close()


async def _until_large(store: Path) -> None:
    while not any(path.stat().st_size > 1 << 20 for path in store.iterdir()):
        await asyncio.sleep(0.01)


def _ignore(reason: str | None) -> None:
    """Ignore the status: a lost connection shows in the copies that fail."""
