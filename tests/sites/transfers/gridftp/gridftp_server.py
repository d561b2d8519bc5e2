"""A GridFTP server on this machine, and sites that it serves."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.testbed.gridftp import argv_of
from wfrun.engine.model import Access, GridFtpServer, SiteSpec
from wfrun.sites.remote.connection import Connection
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint

NEEDS_CLIENT = pytest.mark.skipif(
    not shutil.which("globus-url-copy"), reason="needs the package globus-gass-copy-progs"
)
NEEDS_SERVER = pytest.mark.skipif(
    not (shutil.which("globus-url-copy") and shutil.which("globus-gridftp-server"))
    or os.geteuid() != 0,  # the server serves its own account only to root
    reason="needs root and the packages globus-gridftp-server-progs and globus-gass-copy-progs",
)


class Server:
    """An anonymous server with the rights of this user, which can be killed and paused."""

    def __init__(self, log: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        argv = argv_of(self.port, "127.0.0.1", log, "root")
        self._process = subprocess.Popen([*argv, "-allow-root"], start_new_session=True)
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                break
            except OSError:
                assert self._process.poll() is None
                time.sleep(0.01)

    @property
    def url(self) -> str:
        return f"ftp://127.0.0.1:{self.port}"

    def signal(self, number: int) -> None:
        """Signal the server and the processes of its connections."""
        os.killpg(self._process.pid, number)

    def stop(self) -> None:
        self.signal(signal.SIGKILL)
        self._process.wait()


class Site:
    """Implements ``ConnectedSite`` by a directory."""

    def __init__(self, name: str, connection: Connection, store: Path, served: GridFtpServer):
        access = Access(transport="local", gridftp=served)
        self.spec = SiteSpec(name, 1, kind="ssh", access=access)
        self.connection = connection
        self.store = store

    def store_path(self, name: str) -> str:
        return f"{self.store}/{name}"


def endpoints(
    connections: list[Connection], stores: list[Path], url: str, root: str = "/"
) -> list[RemoteEndpoint]:
    served = GridFtpServer(url, root)
    return [
        RemoteEndpoint(index, Site(f"site{index}", connection, store, served))
        for index, (connection, store) in enumerate(zip(connections, stores, strict=False))
    ]
