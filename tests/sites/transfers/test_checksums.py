"""Copies are compared by checksum, over a connection whose server loses writes."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.servers.ssh import FaultySSH
from tests.sites.transfers.test_conformance import Store
from wfrun.engine.errors import TransientError
from wfrun.engine.exchange import Content
from wfrun.engine.model import ORIGIN, Access, SiteSpec
from wfrun.sites.remote.agent_client import AgentHost
from wfrun.sites.remote.connection import Connection, connection_of
from wfrun.sites.transfers.endpoints.endpoint import part_name
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.local.local_copy import LocalCopy
from wfrun.sites.transfers.method import TransferMethod
from wfrun.sites.transfers.relay.stream import Stream
from wfrun.sites.transfers.router import TransferRouter

DATA = bytes(range(256)) * 8192
DIGEST = hashlib.sha256(DATA).hexdigest()


class Far:
    """Implements ``ConnectedSite`` by the home of the faulty server."""

    spec = SiteSpec("faulty", slots=1)

    def __init__(self, server: FaultySSH, connection: Connection) -> None:
        self.connection = connection
        self._home = server.home

    def store_path(self, name: str) -> str:
        return f"{self._home}/{name}"


class Reads(LocalEndpoint):
    """This machine; notes the files that were measured."""

    def __init__(self) -> None:
        super().__init__()
        self.measured: list[str] = []

    async def measure(self, path: str, size_bytes: int | None) -> Content | None:
        self.measured.append(path)
        return await super().measure(path, size_bytes)


@pytest.fixture
async def far(faulty_ssh: FaultySSH) -> AsyncIterator[Far]:
    access = Access(hosts=("faulty",), transport="asyncssh", ssh_config=str(faulty_ssh.ssh_config))
    connection = connection_of(access)
    await connection.open(lambda reason: None)
    yield Far(faulty_ssh, connection)
    await connection.close()


@pytest.mark.slow
async def test_damage_of_the_same_size_is_found(
    faulty_ssh: FaultySSH, far: Far, tmp_path: Path
) -> None:
    """The digest of an input that nobody knows is computed while it is sent."""
    source = tmp_path / "input"
    source.write_bytes(DATA)
    here = Reads()
    transfer = TransferRouter([RemoteEndpoint(0, far)], {"stream": Stream()}, tmp_path)
    transfer._endpoints[ORIGIN] = here
    verified = TransferRouter(
        [RemoteEndpoint(0, far)], {"stream": Stream()}, tmp_path, checksums=True
    )
    verified._endpoints[ORIGIN] = here
    middle = len(DATA) // 2
    faulty_ssh.faults.inject("lost-write", at_byte=middle, times=1)
    receipt = await transfer.copy(ORIGIN, str(source), 0, "plain")
    assert receipt.digest is None
    assert (faulty_ssh.home / "plain").stat().st_size == len(DATA)
    assert (faulty_ssh.home / "plain").read_bytes() != DATA  # Else the server has lost nothing.
    faulty_ssh.faults.inject("lost-write", at_byte=middle, times=1)
    with pytest.raises(TransientError, match="checksum"):
        await verified.copy(ORIGIN, str(source), 0, "whole")
    assert not (faulty_ssh.home / "whole").exists()
    assert (await verified.copy(ORIGIN, str(source), 0, "whole")).digest == DIGEST
    assert (faulty_ssh.home / "whole").read_bytes() == DATA
    assert here.measured == []


@pytest.mark.parametrize("size_bytes", [0, 5, 70_000, len(DATA)])
@pytest.mark.parametrize("method", [Stream, LocalCopy])
async def test_the_digest_of_a_source_is_that_of_sha256sum(
    tmp_path: Path, method: type[TransferMethod], size_bytes: int
) -> None:
    (tmp_path / "f").write_bytes(DATA[:size_bytes])
    site = LocalEndpoint(0, SiteSpec("here", slots=1), tmp_path)
    carrier = method()
    transfer = TransferRouter([site], {"any": carrier}, tmp_path, checksums=True)
    receipt = await transfer.copy(0, "f", 0, "g")
    said = await asyncio.create_subprocess_exec(
        "sha256sum", str(tmp_path / "g"), stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await said.communicate()
    transfer.close()
    assert receipt.digest == printed.split()[0].decode()


@pytest.mark.parametrize("to_site", [False, True])
async def test_a_small_file_of_this_machine_is_read_once(tmp_path: Path, to_site: bool) -> None:
    """Tasks with tiny files would otherwise cost as much for checksums as for copies."""
    (tmp_path / "f").write_bytes(b"content")
    opened: list[str] = []
    sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
    site = LocalEndpoint(0, SiteSpec("here", slots=1), tmp_path)
    transfer = TransferRouter([site], {"copy": LocalCopy()}, tmp_path, checksums=True)
    ends = (ORIGIN, str(tmp_path / "f"), 0, "g") if to_site else (0, "f", ORIGIN, "g")
    receipt = await transfer.copy(*ends)
    transfer.close()
    own = [name for path in opened if (name := Path(path).name) == "f" or "wfrun-part" in name]
    assert len(own) == 2
    assert (tmp_path / "g").read_bytes() == b"content"
    assert receipt.digest == hashlib.sha256(b"content").hexdigest()


class _Site(RemoteEndpoint):
    """Notes the files that were measured."""

    def __init__(self, site: Store) -> None:
        super().__init__(0, site)
        self.measured: list[str] = []

    async def measure(self, path: str, size_bytes: int | None) -> Content | None:
        self.measured.append(path)
        return await super().measure(path, size_bytes)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[_Site]:
    connection = connection_of(Access(transport="local"))
    await connection.open(lambda reason: None)
    store = tmp_path / "store"
    store.mkdir()
    yield _Site(Store(0, connection, store))
    await connection.close()


@pytest.mark.parametrize("is_known", [False, True])
async def test_large_files_are_not_read_twice(site: _Site, tmp_path: Path, is_known: bool) -> None:
    """Their digests are computed while they are written, at either end."""
    (tmp_path / "f").write_bytes(DATA)
    here = Reads()
    transfer = TransferRouter([site], {"stream": Stream()}, tmp_path, checksums=True)
    transfer._endpoints[ORIGIN] = here
    expected = Content(len(DATA), DIGEST if is_known else None)
    there = await transfer.copy(ORIGIN, str(tmp_path / "f"), 0, "f", expected)
    back = await transfer.copy(0, "f", ORIGIN, str(tmp_path / "g"), expected)
    assert there.digest == back.digest == DIGEST
    assert (tmp_path / "g").read_bytes() == DATA
    assert site.measured == here.measured == []


async def test_a_file_that_is_not_written_in_order_is_read_back(
    site: _Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the agent has read while it was written had holes then."""
    follow = AgentHost.digest_of_growing

    async def digest_of_growing(host: AgentHost, path: str, size_bytes: int) -> str | None:
        await follow(host, path, size_bytes)
        return hashlib.sha256(bytes(size_bytes)).hexdigest()

    monkeypatch.setattr(AgentHost, "digest_of_growing", digest_of_growing)
    (tmp_path / "f").write_bytes(DATA)
    transfer = TransferRouter([site], {"stream": Stream()}, tmp_path, checksums=True)
    assert (await transfer.copy(ORIGIN, str(tmp_path / "f"), 0, "f")).digest == DIGEST
    assert [Path(path).name.startswith(part_name("")) for path in site.measured] == [True]
