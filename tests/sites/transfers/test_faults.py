"""Faults of servers during copies by stream and by the clients of the sites.

Whatever happens, the destination has the whole file under its final name or nothing, the error is
one message, no part is left, and the same copy succeeds once the fault is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from tests.servers.faults import Kind, Operation
from tests.waiting import PATIENCE_S
from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.exchange import ANYTHING, Content
from wfrun.engine.model import Access, SiteSpec
from wfrun.sites.node.tasks.digests import digest_of_bytes
from wfrun.sites.remote.connection import Connection, connection_of
from wfrun.sites.transfers import METHODS
from wfrun.sites.transfers.bandwidth_cap import BandwidthCaps
from wfrun.sites.transfers.direct import direct_copy as direct
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.relay import stall
from wfrun.sites.transfers.router import TransferRouter

if TYPE_CHECKING:
    from tests.servers.ssh import FaultySSH

pytestmark = pytest.mark.slow

LARGE = bytes(range(256)) * 8192
MIDDLE = len(LARGE) // 2
_SERIAL = count()

WHOLE = Content(len(LARGE), digest_of_bytes(LARGE))

Injection = tuple[Kind, int, Operation | None, int, int | None]
"""Kind, at_byte, operation, amount, times."""

AT_SOURCE: list[tuple[Injection, str]] = [
    (("stall", MIDDLE, "read", 0, None), "nothing came"),
    (("reset", MIDDLE, "read", 0, 1), "connection"),
    (("wrong-size", 0, None, 1000, None), "bytes"),
    (("wrong-size", 0, None, -1000, None), "bytes"),
    (("cut-short", MIDDLE, None, 0, None), "bytes"),
    (("vanish", MIDDLE, None, 0, None), "(?i)no such file|bytes"),
    (("denied", 0, "open", 0, None), "(?i)permission denied"),
]
"""Faults of the source, and what the message says."""
AT_DESTINATION: list[tuple[Injection, str]] = [
    (("stall", MIDDLE, "write", 0, None), "nothing was taken"),
    (("stall", len(LARGE) - 10, "write", 0, None), "nothing was taken"),
    (("reset", MIDDLE, "write", 0, 1), "connection"),
    (("disk-full", MIDDLE, None, 0, None), "(?i)no space|quota"),
    (("no-space", MIDDLE, None, 0, None), "(?i)no space"),
    (("denied", 0, "open", 0, None), "(?i)permission denied"),
    (("lost-write", MIDDLE, None, 0, None), "bytes|digest|checksum"),
    (("lost-write", MIDDLE, None, 0, 1), "digest|checksum"),  # a hole: the size is right
    (("wrong-bytes", MIDDLE, "write", 0, 1), "digest|checksum"),
    (("wrong-size", 0, None, -1000, None), "bytes"),
]
HARMLESS: list[tuple[int, Injection]] = [
    (0, ("short-read", 0, None, 20_000, None)),
    (0, ("slow", MIDDLE, "read", 20_000_000, None)),
    (1, ("slow", MIDDLE, "write", 20_000_000, None)),
    (0, ("no-channel", 0, None, 0, 1)),
    (1, ("no-channel", 0, None, 0, 1)),
    (0, ("no-sftp", 0, None, 0, None)),
    (1, ("no-sftp", 0, None, 0, None)),
]
"""Which server has the fault, and the fault: the file arrives all the same."""


class Store:
    """Implements ``ConnectedSite``: a directory at a faulty server."""

    def __init__(
        self,
        server: FaultySSH,
        other: FaultySSH,
        index: int,
        directory: Path,
        transport: Literal["asyncssh", "openssh"],
    ) -> None:
        """It holds a key for the ``other`` server."""
        access = Access(
            (server.name,),
            transport=transport,
            ssh_config=str(server.ssh_config),
            direct="key",
            direct_key=str(other.key),
            direct_host="127.0.0.1",
            direct_port=server.port,
        )
        self.spec = SiteSpec(f"site{index}", slots=1, access=access)
        self.connection: Connection = connection_of(access)
        self.directory = directory
        directory.mkdir()

    def store_path(self, name: str) -> str:
        return f"{self.directory}/{name}"


class Rig:
    """Two sites at faulty servers, and a router with one transfer method."""

    def __init__(
        self,
        servers: list[FaultySSH],
        method: str,
        transport: Literal["asyncssh", "openssh"] = "asyncssh",
    ) -> None:
        self.servers = servers
        self.stalls = False
        serial = next(_SERIAL)
        self.sites = [
            Store(server, servers[1 - index], index, server.home / f"store{serial}", transport)
            for index, server in enumerate(servers)
        ]
        self.stores = [site.directory for site in self.sites]
        self.endpoints = [RemoteEndpoint(index, site) for index, site in enumerate(self.sites)]
        self.method = METHODS[method].make(BandwidthCaps())
        self.router = TransferRouter(self.endpoints, {method: self.method}, self.stores[0])

    async def copy(self, name: str, expected: Content = ANYTHING) -> WfrunError | None:
        """Copy from the first site to the second; returns the error."""
        with pytest.MonkeyPatch.context() as patch:
            if self.stalls:
                patch.setattr(stall, "STALL_S", 0.5)
            try:
                await asyncio.wait_for(self.router.copy(0, name, 1, name, expected), PATIENCE_S)
            except WfrunError as error:
                return error
        return None

    def inject(self, server: int, fault: Injection, path: str = "*") -> None:
        kind, at_byte, operation, amount, times = fault
        self.stalls = kind == "stall"
        self.servers[server].faults.inject(
            kind, path, operation=operation, at_byte=at_byte, amount=amount, times=times
        )

    def heal(self) -> None:
        self.stalls = False
        for server in self.servers:
            server.faults.heal()

    async def fails(self, name: str, words: str, expected: Content = ANYTHING) -> None:
        """Copy, and check that nothing is left of the copy but one message."""
        error = await self.copy(name, expected)
        assert isinstance(error, (TransientError, InfeasibleError)), name
        assert re.search(words, error.message), error.message
        assert name in error.message
        assert "\n" not in error.message.strip()
        assert not list(self.stores[1].iterdir())

    async def succeeds(self, name: str, expected: Content = ANYTHING) -> None:
        """Copy, check what has arrived, and remove it."""
        assert await self.copy(name, expected) is None
        (arrived,) = self.stores[1].iterdir()
        assert arrived.name == name
        assert arrived.read_bytes() == (self.stores[0] / name).read_bytes()
        self.clear()

    def clear(self) -> None:
        """Empty the destination."""
        for path in self.stores[1].iterdir():
            (shutil.rmtree if path.is_dir() else os.unlink)(path)


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


@contextlib.asynccontextmanager
async def opened(
    servers: list[FaultySSH], method: str, transport: Literal["asyncssh", "openssh"] = "asyncssh"
) -> AsyncIterator[Rig]:
    rig = Rig(servers, method, transport)
    for site in rig.sites:
        await site.connection.open(lambda reason: None)
    try:
        yield rig
    finally:
        rig.heal()
        rig.router.close()
        for site in rig.sites:
            await site.connection.close()


@pytest.fixture
async def rig(servers: list[FaultySSH]) -> AsyncIterator[Rig]:
    """Copies by stream."""
    async with opened(servers, "stream") as rig:
        yield rig


@pytest.fixture(params=["stream", "relay"])
async def relayed(servers: list[FaultySSH], request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    """Copies by each method that passes data through this machine."""
    async with opened(servers, request.param) as rig:
        yield rig


async def test_faulty_sources(relayed: Rig) -> None:
    for number, (injection, words) in enumerate(AT_SOURCE):
        name = f"{number}-{injection[0]}.dat"
        path = relayed.stores[0] / name
        path.write_bytes(LARGE)
        relayed.inject(0, injection, name)
        await relayed.fails(name, words)
        relayed.heal()
        path.write_bytes(LARGE)
        await relayed.succeeds(name)


async def test_faulty_destinations(relayed: Rig) -> None:
    for number, (injection, words) in enumerate(AT_DESTINATION):
        name = f"{number}-{injection[0]}.dat"
        (relayed.stores[0] / name).write_bytes(LARGE)
        relayed.inject(1, injection)
        await relayed.fails(name, words, WHOLE)
        relayed.heal()
        await relayed.succeeds(name, WHOLE)


BY_RSYNC: list[tuple[Injection, str]] = [
    (("stall", MIDDLE, "write", 0, None), "nothing came"),
    (("reset", MIDDLE, "write", 0, 1), "(?i)broken pipe|connection"),
    (("denied", 0, "exec", 0, None), "(?i)exec request failed"),
    (("no-channel", 0, None, 0, 1), "connection unexpectedly closed"),
]
BY_SFTP: list[tuple[Injection, str]] = [
    *BY_RSYNC[:2],
    (("disk-full", MIDDLE, None, 0, None), "Failure"),
    (("denied", 0, "open", 0, None), "(?i)permission denied"),
    (("lost-write", MIDDLE, None, 0, 1), "checksum"),
    (("wrong-bytes", MIDDLE, "write", 0, 1), "checksum"),
]


@pytest.mark.parametrize(
    ("method", "faults"), [("rsync", BY_RSYNC), ("scp", BY_SFTP), ("sftp", BY_SFTP)]
)
async def test_faulty_destinations_of_direct_copies(
    servers: list[FaultySSH],
    method: str,
    faults: list[tuple[Injection, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The source's own client meets the fault."""
    monkeypatch.setattr(direct, "STALL_S", 2.0)
    async with opened(servers, method) as rig:
        for number, (injection, words) in enumerate(faults):
            name = f"{number}-{injection[0]}.dat"
            (rig.stores[0] / name).write_bytes(LARGE)
            on_commands = method == "rsync" and injection[0] != "no-channel"
            rig.inject(1, injection, "*rsync*" if on_commands else "*")
            error = await rig.copy(name, WHOLE)
            assert error is not None, injection
            assert re.search(words, error.message), error.message
            assert not list(rig.stores[1].iterdir())
            rig.heal()
            await rig.succeeds(name, WHOLE)


