"""A bit of an SSH connection flips while a file goes over it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.sites.remote.conftest import Cluster
from tests.sites.remote.servers import Line
from tests.sites.transfers.test_conformance import Store
from tests.waiting import PATIENCE_S
from wfrun.engine.errors import TransientError
from wfrun.engine.exchange import Content, Receipt
from wfrun.engine.model import ORIGIN, Access
from wfrun.sites.remote.connection import connection_of
from wfrun.sites.transfers.causes import failure_of
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.relay.stream import Stream
from wfrun.sites.transfers.router import TransferRouter

pytestmark = pytest.mark.slow

SIZE_BYTES = 8 << 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    base = tmp_path_factory.mktemp("cluster")
    made = Cluster(base, base)
    yield made
    made.sshd.stop()


class Copies:
    """Copies between this machine and a site behind a line, by stream."""

    def __init__(self, line: Line, router: TransferRouter, here: Path, there: Path) -> None:
        self.line = line
        self.here, self.there = here, there
        self._router = router
        self.content = os.urandom(SIZE_BYTES)

    async def copy(self, *, back: bool) -> Receipt:
        ends = (0, "f", ORIGIN, str(self.here / "g")), (ORIGIN, str(self.here / "f"), 0, "g")
        (self.target(back=not back) / "f").write_bytes(self.content)
        copying = self._router.copy(*ends[not back], Content(SIZE_BYTES))
        return await asyncio.wait_for(copying, PATIENCE_S)

    def target(self, *, back: bool) -> Path:
        return self.here if back else self.there

    def arrived(self, *, back: bool) -> list[str]:
        """What is at the destination, beside the source of the other direction."""
        return [path.name for path in self.target(back=back).iterdir() if path.name != "f"]


@pytest.fixture(params=["asyncssh", "openssh"])
async def copies(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path
) -> AsyncIterator[Copies]:
    transport = request.param
    line = Line(cluster.sshd.port)
    await line.open()
    name = f"{tmp_path.name}-{line.port}"
    known = f"[127.0.0.1]:{line.port} {cluster.known_hosts.read_text().split(' ', 1)[1]}"
    with cluster.known_hosts.open("a") as file:
        file.write(known.splitlines()[0] + "\n")
    access = Access(
        (cluster.add(name, line.port),), transport=transport, ssh_config=str(cluster.config)
    )
    connection = connection_of(access)
    await connection.open(lambda reason: None)
    folders = tmp_path / "here", tmp_path / "there"
    for folder in folders:
        folder.mkdir()
    ends = [RemoteEndpoint(0, Store(0, connection, folders[1]))]
    router = TransferRouter(ends, {"stream": Stream()}, folders[0], checksums=True)
    yield Copies(line, router, *folders)
    router.close()
    await connection.close()
    await line.close()


async def test_the_copy_fails_and_the_next_one_arrives(copies: Copies) -> None:
    """SSH finds out by its own checksum, and ends the connection: never does a wrong or a short
    file get its final name."""
    for back in (False, True):
        copies.line.flip_after(SIZE_BYTES // 2)
        with pytest.raises(TransientError) as caught:
            await copies.copy(back=back)
        assert copies.line.has_flipped
        assert failure_of(caught.value).cause == "connection", caught.value.message
        assert "\n" not in caught.value.message
        assert not copies.arrived(back=back)
        await copies.copy(back=back)
        assert (copies.target(back=back) / "g").read_bytes() == copies.content
        assert copies.arrived(back=back) == ["g"]
