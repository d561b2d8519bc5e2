"""Faults of servers during copies by GridFTP: the destination has the right file or none, one
message says why, and the same copy succeeds once the fault is over.

The client is the real one. The servers tell the lies that a real GridFTP server does not;
``test_gridftp.py`` kills, pauses and fills those.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.servers.ftp import FaultyFTP
from tests.sites.transfers.gridftp.gridftp_server import NEEDS_CLIENT, endpoints
from tests.sites.transfers.test_faults import LARGE, MIDDLE, WHOLE, Injection
from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.exchange import Content
from wfrun.engine.model import ORIGIN, Access
from wfrun.sites.remote.connection import connection_of
from wfrun.sites.transfers.gridftp import gridftp_client
from wfrun.sites.transfers.gridftp.gridftp import GridFtp
from wfrun.sites.transfers.router import TransferRouter

pytestmark = [pytest.mark.slow, NEEDS_CLIENT]

REFUSED: list[tuple[Injection, str]] = [
    (("denied", 0, "channel", 0, None), "Login incorrect|Please log in"),
    (("no-channel", 0, None, 0, None), "Too many connections|end-of-file"),
    (("denied", 0, "open", 0, None), "Permission denied"),
]
AT_SOURCE: list[tuple[Injection, str]] = [
    *REFUSED,
    (("stall", MIDDLE, "read", 0, None), "no progress"),
    (("reset", MIDDLE, "read", 0, 1), "reset|closed|end-of-file|connection"),
    (("cut-short", MIDDLE, None, 0, 1), "bytes"),
    (("wrong-bytes", MIDDLE, "read", 0, 1), "checksum"),
    (("vanish", MIDDLE, None, 0, None), "absent|No such file"),
]
"""Faults of the source, and what the message says."""
AT_DESTINATION: list[tuple[Injection, str]] = [
    *REFUSED,
    (("stall", MIDDLE, "write", 0, None), "no progress"),
    (("reset", MIDDLE, "write", 0, 1), "reset|closed|end-of-file|connection"),
    (("no-space", MIDDLE, "write", 0, None), "No space left"),
    (("lost-write", MIDDLE, None, 0, None), "bytes"),
    (("lost-write", MIDDLE, None, 0, 1), "checksum"),  # a hole: the size is right
    (("wrong-bytes", MIDDLE, "write", 0, 1), "checksum"),
]
HARMLESS: list[tuple[int, Injection]] = [
    (0, ("wrong-size", 0, None, 1000, None)),  # the agent is asked, not the server
    (0, ("wrong-size", 0, None, -1000, None)),
    (0, ("slow", MIDDLE, "read", 2_000_000, None)),
    (1, ("slow", MIDDLE, "write", 2_000_000, None)),
]
"""Which server has the fault, and the fault: the file arrives all the same."""


class Rig:
    """Two sites with a faulty server each, and a folder of this machine."""

    def __init__(self, base: Path, router: TransferRouter, servers: list[FaultyFTP]) -> None:
        self.folders = {ORIGIN: base / "here", 0: base / "one", 1: base / "two"}
        self.router = router
        self.servers = servers

    async def copy(
        self, source: int, destination: int, name: str, expected: Content
    ) -> WfrunError | None:
        ends = [
            str(self.folders[end] / name) if end == ORIGIN else name
            for end in (source, destination)
        ]
        try:
            await self.router.copy(source, ends[0], destination, ends[1], expected)
        except WfrunError as error:
            return error
        return None

    async def fails_and_succeeds(
        self, ways: list[tuple[int, int]], faulty: int, fault: Injection, words: str
    ) -> None:
        """Copy each way with a fault of one server, and then without it."""
        kind, at_byte, operation, amount, times = fault
        for source, destination in ways:
            name = f"{kind}-{source}-{destination}.dat"
            path, target = self.folders[source] / name, self.folders[destination]
            path.write_bytes(LARGE)
            faults = self.servers[faulty].faults
            faults.inject(kind, operation=operation, at_byte=at_byte, amount=amount, times=times)
            error = await self.copy(source, destination, name, WHOLE)
            faults.heal()
            assert isinstance(error, (TransientError, InfeasibleError)), (fault, name)
            assert re.search(words, error.message), error.message
            assert name in error.message, error.message
            assert "\n" not in error.message.strip()
            assert not list(target.iterdir()), (fault, name)
            path.write_bytes(LARGE)
            assert await self.copy(source, destination, name, WHOLE) is None
            assert (target / name).read_bytes() == LARGE
            assert [each.name for each in target.iterdir()] == [name]
            (target / name).unlink()
            path.unlink()


@pytest.fixture
def servers() -> Iterator[list[FaultyFTP]]:
    made = [FaultyFTP() for _ in range(2)]
    yield made
    for server in made:
        server.close()


@pytest.fixture
async def rig(tmp_path: Path, servers: list[FaultyFTP]) -> AsyncIterator[Rig]:
    connections = [connection_of(Access(transport="local")) for _ in range(2)]
    for connection in connections:
        await connection.open(lambda reason: None)
    for name in ("here", "one", "two"):
        (tmp_path / name).mkdir()
    stores = [tmp_path / "one", tmp_path / "two"]
    sites = [
        endpoints(connections, stores, server.url)[index] for index, server in enumerate(servers)
    ]
    router = TransferRouter(
        sites, {"gridftp": GridFtp()}, tmp_path / "here", checksums=True, resuming=["gridftp"]
    )
    yield Rig(tmp_path, router, servers)
    router.close()
    for connection in connections:
        await connection.close()


@pytest.mark.parametrize(("fault", "words"), AT_SOURCE, ids=lambda each: str(each)[:30])
async def test_faulty_sources(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, fault: Injection, words: str
) -> None:
    """Between two sites, and to this machine."""
    if fault[0] == "stall":
        monkeypatch.setattr(gridftp_client, "STALL_S", 1.0)
    await rig.fails_and_succeeds([(0, 1), (0, ORIGIN)], 0, fault, words)


@pytest.mark.parametrize(("fault", "words"), AT_DESTINATION, ids=lambda each: str(each)[:30])
async def test_faulty_destinations(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, fault: Injection, words: str
) -> None:
    """Between two sites, and from this machine."""
    if fault[0] == "stall":
        monkeypatch.setattr(gridftp_client, "STALL_S", 1.0)
    await rig.fails_and_succeeds([(0, 1), (ORIGIN, 1)], 1, fault, words)


async def test_faults_that_do_no_harm(rig: Rig) -> None:
    for number, (server, fault) in enumerate(HARMLESS):
        kind, at_byte, operation, amount, times = fault
        name = f"{number}.dat"
        (rig.folders[0] / name).write_bytes(LARGE)
        faults = rig.servers[server].faults
        faults.inject(kind, operation=operation, at_byte=at_byte, amount=amount, times=times)
        assert await rig.copy(0, 1, name, WHOLE) is None, fault
        faults.heal()
        assert (rig.folders[1] / name).read_bytes() == LARGE