async def test_faults_that_do_no_harm(relayed: Rig) -> None:
    for number, (server, injection) in enumerate(HARMLESS):
        name = f"{number}-{injection[0]}.dat"
        (relayed.stores[0] / name).write_bytes(LARGE)
        relayed.inject(server, injection)
        await relayed.succeeds(name)
        relayed.heal()


async def test_faulty_commands(rig: Rig) -> None:
    """Directories go through ``tar``, and small files through the agent."""
    folder = rig.stores[0] / "folder"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / name).write_bytes(LARGE)
    (rig.stores[0] / "small").write_bytes(b"small")
    faults: list[tuple[int, Injection, str]] = [
        (0, ("stall", MIDDLE, "read", 0, None), "nothing came"),
        (1, ("stall", MIDDLE, "write", 0, None), "nothing was taken"),
        (0, ("reset", MIDDLE, "read", 0, 1), "connection"),
    ]
    for server, injection, words in faults:
        rig.inject(server, injection, "*exec tar *")
        await rig.fails("folder", words)
        rig.heal()
        await rig.succeeds("small")
        assert await rig.copy("folder") is None
        assert (rig.stores[1] / "folder" / "two").read_bytes() == LARGE
        rig.clear()


async def test_a_stuck_session_is_replaced(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that hangs in one file answers no other request of that session."""
    for name in ("stuck.dat", "other.dat"):
        (rig.stores[0] / name).write_bytes(LARGE)
    for site in rig.sites:
        monkeypatch.setattr(await site.connection.transport(), "_limit_s", 0.1)
    rig.inject(0, ("stall", MIDDLE, "read", 0, None), "stuck.dat")
    await rig.fails("stuck.dat", "nothing came")
    while (error := await rig.copy("other.dat")) is not None:
        assert isinstance(error, TransientError)
    assert (rig.stores[1] / "other.dat").read_bytes() == LARGE
