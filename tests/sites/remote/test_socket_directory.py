"""Directories of sockets, also of processes that were killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.sites.remote.conftest import Cluster
from wfrun.sites.remote.transports.openssh_transport import OpensshTransport
from wfrun.sites.remote.transports.socket_directory import SocketDirectory

OWNER = """
import socket, sys, time
from pathlib import Path
from wfrun.sites.remote.transports.socket_directory import SocketDirectory
directory = SocketDirectory(Path(sys.argv[1]))
listener = socket.socket(socket.AF_UNIX)
listener.bind(directory.socket)
print(directory.socket, flush=True)
time.sleep(1000)
"""


async def test_a_forwarded_port_leaves_nothing(cluster: Cluster) -> None:
    transport = OpensshTransport(cluster.host, config=cluster.config, sockets=cluster.sockets)
    await transport.connect()

    listener = await transport.forward(None, lambda connection: pytest.fail("nobody calls"))
    assert listener.port > 0
    assert list(cluster.sockets.glob("wfs-*/s"))
    await listener.close()
    assert not list(cluster.sockets.glob("wfs-*"))
    await transport.close()


def test_what_a_killed_process_leaves_is_removed_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            left = Path(process.stdout.readline().strip())
            first = SocketDirectory(tmp_path)
            Path(first.socket).touch()
            assert left.exists()
        finally:
            process.kill()
    second = SocketDirectory(tmp_path)
    assert not left.parent.exists()
    assert sorted(tmp_path.iterdir()) == sorted(
        Path(each.socket).parent for each in (first, second)
    )
    for each in (first, second):
        each.remove()
    assert not list(tmp_path.iterdir())
