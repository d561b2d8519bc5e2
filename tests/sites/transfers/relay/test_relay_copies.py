"""Copies by SFTP through this machine, over real SSH servers and without agents."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from tests.sites.remote.conftest import Cluster
from tests.sites.transfers.test_conformance import BetweenAgents
from tests.waiting import PATIENCE_S
from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.engine.exchange import Content
from wfrun.engine.model import ORIGIN, Access, SiteSpec
from wfrun.sites.node.tasks.digests import digest_of_bytes
from wfrun.sites.remote.agent_client import AgentHost
from wfrun.sites.remote.connection import Connection, connection_of
from wfrun.sites.remote.host import Stat
from wfrun.sites.transfers.endpoints.agentless_endpoint import AgentlessEndpoint
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.method import TransferMethod
from wfrun.sites.transfers.relay import relay_scp
from wfrun.sites.transfers.relay.relay import FileRelay
from wfrun.sites.transfers.relay.relay_scp import RelayedCopy
from wfrun.sites.transfers.relay.stream import Stream
from wfrun.sites.transfers.router import TransferRouter
from wfrun.testing.transfers import memory_bytes

pytestmark = pytest.mark.slow
TRANSPORTS = ("asyncssh", "openssh")
ODD = ("-rf", "line\nbreak", "quote 'ü\" $HOME`", "*[?]{a,b}\\", "n" * 255)


class TestOverTheShell(BetweenAgents):
    """The suite of all transfers. Directories go as a stream."""

    def methods(self) -> dict[str, TransferMethod]:
        return {"relay": FileRelay(), "stream": Stream()}


class Store:
    """Implements ``ConnectedSite`` by a directory."""

    def __init__(self, name: str, connection: Connection, directory: Path) -> None:
        self.spec = SiteSpec(name, slots=1)
        self.connection = connection
        self.directory = directory

    def store_path(self, name: str) -> str:
        return f"{self.directory}/{name}"


class Pair:
    """Two sites behind one sshd, each with a connection of its own."""

    def __init__(self, cluster: Cluster, transports: tuple[str, ...], place: Path) -> None:
        self.stores = [place / "one", place / "two"]
        for store in self.stores:
            store.mkdir()
        self.sites = [
            Store(f"site{index}", _connection(cluster, transport), store)
            for index, (transport, store) in enumerate(zip(transports, self.stores, strict=True))
        ]
        self.endpoints = [RemoteEndpoint(index, site) for index, site in enumerate(self.sites)]
        self.place = place

    def router(self, *methods: str) -> TransferRouter:
        known: dict[str, TransferMethod] = {"stream": Stream(), "relay": FileRelay()}
        chosen = {name: known[name] for name in methods or ("relay",)}
        return TransferRouter(self.endpoints, chosen, self.place, checksums=True)


def _connection(cluster: Cluster, transport: str) -> Connection:
    kind: Literal["asyncssh", "openssh"] = "asyncssh" if transport == "asyncssh" else "openssh"
    return connection_of(Access((cluster.host,), transport=kind, ssh_config=str(cluster.config)))


@asynccontextmanager
async def opened(cluster: Cluster, place: Path, *transports: str) -> AsyncIterator[Pair]:
    pair = Pair(cluster, transports, place)
    for site in pair.sites:
        await site.connection.open(lambda reason: None)
    try:
        yield pair
    finally:
        for site in pair.sites:
            await site.connection.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    place = tmp_path_factory.mktemp("relay")
    made = Cluster(place, place)
    yield made
    made.sshd.stop()


@pytest.mark.parametrize("transports", [TRANSPORTS, ("openssh", "openssh")])
async def test_any_name_arrives(
    cluster: Cluster, tmp_path: Path, transports: tuple[str, ...]
) -> None:
    """To a site, from there to another one, and back; nothing else is left anywhere."""
    async with opened(cluster, tmp_path, *transports) as pair:
        transfer = pair.router()
        for number, name in enumerate(ODD):
            content = os.urandom(number * 70_000)
            here = tmp_path / f"in{number}"
            here.write_bytes(content)
            here.chmod(0o755 if number % 2 else 0o644)
            whole = Content(len(content), digest_of_bytes(content))
            await transfer.copy(ORIGIN, str(here), 0, name, whole)
            await transfer.copy(0, name, 1, f"new/{name}")
            receipt = await transfer.copy(1, f"new/{name}", ORIGIN, str(tmp_path / name))
            assert (receipt.method, receipt.digest) == ("relay", whole.digest)
            assert (tmp_path / name).read_bytes() == content
            mode = (pair.stores[1] / "new" / name).stat().st_mode & 0o777
            assert mode == (0o555 if number % 2 else 0o444)
        assert {path.name for path in pair.stores[0].iterdir()} == set(ODD)
        assert {path.name for path in (pair.stores[1] / "new").iterdir()} == set(ODD)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_what_is_in_the_way_is_replaced(
    cluster: Cluster, tmp_path: Path, transport: str
) -> None:
    async with opened(cluster, tmp_path, transport, transport) as pair:
        (pair.stores[0] / "f").write_bytes(b"new")
        (pair.stores[1] / "f" / "deep").mkdir(parents=True)
        (pair.stores[1] / "f" / "deep" / "file").write_bytes(b"old")
        transfer = pair.router()
        await transfer.copy(0, "f", 1, "f")
        assert (pair.stores[1] / "f").read_bytes() == b"new"
        (pair.stores[0] / "pipe").unlink(missing_ok=True)
        os.mkfifo(pair.stores[0] / "pipe")
        with pytest.raises(InfeasibleError, match="neither a file nor a directory"):
            await transfer.copy(0, "pipe", 1, "pipe")
        with pytest.raises(InfeasibleError, match="absent"):
            await transfer.copy(0, "absent", 1, "absent")
        assert [path.name for path in pair.stores[1].iterdir()] == ["f"]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_files_go_while_no_agent_starts(
    cluster: Cluster, tmp_path: Path, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stream is tried, and not given up; the connection stays while the agent is started anew."""
    async with opened(cluster, tmp_path, transport, transport) as pair:
        content = os.urandom(300_000)
        (pair.stores[0] / "f").write_bytes(content)
        transfer = pair.router("stream", "relay")
        connections = [site.connection for site in pair.sites]
        transports = [await connection.transport() for connection in connections]
        start = AgentHost.start
        monkeypatch.setattr(AgentHost, "start", _no_python)
        for connection in connections:
            monkeypatch.setattr(connection, "_patience_s", 0.1)
            monkeypatch.setattr(connection, "_delays_s", (0.01,))
            monkeypatch.setattr(connection, "_login_delay_s", 0.01)
            host = await connection.host()
            assert isinstance(host, AgentHost)
            os.kill(host.pid, 9)
            while connection.has_agent:
                await asyncio.sleep(0.01)
        for name in ("first", "second"):
            receipt = await asyncio.wait_for(transfer.copy(0, "f", 1, name), PATIENCE_S)
            assert receipt.method == "relay"
            assert ("no agent" in receipt.fallback) == (name == "first")
            assert (pair.stores[1] / name).read_bytes() == content
        made = [connection.made for connection in connections]
        while any(c.made < before + 2 for c, before in zip(connections, made, strict=True)):
            await asyncio.sleep(0.01)
        assert [await each.plain_transport() for each in connections] == transports
        monkeypatch.setattr(AgentHost, "start", start)
        for connection in connections:
            while not connection.has_agent:
                await asyncio.sleep(0.01)
        assert (await transfer.copy(0, "f", 1, "third")).method == "stream"


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("destination", [ORIGIN, 1])
@pytest.mark.parametrize("checksums", [False, True])
async def test_a_site_that_sends_more_than_it_said(
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    transport: str,
    destination: int,
    checksums: bool,
) -> None:
    """It says 5 bytes, and has a terabyte: the copy ends at once, and fills no disk."""
    sizes = []
    stat = AgentlessEndpoint.stat

    async def lie(self: AgentlessEndpoint, name: str) -> Stat | None:
        found = await stat(self, name)
        return found if name != "f" or found is None else replace(found, size_bytes=5)

    def note(end: type[AgentlessEndpoint | LocalEndpoint]) -> None:
        discard = end.discard

        async def noting(self: Any, name: str, key: str) -> None:
            part = Path(self.part(name, key))
            sizes.append(part.stat().st_size if part.exists() else 0)
            await discard(self, name, key)

        monkeypatch.setattr(end, "discard", noting)

    monkeypatch.setattr(AgentlessEndpoint, "stat", lie)
    note(AgentlessEndpoint)
    note(LocalEndpoint)
    async with opened(cluster, tmp_path, transport, transport) as pair:
        with (pair.stores[0] / "f").open("wb") as file:
            file.truncate(1 << 40)
        router = pair.router()
        if not checksums:
            router = TransferRouter(pair.endpoints, {"relay": FileRelay()}, tmp_path)
            monkeypatch.setattr(relay_scp, "_digest", no_digest)
        path = str(tmp_path / "here") if destination == ORIGIN else "f2"
        with pytest.raises(TransientError, match="longer"):
            await asyncio.wait_for(router.copy(0, "f", destination, path), PATIENCE_S)
        assert os.listdir(pair.stores[1]) == []
        assert not (tmp_path / "here").exists()
    # Between two sites scp gets what the messages of such a file may take, else each byte counts.
    assert max(sizes, default=0) <= (5 if destination == ORIGIN else 64 << 10)


