"""Copies to a site whose file system has a quota: a btrfs on a loop device."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S
from wfrun.engine.errors import InfeasibleError, WfrunError
from wfrun.engine.model import ORIGIN, Access, SiteSpec
from wfrun.sites.remote.connection import Connection, connection_of
from wfrun.sites.transfers.causes import failure_of
from wfrun.sites.transfers.endpoints.endpoint import Endpoint
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.local.local_copy import LocalCopy
from wfrun.sites.transfers.method import TransferMethod
from wfrun.sites.transfers.relay.stream import Stream
from wfrun.sites.transfers.router import TransferRouter

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0
        or not (shutil.which("mkfs.btrfs") and shutil.which("btrfs") and shutil.which("losetup"))
        or "btrfs" not in Path("/proc/filesystems").read_text(),
        reason="needs root, btrfs-progs and a kernel with btrfs",
    ),
]

QUOTA_BYTES = 2 << 20
SIZE_BYTES = 6 << 20


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory that takes QUOTA_BYTES, on a file system with free space."""
    base = tmp_path_factory.mktemp("quota")
    image, mounted = base / "image", base / "mounted"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(256 << 20)
    _run("mkfs.btrfs", "-q", str(image))
    _run("mount", "-o", "loop", str(image), str(mounted))
    try:
        _run("btrfs", "quota", "enable", str(mounted))
        _run("btrfs", "subvolume", "create", str(mounted / "store"))
        _run("btrfs", "qgroup", "limit", str(QUOTA_BYTES), str(mounted / "store"))
        yield mounted / "store"
    finally:
        _run("umount", "--lazy", str(mounted))


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)


class Site:
    """Implements ``ConnectedSite`` by an agent on this machine and the limited directory."""

    def __init__(self, connection: Connection, store: Path) -> None:
        self.spec = SiteSpec("limited", 1, kind="ssh", access=Access(transport="local"))
        self.connection = connection
        self._store = store

    def store_path(self, name: str) -> str:
        return f"{self._store}/{name}"


@pytest.fixture
async def router(limited: Path, tmp_path: Path) -> AsyncIterator[TransferRouter]:
    """Site 0 has an agent, site 1 is local; the stores of both have the quota."""
    connection = connection_of(Access(transport="local"))
    await connection.open(lambda reason: None)
    ends: list[Endpoint] = [
        RemoteEndpoint(0, Site(connection, limited)),
        LocalEndpoint(1, SiteSpec("here", 1), limited),
    ]
    methods: dict[str, TransferMethod] = {"copy": LocalCopy(()), "stream": Stream()}
    made = TransferRouter(ends, methods, tmp_path, checksums=True)
    yield made
    made.close()
    await connection.close()


@pytest.mark.parametrize("site", [0, 1])
async def test_a_copy_beyond_the_quota(
    router: TransferRouter, limited: Path, tmp_path: Path, site: int
) -> None:
    """It fails with the cause that pauses the site, leaves nothing, and others still fit."""
    source = tmp_path / "f"
    source.write_bytes(os.urandom(SIZE_BYTES))
    with pytest.raises(InfeasibleError) as caught:
        await asyncio.wait_for(router.copy(ORIGIN, str(source), site, "large"), PATIENCE_S)
    assert failure_of(caught.value) == ("quota", "destination"), caught.value.message
    assert "large" in caught.value.message
    assert not list(limited.iterdir())
    os.truncate(source, 100_000)
    _run("sync", "--file-system", str(limited))
    await router.copy(ORIGIN, str(source), site, "small")
    assert (limited / "small").read_bytes() == source.read_bytes()
    (limited / "small").unlink()


async def test_small_files_beyond_the_quota(
    router: TransferRouter, limited: Path, tmp_path: Path
) -> None:
    """Of many files in shared messages those arrive that fit, each whole."""
    # btrfs counts the files that other tests removed until they are gone from its disk.
    _run("btrfs", "filesystem", "sync", str(limited))
    source = tmp_path / "f"
    source.write_bytes(os.urandom(400_000))
    names = [f"small{number}" for number in range(20)]
    copies = [router.copy(ORIGIN, str(source), 0, name) for name in names]
    ended = await asyncio.wait_for(asyncio.gather(*copies, return_exceptions=True), PATIENCE_S)
    failed = {
        name: error
        for name, error in zip(names, ended, strict=True)
        if isinstance(error, WfrunError)
    }
    assert 0 < len(failed) < len(names)
    for name, error in failed.items():
        assert failure_of(error).cause == "quota"
        assert f"/{name} cannot be written" in error.message
    arrived = [path.name for path in limited.iterdir()]
    assert set(names) >= set(arrived) >= set(names) - set(failed)
    for name in arrived:
        assert (limited / name).read_bytes() == source.read_bytes()
        (limited / name).unlink()
