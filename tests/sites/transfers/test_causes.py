"""Why copies fail, from the errors of real disks, servers and programs."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.servers.ssh import FaultySSH
from wfrun.engine.errors import WfrunError
from wfrun.engine.exchange import CopyCause
from wfrun.engine.model import ORIGIN, Access, SiteSpec
from wfrun.sites.remote.connection import Connection, connection_of
from wfrun.sites.transfers.causes import CopyFailure, failure_of
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.local.disk import explain_read, explain_write
from wfrun.sites.transfers.local.local_copy import LocalCopy
from wfrun.sites.transfers.method import TransferMethod
from wfrun.sites.transfers.relay.stream import Stream
from wfrun.sites.transfers.router import TransferRouter

SPEC = SiteSpec("far", slots=1)
FULL = CopyFailure("disk-full", "destination")


class Far:
    """Implements ``ConnectedSite`` by a directory."""

    spec = SPEC

    def __init__(self, directory: Path, connection: Connection) -> None:
        self.connection = connection
        self._directory = directory

    def store_path(self, name: str) -> str:
        return f"{self._directory}/{name}"


@pytest.fixture
async def agent() -> AsyncIterator[Connection]:
    connection = connection_of(Access(transport="local"))
    await connection.open(lambda reason: None)
    yield connection
    await connection.close()


@pytest.fixture
async def sftp(faulty_ssh: FaultySSH) -> AsyncIterator[Connection]:
    config = str(faulty_ssh.ssh_config)
    connection = connection_of(Access(hosts=("faulty",), transport="asyncssh", ssh_config=config))
    await connection.open(lambda reason: None)
    yield connection
    await connection.close()


async def failure(
    far: LocalEndpoint | RemoteEndpoint, method: TransferMethod, source: Path
) -> CopyFailure:
    """Why a copy of this source to the site fails. Nothing of it remains."""
    transfer = TransferRouter([far], {"any": method}, source.parent, checksums=True)
    try:
        with pytest.raises(WfrunError) as caught:
            await transfer.copy(ORIGIN, str(source), 0, "f")
    finally:
        transfer.close()
    return failure_of(caught.value)


@pytest.mark.parametrize("what", ["file", "small file", "directory"])
async def test_a_full_disk(small_disk: Path, agent: Connection, tmp_path: Path, what: str) -> None:
    source = tmp_path / "input"
    if what == "directory":
        source.mkdir()
    path = source / "member" if what == "directory" else source
    path.write_bytes(bytes(60_000 if what == "small file" else 4 << 20))
    if what == "small file":
        with open(small_disk / "filler", "wb") as file:
            file.write(bytes((1 << 20) - 8192))
    before = set(small_disk.iterdir())
    local = LocalEndpoint(0, SPEC, small_disk)
    remote = RemoteEndpoint(0, Far(small_disk, agent))
    assert await failure(local, LocalCopy(), source) == FULL
    assert await failure(local, Stream(), source) == FULL
    assert await failure(remote, Stream(), source) == FULL
    assert set(small_disk.iterdir()) == before


@pytest.mark.slow
async def test_a_full_disk_over_sftp(small_disk: Path, sftp: Connection, tmp_path: Path) -> None:
    """Its answer is ``Failure`` alone."""
    source = tmp_path / "input"
    source.write_bytes(bytes(4 << 20))
    (small_disk / "filler").write_bytes(bytes(900_000))
    assert await failure(RemoteEndpoint(0, Far(small_disk, sftp)), Stream(), source) == FULL


@pytest.mark.slow
async def test_a_connection_that_is_reset(
    faulty_ssh: FaultySSH, sftp: Connection, tmp_path: Path
) -> None:
    source = tmp_path / "input"
    source.write_bytes(bytes(4 << 20))
    faulty_ssh.faults.inject("reset", at_byte=1 << 20, operation="write", times=1)
    found = await failure(RemoteEndpoint(0, Far(faulty_ssh.home, sftp)), Stream(), source)
    assert found.cause == "connection"


async def test_a_read_only_file_system(small_disk: Path, agent: Connection, tmp_path: Path) -> None:
    source = tmp_path / "input"
    source.write_bytes(bytes(300_000))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    local = LocalEndpoint(0, SPEC, small_disk)
    remote = RemoteEndpoint(0, Far(small_disk, agent))
    assert (await failure(local, LocalCopy(), source)).cause == "permission"
    for far in (local, remote):
        assert await failure(far, Stream(), source) == CopyFailure("permission", "destination")


async def test_a_source_that_is_absent(agent: Connection, tmp_path: Path) -> None:
    for method in (LocalCopy(), Stream()):
        found = await failure(LocalEndpoint(0, SPEC, tmp_path), method, tmp_path / "no")
        assert found == CopyFailure("absent", "source")
    far = RemoteEndpoint(0, Far(tmp_path, agent))
    assert await failure(far, Stream(), tmp_path / "no") == CopyFailure("absent", "source")


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (errno.EDQUOT, "quota"),
        (errno.ENOSPC, "disk-full"),
        (errno.EACCES, "permission"),
        (errno.EROFS, "permission"),
        (errno.EIO, "unknown"),
    ],
)
def test_errors_of_the_system(number: int, cause: CopyCause) -> None:
    error = OSError(number, os.strerror(number))
    assert failure_of(explain_write(error, Path("/x/f"))) == CopyFailure(cause, "destination")
    assert failure_of(explain_read(error, Path("/x/f"))).cause == cause


def test_names_are_no_reasons() -> None:
    quoted = WfrunError("'No space left on device' cannot be written: Input/output error")
    assert failure_of(quoted) == CopyFailure("unknown", "destination")
    path = explain_write(OSError(errno.EIO, "Input/output error"), Path("/x/Quota-exceeded"))
    assert failure_of(path).cause == "unknown"