async def no_digest(copy: RelayedCopy) -> None:
    """As without checksums."""


async def _no_python(self: AgentHost) -> None:
    raise InfeasibleError("there is no Python")


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_full_disk(
    cluster: Cluster, tmp_path: Path, small_disk: Path, transport: str
) -> None:
    async with opened(cluster, tmp_path, transport, transport) as pair:
        pair.sites[1].directory = small_disk
        (pair.stores[0] / "f").write_bytes(os.urandom(3 << 20))
        with pytest.raises(InfeasibleError, match="No space left on device") as caught:
            await pair.router().copy(0, "f", 1, "f")
        assert "part" not in caught.value.message
        assert not list(small_disk.iterdir())


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_cancelled_copy_leaves_nothing(
    cluster: Cluster, tmp_path: Path, transport: str
) -> None:
    async with opened(cluster, tmp_path, transport, transport) as pair:
        with (pair.stores[0] / "f").open("wb") as file:
            file.truncate(20 << 30)
        copy = asyncio.create_task(pair.router().copy(0, "f", 1, "f"))
        while not any(path.stat().st_size for path in pair.stores[1].iterdir()):
            await asyncio.sleep(0.01)
        copy.cancel()
        with pytest.raises(asyncio.CancelledError):
            await copy
        assert not list(pair.stores[1].iterdir())


