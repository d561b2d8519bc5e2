"""Each transfer method passes the suite of all transfers, on directories of this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from wfrun.engine.model import Access, LinkSpec, SiteSpec
from wfrun.sites.remote.connection import Connection, connection_of
from wfrun.sites.transfers import METHODS
from wfrun.sites.transfers.endpoints.endpoint import Endpoint
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.local.local_copy import LocalCopy
from wfrun.sites.transfers.method import TransferMethod
from wfrun.sites.transfers.relay.stream import Stream
from wfrun.sites.transfers.router import TransferRouter
from wfrun.testing.transfers import TransferConformance


def spec(index: int) -> SiteSpec:
    return SiteSpec(f"site{index}", slots=1)


def local(stores: list[Path]) -> list[Endpoint]:
    return [LocalEndpoint(index, spec(index), store) for index, store in enumerate(stores)]


class TestLocalCopy(TransferConformance):
    def make(self, stores: list[Path], links: list[LinkSpec]) -> TransferRouter:
        return TransferRouter(local(stores), {"copy": LocalCopy(links)}, stores[0].parent)


class TestStream(TransferConformance):
    """Between local sites, where it is never the first choice."""

    emulates_links = False

    def make(self, stores: list[Path], links: list[LinkSpec]) -> TransferRouter:
        return TransferRouter(local(stores), {"stream": Stream()}, stores[0].parent)


class Store:
    """Implements ``ConnectedSite`` by a directory."""

    def __init__(self, index: int, connection: Connection, directory: Path) -> None:
        self.spec = spec(index)
        self.connection = connection
        self._directory = directory

    def store_path(self, name: str) -> str:
        return f"{self._directory}/{name}"


class BetweenAgents(TransferConformance):
    """Between an agent and this machine, and between two agents. Override ``methods``."""

    emulates_links = False

    @pytest.fixture(autouse=True, params=[1, 2], ids=["one agent", "two agents"])
    async def _connected(self, request: pytest.FixtureRequest) -> AsyncIterator[None]:
        self.connections = [connection_of(Access(transport="local")) for _ in range(request.param)]
        for connection in self.connections:
            await connection.open(lambda reason: None)
        yield
        for connection in self.connections:
            await connection.close()

    def make(self, stores: list[Path], links: list[LinkSpec]) -> TransferRouter:
        endpoints = local(stores)
        for index, connection in enumerate(self.connections):
            endpoints[index] = RemoteEndpoint(index, Store(index, connection, stores[index]))
        return TransferRouter(endpoints, self.methods(), stores[0].parent)

    def methods(self) -> dict[str, TransferMethod]:
        raise NotImplementedError


class TestStreamOverConnections(BetweenAgents):
    def methods(self) -> dict[str, TransferMethod]:
        return {"stream": Stream()}


async def test_the_preferred_method_that_can_carry_is_taken(tmp_path: Path) -> None:
    """The router asks the methods in the order of the registry."""
    asked: list[str] = []

    class Asked:
        """A method that notes that it was asked, and refuses or delegates."""

        computes_digest = True

        def __init__(self, name: str, accepts: bool) -> None:
            self._name = name
            self._accepts = accepts
            self.copy = LocalCopy().copy

        async def can_carry(self, source: Endpoint, destination: Endpoint) -> bool:
            asked.append(self._name)
            return self._accepts

        def close(self) -> None:
            asked.append(f"close {self._name}")

    (tmp_path / "f").write_bytes(b"x")
    methods: dict[str, TransferMethod] = {
        "first": Asked("first", False),
        "second": Asked("second", True),
        "third": Asked("third", True),
    }
    transfer = TransferRouter(local([tmp_path]), methods, tmp_path)
    await transfer.copy(0, "f", 0, "g")
    transfer.close()
    assert asked == ["first", "second", "close first", "close second", "close third"]
    assert (tmp_path / "g").read_bytes() == b"x"


def test_the_last_methods_of_the_registry() -> None:
    """The one that always works, and the one for sites whose agent does not run."""
    assert list(METHODS)[-2:] == ["stream", "relay"]
