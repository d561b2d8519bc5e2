"""GridFTP between sites behind SSH: each scheme, and failures of logins and servers."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.testbed.fixture import GridFTP
from tests.testbed.gridftp import Scheme
from tests.testbed.testbed import Testbed
from wfrun.engine.errors import TransientError
from wfrun.engine.exchange import Content
from wfrun.engine.model import ORIGIN, Access, GridFtpServer, SiteSpec
from wfrun.sites.node.tasks.digests import digest_of_bytes
from wfrun.sites.remote.connection import Connection, connection_of
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.gridftp.gridftp import PARALLEL_BYTES, GridFtp
from wfrun.sites.transfers.method import MethodFailedError
from wfrun.sites.transfers.router import TransferRouter

DATA = os.urandom(PARALLEL_BYTES + 1)
WHOLE = Content(len(DATA))


class Store:
    """Implements ``ConnectedSite`` by a directory of the site's user."""

    def __init__(self, name: str, connection: Connection, directory: Path, server: str) -> None:
        self.spec = SiteSpec(name, 1, kind="ssh", access=Access(gridftp=GridFtpServer(server)))
        self.connection = connection
        self.directory = directory

    def store_path(self, name: str) -> str:
        return f"{self.directory}/{name}"


class Sites:
    """Stores at alpha and delta."""

    def __init__(self, gridftp: GridFTP, connections: dict[str, Connection], base: Path) -> None:
        self._gridftp, self._connections, self._base = gridftp, connections, base
        self.home = {name: gridftp.layout.site(name).home for name in connections}

    def server(self, name: str, scheme: Scheme) -> str:
        """The URL of a site's server."""
        return self._gridftp.url(name, "/", scheme).rstrip("/")

    def transfer(self, alpha: str, delta: str) -> TransferRouter:
        """Copies by these servers alone."""
        endpoints = [
            RemoteEndpoint(
                index, Store(name, self._connections[name], self.home[name] / "store", server)
            )
            for index, (name, server) in enumerate((("alpha", alpha), ("delta", delta)))
        ]
        return TransferRouter(endpoints, {"gridftp": GridFtp()}, self._base, checksums=True)


@pytest.fixture
async def sites(
    testbed: Testbed, gridftp: GridFTP, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Sites]:
    for name, value in gridftp.environment.items():
        monkeypatch.setenv(name, value)
    config = str(gridftp.layout.ssh_config)
    connections = {
        name: connection_of(Access((name,), ssh_config=config)) for name in ("alpha", "delta")
    }
    made = Sites(gridftp, connections, tmp_path)
    try:
        for name, connection in connections.items():
            await connection.open(lambda reason: None)
            await (await connection.host()).make_directories([str(made.home[name] / "store")])
        (tmp_path / "f").write_bytes(DATA)
        yield made
    finally:
        for name, connection in connections.items():
            await (await connection.host()).remove([str(made.home[name] / "store")])
            await connection.close()


@pytest.mark.parametrize(
    ("first", "second"),
    [("ftp", "ftp"), ("gsiftp", "gsiftp"), ("sshftp", "sshftp"), ("gsiftp", "sshftp")],
)
async def test_in_between_and_out(
    sites: Sites, tmp_path: Path, first: Scheme, second: Scheme
) -> None:
    transfer = sites.transfer(sites.server("alpha", first), sites.server("delta", second))
    receipts = [
        await transfer.copy(ORIGIN, str(tmp_path / "f"), 0, "a b", WHOLE),
        await transfer.copy(0, "a b", 1, "-g", WHOLE),
        await transfer.copy(1, "-g", ORIGIN, str(tmp_path / "back"), WHOLE),
    ]
    assert {receipt.digest for receipt in receipts} == {digest_of_bytes(DATA)}
    assert (tmp_path / "back").read_bytes() == DATA
    stored = sites.home["delta"] / "store" / "-g"
    assert stored.owner() == sites.home["delta"].owner()
    assert not stored.stat().st_mode & 0o222
    assert [path.name for path in stored.parent.iterdir()] == ["-g"]


def expired_proxy(certificates: Path, base: Path) -> Path:
    """A certificate of the testbed's user that has expired, with its key."""
    request, proxy = base / "request", base / "expired.pem"
    key = certificates / "user.key"
    authority: list[object] = ["-CA", certificates / "ca.pem", "-CAkey", certificates / "ca.key"]
    authority += ["-set_serial", "7"]
    for argv in (
        ["req", "-new", "-key", key, "-subj", "/O=Grid/CN=Tester", "-out", request],
        ["x509", "-req", "-days", "-1", "-in", request, "-out", proxy, *authority],
    ):
        subprocess.run(["openssl", *map(str, argv)], check=True, capture_output=True)
    proxy.write_text(proxy.read_text() + key.read_text())
    proxy.chmod(0o600)
    return proxy


async def test_an_expired_proxy(
    sites: Sites, gridftp: GridFTP, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the proxy, and what renews it; nothing is left."""
    certificates = Path(gridftp.environment["X509_CERT_DIR"]).parent
    transfer = sites.transfer(sites.server("alpha", "gsiftp"), sites.server("delta", "gsiftp"))
    for proxy, message in (
        (
            expired_proxy(certificates, tmp_path),
            r"grid-proxy-init.*expired\.pem.*expired \d+ minutes ago",
        ),
        (tmp_path / "none", "there is no proxy certificate.*grid-proxy-init"),
    ):
        monkeypatch.setenv("X509_USER_PROXY", str(proxy))
        with pytest.raises(MethodFailedError, match=f"(?s){message}"):
            await transfer.copy(ORIGIN, str(tmp_path / "f"), 0, "f", WHOLE)
    assert not list((sites.home["alpha"] / "store").iterdir())


async def test_a_server_that_works_as_another_user(sites: Sites, tmp_path: Path) -> None:
    other = sites.server("delta", "ftp")
    (sites.home["alpha"] / "store").chmod(0o755)
    with pytest.raises(MethodFailedError, match=r"(?s)Permission denied.*as the site's user"):
        await sites.transfer(other, other).copy(ORIGIN, str(tmp_path / "f"), 0, "f", WHOLE)


async def test_over_ssh_a_server_is_killed_in_mid_file(sites: Sites, tmp_path: Path) -> None:
    """The client's ssh ends with it, and the next copy succeeds."""
    transfer = sites.transfer(*(sites.server(name, "sshftp") for name in ("alpha", "delta")))
    with (tmp_path / "big").open("wb") as file:
        file.truncate(200 << 20)
    store = sites.home["alpha"] / "store"
    copying = asyncio.create_task(transfer.copy(ORIGIN, str(tmp_path / "big"), 0, "big"))
    while not any(path.stat().st_size for path in store.iterdir()):
        assert not copying.done(), copying.exception()
        await asyncio.sleep(0.01)
    user = sites.home["alpha"].owner()
    subprocess.run(["pkill", "-KILL", "-u", user, "-f", "globus-gridftp-server"], check=True)
    with pytest.raises(TransientError, match="globus-url-copy"):
        await copying
    assert not list(store.iterdir())
    await transfer.copy(ORIGIN, str(tmp_path / "f"), 0, "f", WHOLE)
    assert (store / "f").read_bytes() == DATA