async def test_memory_does_not_grow_with_the_file(cluster: Cluster, tmp_path: Path) -> None:
    async with opened(cluster, tmp_path, "asyncssh", "asyncssh") as pair:
        with (pair.stores[0] / "f").open("wb") as file:
            file.truncate(200 << 20)
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before = memory_bytes("VmRSS")
        await pair.router().copy(0, "f", 1, "f")
        assert memory_bytes("VmHWM") - before < 48 << 20
        assert (pair.stores[1] / "f").stat().st_size == 200 << 20


async def test_it_is_no_other_way_than_a_stream(cluster: Cluster, tmp_path: Path) -> None:
    """A late stream is not tried again by the relay, which would be as late."""
    async with opened(cluster, tmp_path, *TRANSPORTS) as pair:
        (pair.stores[0] / "f").write_bytes(bytes(2_000_000))
        methods: dict[str, TransferMethod] = {"stream": Stream(), "relay": FileRelay()}
        routes: list[tuple[str, str]] = []
        for relayed in ((), ("stream", "relay")):
            transfer = TransferRouter(pair.endpoints, methods, tmp_path, relayed=relayed)
            await transfer.copy(
                0, "f", 1, "f", Content(2_000_000), on_route=lambda *ends: routes.append(ends)
            )
        assert routes == [("stream", "relay")]
