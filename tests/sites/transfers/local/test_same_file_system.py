"""Copies between sites that share a file system: the destination makes them."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from tests.sites.transfers.test_conformance import BetweenAgents, Store
from tests.waiting import until
from wfrun.engine.errors import InfeasibleError
from wfrun.engine.exchange import Content
from wfrun.engine.model import ORIGIN, Access
from wfrun.sites.remote.connection import Connection, connection_of
from wfrun.sites.remote.host import Stat
from wfrun.sites.remote.transports.local_transport import LocalProcess, LocalTransport
from wfrun.sites.transfers.endpoints.endpoint import PART_PATTERN, Endpoint
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.local.same_file_system import SameFileSystem
from wfrun.sites.transfers.method import Location, NotCarriedError, TransferMethod
from wfrun.sites.transfers.relay.stream import Stream
from wfrun.sites.transfers.router import TransferRouter


class TestSameFileSystem(BetweenAgents):
    """Directories to clusters and input files of this machine stream."""

    def methods(self) -> dict[str, TransferMethod]:
        return {"shared": SameFileSystem(), "stream": Stream()}

    async def test_a_cancelled_copy_leaves_nothing(self, tmp_path: Path) -> None:
        """The suite's file is sparse, and copied in no time."""
        stores = self.two_stores(tmp_path)
        transfer = self.make(stores, [])
        with open(stores[0] / "large", "wb") as file:
            for _ in range(64):
                file.write(os.urandom(1 << 20))
        copying = asyncio.ensure_future(transfer.copy(0, "large", 1, "large"))
        while not list(stores[1].iterdir()) and not copying.done():
            await asyncio.sleep(0.001)
        copying.cancel()
        await asyncio.wait([copying])
        await until(lambda: not list(stores[1].glob(PART_PATTERN)))


class _NotRead(RemoteEndpoint):
    """The files of a site, none of which may pass through this machine."""

    async def read_small(self, name: str, size_bytes: int) -> bytes:
        raise AssertionError(f"{name} passed through this machine")

    def read(self, name: str, start: int = 0) -> AsyncGenerator[bytes, None]:
        raise AssertionError(f"{name} passed through this machine")


@pytest.fixture
async def connections() -> AsyncIterator[list[Connection]]:
    made = [connection_of(Access(transport="local")) for _ in range(2)]
    for connection in made:
        await connection.open(lambda reason: None)
    yield made
    for connection in made:
        await connection.close()


@pytest.fixture
def stores(tmp_path: Path) -> list[Path]:
    made = [tmp_path / "one", tmp_path / "two"]
    for store in made:
        store.mkdir()
    return made


@pytest.fixture
def sites(connections: list[Connection], stores: list[Path]) -> list[Endpoint]:
    ends = zip(connections, stores, strict=True)
    return [_NotRead(i, Store(i, connection, store)) for i, (connection, store) in enumerate(ends)]


@pytest.fixture
def router(sites: list[Endpoint], tmp_path: Path) -> TransferRouter:
    return TransferRouter(sites, {"shared": SameFileSystem(), "stream": Stream()}, tmp_path)


@pytest.mark.slow
async def test_many_files_share_commands_and_pass_by_this_machine(
    router: TransferRouter, stores: list[Path], connections: list[Connection]
) -> None:
    contents = {f"d{n % 3}/f{n}": os.urandom(n) for n in range(300)}
    contents["large"] = os.urandom(3_000_000)
    for name, content in contents.items():
        (stores[0] / name).parent.mkdir(exist_ok=True)
        (stores[0] / name).write_bytes(content)
    await asyncio.gather(*(router.copy(0, name, 1, name) for name in contents))
    assert {name: (stores[1] / name).read_bytes() for name in contents} == contents
    assert sorted(path.name for path in stores[0].iterdir()) == ["d0", "d1", "d2", "large"]
    assert sum((await connections[1].counts()).commands.values()) < 10


async def test_a_final_output_comes_by_its_own_path(
    router: TransferRouter, stores: list[Path], tmp_path: Path
) -> None:
    (stores[0] / "result").write_bytes(b"content")
    target = tmp_path / "outputs" / "result"
    await router.copy(0, "result", ORIGIN, str(target))
    assert target.read_bytes() == b"content"
    assert target.stat().st_mode & 0o200


class _NotAsked(_NotRead):
    """The files of a site that is not asked for those that this machine sees."""

    async def stat(self, name: str) -> Stat | None:
        raise AssertionError(f"the site was asked for {name}")


async def test_final_outputs_come_without_a_question_to_their_site(
    connections: list[Connection], stores: list[Path], tmp_path: Path
) -> None:
    site = _NotAsked(0, Store(0, connections[0], stores[0]))
    router = TransferRouter([site], {"shared": SameFileSystem()}, tmp_path / "outputs")
    contents = {"small": b"content", "large": os.urandom(3_000_000)}
    for name, content in contents.items():
        (stores[0] / name).write_bytes(content)
        expected = Content(len(content))
        await router.copy(0, name, ORIGIN, str(tmp_path / "outputs" / name), expected)
        assert (tmp_path / "outputs" / name).read_bytes() == content


async def test_a_task_that_writes_to_its_input_changes_no_other_copy(
    router: TransferRouter, stores: list[Path]
) -> None:
    (stores[0] / "f").write_bytes(b"content")
    await router.copy(0, "f", 1, "f")
    (stores[1] / "f").chmod(0o600)
    (stores[1] / "f").write_bytes(b"changed")
    assert (stores[0] / "f").read_bytes() == b"content"


async def test_a_file_that_vanished_at_its_source(router: TransferRouter) -> None:
    with pytest.raises(InfeasibleError, match="it is absent"):
        await router.copy(0, "gone", 1, "gone")


class _Elsewhere(LocalTransport):
    """Commands see an empty file system at ``directory``."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    async def start(self, command: str) -> LocalProcess:
        where = shlex.quote(str(self._directory))
        inner = f"mount -t tmpfs none {where} && exec /bin/sh -c {shlex.quote(command)}"
        return await super().start(f"exec unshare --mount /bin/sh -c {shlex.quote(inner)}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount file systems")
async def test_equal_paths_of_two_file_systems_are_not_shared(
    sites: list[Endpoint], stores: list[Path]
) -> None:
    connection = Connection(("elsewhere",), lambda host, may_ask: _Elsewhere(stores[0]))
    await connection.open(lambda reason: None)
    try:
        other = RemoteEndpoint(2, Store(2, connection, stores[1]))
        method = SameFileSystem()
        assert not await method.can_carry(sites[0], other)
        assert await method.can_carry(sites[0], sites[1])
        method.close()
    finally:
        await connection.close()
    assert not list(stores[0].iterdir())


async def test_a_link_at_a_site_shows_no_file_of_this_machine(
    connections: list[Connection], stores: list[Path], tmp_path: Path
) -> None:
    """The site reads its link, and sends what is there for it."""
    (tmp_path / "target").write_bytes(b"read by the site")
    (stores[0] / "link").symlink_to(tmp_path / "target")
    site = RemoteEndpoint(0, Store(0, connections[0], stores[0]))
    method = SameFileSystem()
    for place in (LocalEndpoint(), RemoteEndpoint(1, Store(1, connections[1], stores[1]))):
        ends = Location(site, "link"), Location(place, str(tmp_path / "copy"))
        assert await method.can_carry(site, place)
        with pytest.raises(NotCarriedError):
            await method.copy(*ends, "key", Content())
    method.close()
