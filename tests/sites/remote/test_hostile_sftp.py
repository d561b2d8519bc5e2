"""Files from an SFTP server that sends what it likes: an error in words, in bounded memory."""

from __future__ import annotations

import contextlib
import resource
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sites.remote.conftest import Cluster
from tests.sites.remote.servers import Sshd, public
from wfrun.engine.errors import WfrunError
from wfrun.sites.remote.transports.asyncssh_transport import AsyncsshTransport

SERVER = Path(__file__).with_name("hostile_sftp.py")

pytestmark = pytest.mark.slow


@contextlib.asynccontextmanager
async def server_that(how: str, cluster: Cluster, place: Path) -> AsyncIterator[AsyncsshTransport]:
    sftp = f"Subsystem sftp {sys.executable} -I -S {SERVER} {how}"
    sshd = Sshd(place / "hostile", cluster.key, [sftp])
    known = cluster.known_hosts.read_text()
    cluster.known_hosts.write_text(f"{known}[127.0.0.1]:{sshd.port} {public(sshd.host_key)}\n")
    transport = AsyncsshTransport(cluster.add("hostile", sshd.port), config=cluster.config)
    try:
        await transport.connect()
        yield transport
    finally:
        await transport.close()
        sshd.stop()


@pytest.mark.parametrize(
    "how", ["nothing", "long-packet", "garbage", "other-kind", "long-string", "end", "longer"]
)
async def test_what_is_no_file_is_an_error(how: str, cluster: Cluster, tmp_path: Path) -> None:
    async with server_that(how, cluster, tmp_path) as transport:
        with pytest.raises(WfrunError, match="/f "):
            _ = [data async for data in transport.read_file("/f")]


@pytest.mark.parametrize("how", ["one-by-one", "more"])
async def test_pieces_of_another_size_are_taken(how: str, cluster: Cluster, tmp_path: Path) -> None:
    """The copy compares the size of all."""
    async with server_that(how, cluster, tmp_path) as transport:
        data = b"".join([data async for data in transport.read_file("/f")])
        assert len(data) == (10 if how == "one-by-one" else 15)


@pytest.mark.parametrize("how", ["endless", "tiny-limits"])
async def test_a_file_without_end_takes_no_memory(
    how: str, cluster: Cluster, tmp_path: Path
) -> None:
    async with server_that(how, cluster, tmp_path) as transport:
        begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        came = 0
        async with contextlib.aclosing(transport.read_file("/f")) as content:
            async for data in content:
                came += len(data)
                if came > 8 << 20:
                    break
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begun < 128 << 10
