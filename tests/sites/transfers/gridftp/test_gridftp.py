"""GridFTP between two sites of this machine, with a real server and the real client."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sites.transfers.gridftp.gridftp_server import NEEDS_SERVER, Server, endpoints
from wfrun.engine.errors import InfeasibleError, NoSpaceError, TransientError
from wfrun.engine.exchange import Content
from wfrun.engine.model import ORIGIN, Access, LinkSpec, SiteSpec
from wfrun.sites.node.tasks.digests import digest_of_bytes
from wfrun.sites.remote.connection import Connection, connection_of
from wfrun.sites.remote.host import Stat
from wfrun.sites.transfers import resume
from wfrun.sites.transfers.bandwidth_cap import BandwidthCaps
from wfrun.sites.transfers.endpoints.endpoint import KEPT, Endpoint, part_name
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.gridftp import gridftp, gridftp_client
from wfrun.sites.transfers.gridftp.gridftp import GridFtp
from wfrun.sites.transfers.method import (
    Location,
    MethodFailedError,
    NotCarriedError,
    TransferMethod,
)
from wfrun.sites.transfers.relay.stream import Stream
from wfrun.sites.transfers.router import TransferRouter
from wfrun.testing.transfers import TransferConformance

pytestmark = NEEDS_SERVER

LARGE = os.urandom(1 << 20)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("server") / "log")
    yield started
    started.stop()


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own."""
    started = Server(tmp_path / "log")
    yield started
    started.stop()


@pytest.fixture
async def connections() -> AsyncIterator[list[Connection]]:
    opened = [connection_of(Access(transport="local")) for _ in range(2)]
    for connection in opened:
        await connection.open(lambda reason: None)
    yield opened
    for connection in opened:
        await connection.close()


@pytest.mark.slow
class TestGridFtp(TransferConformance):
    """Large files go by GridFTP, the others by the next method."""

    emulates_links = False

    @pytest.fixture(autouse=True)
    async def _served(self, server: Server, connections: list[Connection]) -> None:
        self.server, self.connections = server, connections

    def make(self, stores: list[Path], links: list[LinkSpec]) -> TransferRouter:
        methods: dict[str, TransferMethod] = {"gridftp": GridFtp(), "stream": Stream()}
        sites: list[Endpoint] = [*endpoints(self.connections, stores, self.server.url)]
        more = [
            LocalEndpoint(index, SiteSpec(f"site{index}", 1), store)
            for index, store in enumerate(stores[len(sites) :], len(sites))
        ]
        return TransferRouter([*sites, *more], methods, stores[0].parent, large_only=["gridftp"])


class Pair:
    """Two sites with a server and this machine, between which GridFTP alone carries."""

    def __init__(self, connections: list[Connection], url: str, base: Path) -> None:
        self.stores = [base / "one", base / "two"]
        for store in self.stores:
            store.mkdir()
        self.base = base
        self.method = GridFtp()
        self.sites = endpoints(connections, self.stores, url)
        (self.stores[0] / "f").write_bytes(LARGE)

    async def copy(self, destination: int = 1, name: str = "g", source: str = "f") -> Path:
        """Copy from the first site. Returns where it is then."""
        to: Endpoint = LocalEndpoint() if destination == ORIGIN else self.sites[destination]
        from_ = Location(self.sites[0], source)
        content = Content(None, digest_of_bytes(LARGE) if source == "f" else None, verify=True)
        assert await self.method.can_carry(self.sites[0], to)
        target = str(self.base / name) if destination == ORIGIN else name
        await self.method.copy(from_, Location(to, target), "key", content)
        return Path(to.path(target))

    def left(self) -> list[str]:
        """What copies left at the second site."""
        return [path.name for path in self.stores[1].iterdir()]


@pytest.fixture
def pair(server: Server, connections: list[Connection], tmp_path: Path) -> Pair:
    return Pair(connections, server.url, tmp_path)


@pytest.mark.parametrize("destination", [1, ORIGIN])
async def test_by_parallel_streams(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, destination: int
) -> None:
    monkeypatch.setattr(gridftp, "PARALLEL_BYTES", 1)
    monkeypatch.setenv("GLOBUS_TCP_PORT_RANGE", "40000,60000")
    assert (await pair.copy(destination)).read_bytes() == LARGE


@pytest.mark.parametrize("destination", [1, ORIGIN])
async def test_what_has_arrived_is_not_read_again(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, destination: int
) -> None:
    """Its digest is computed while the server or the client writes it."""
    measured: list[str] = []
    for kind in (RemoteEndpoint, LocalEndpoint):
        monkeypatch.setattr(kind, "measure", _noting(kind.measure, measured))
    assert (await pair.copy(destination)).read_bytes() == LARGE
    assert measured == []


def _noting(
    measure: Callable[[Any, str, int | None], Awaitable[Content | None]], measured: list[str]
) -> Callable[[Any, str, int | None], Awaitable[Content | None]]:
    async def noting(end: Any, path: str, size_bytes: int | None) -> Content | None:
        measured.append(path)
        return await measure(end, path, size_bytes)

    return noting


@pytest.mark.slow
@pytest.mark.parametrize("destination", [1, ORIGIN])
async def test_a_copy_goes_on_from_what_an_earlier_one_has_left(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, destination: int
) -> None:
    """A part of something else is found out by the digest, and the file copied as a whole."""
    monkeypatch.setattr(resume, "RESUME_BYTES", 1)
    monkeypatch.setattr(resume, "BACK_BYTES", 100_000)
    router = TransferRouter(
        pair.sites, {"gridftp": pair.method}, pair.base, checksums=True, resuming=["gridftp"]
    )
    whole = 4 * LARGE
    (pair.stores[0] / "f").write_bytes(whole)
    folder, name = pair.stores[1], "g"
    if destination == ORIGIN:
        folder, name = pair.base / "back", str(pair.base / "back" / "g")
        folder.mkdir()
    part = folder / part_name(f"{KEPT}{hashlib.sha256(b'g').hexdigest()[:24]}")
    for left, is_of_use in ((whole[:3_000_000], True), (bytes(3_000_000), False)):
        part.write_bytes(left)
        receipt = await router.copy(0, "f", destination, name, Content(len(whole)))
        assert (folder / "g").read_bytes() == whole
        assert [path.name for path in folder.iterdir()] == ["g"]
        assert (receipt.sent_bytes is not None) == is_of_use
        (folder / "g").unlink()


def test_the_client_restarts_only_copies_that_are_not_compared() -> None:
    """It writes ranges again that may have been hashed."""
    large = Content(1 << 40)
    assert "-rst" in gridftp.options(large, is_here=False)
    assert "-rst" not in gridftp.options(Content(large.size_bytes, verify=True), is_here=False)


ODD = ("#%?*[x]~;:@$&+=,{}|<>'\"\\", "-x%20 100% ", "?", "n" * 255)


@pytest.mark.slow
async def test_odd_names_arrive_unchanged(pair: Pair) -> None:
    """Each as a directory at both ends, where the client gets it, and as the name of the source. A
    file beside it would be taken if a pattern were expanded."""
    for name in ODD:
        for store in pair.stores:
            (store / name).mkdir()
        (pair.stores[0] / name / name).write_bytes(LARGE)
        (pair.stores[0] / name / "x").write_bytes(b"another")
        where = await pair.copy(1, f"{name}/g", f"{name}/{name}")
        assert where.read_bytes() == LARGE
        assert [path.name for path in where.parent.iterdir()] == ["g"]


async def test_an_empty_file(pair: Pair) -> None:
    """Small files go by other methods unless the catalog wants them to go by this one."""
    (pair.stores[0] / "empty").touch()
    ends = Location(pair.sites[0], "empty"), Location(pair.sites[1], "g")
    receipt = await pair.method.copy(*ends, "key", Content(0, verify=True))
    assert (receipt.size_bytes, receipt.digest) == (0, digest_of_bytes(b""))
    assert (pair.stores[1] / "g").read_bytes() == b""


async def test_small_files_and_directories_go_by_other_methods(pair: Pair, tmp_path: Path) -> None:
    """From a site to this machine, too. Large ones go by GridFTP."""
    methods: dict[str, TransferMethod] = {"gridftp": pair.method, "stream": Stream()}
    router = TransferRouter(pair.sites, methods, tmp_path, large_only=["gridftp"])
    (pair.stores[0] / "small").write_bytes(b"x")
    (pair.stores[0] / "d").mkdir()
    for name, by in (("small", "stream"), ("d", "stream"), ("f", "gridftp")):
        for end, target in ((1, name), (ORIGIN, str(tmp_path / "back" / name))):
            assert (await router.copy(0, name, end, target)).method == by, (name, end)


async def test_a_server_that_is_gone_leaves_the_file_to_the_next_method(
    connections: list[Connection], tmp_path: Path
) -> None:
    pair = Pair(connections, "ftp://127.0.0.1:1", tmp_path)
    router = TransferRouter(pair.sites, {"gridftp": pair.method, "stream": Stream()}, tmp_path)
    receipt = await router.copy(0, "f", 1, "g")
    assert receipt.method == "stream"
    assert "because gridftp failed" in (receipt.fallback or "")
    assert (pair.stores[1] / "g").read_bytes() == LARGE


async def test_names_that_the_client_garbles_are_left_to_others(pair: Pair) -> None:
    """A line break would begin another command to the server."""
    for name in ("a\nDELE f", "a\rb", "a\x01", "ü", "\udcff"):
        (pair.stores[0] / name).write_bytes(LARGE)
        with pytest.raises(NotCarriedError):
            await pair.copy(1, "g", name)
    assert not pair.left()
    assert (pair.stores[0] / "f").exists()


@pytest.mark.slow
async def test_a_server_with_another_root(
    server: Server, connections: list[Connection], tmp_path: Path
) -> None:
    """The server's root is a directory of the site: the rest of the site is out of its reach."""
    shown = tmp_path / "shown"
    shown.mkdir()
    pair = Pair(connections, server.url, shown)
    pair.sites = endpoints(connections, pair.stores, server.url, root=str(shown))
    with pytest.raises(MethodFailedError, match="site's file system"):  # the server's root is /
        await pair.copy()
    pair.sites = endpoints(connections, pair.stores, server.url, root="/elsewhere")
    with pytest.raises(NotCarriedError):
        await pair.copy()


@pytest.mark.slow
async def test_an_absent_source(pair: Pair) -> None:
    with pytest.raises(InfeasibleError, match="absent"):
        await pair.copy(1, "g", "none")
    assert not pair.left()


@pytest.mark.slow
async def test_a_wrong_port(connections: list[Connection], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    pair = Pair(connections, f"ftp://127.0.0.1:{port}", tmp_path)
    with pytest.raises(MethodFailedError, match="Connection refused"):
        await pair.copy()
    assert not pair.left()


@pytest.mark.slow
@pytest.mark.parametrize("destination", [1, ORIGIN])
async def test_a_full_destination(pair: Pair, destination: int) -> None:
    full = pair.base / "full"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(full)], check=True)
    try:
        pair.sites[1]._site.store = full  # type: ignore[attr-defined]
        with pytest.raises(NoSpaceError, match="No space left"):
            await pair.copy(destination, "g" if destination == 1 else "full/g")
        assert not list(full.iterdir())
    finally:
        subprocess.run(["umount", str(full)], check=True)


async def test_a_server_that_is_killed_in_mid_file(
    connections: list[Connection], victim: Server, tmp_path: Path
) -> None:
    pair = Pair(connections, victim.url, tmp_path)
    copying = await under_way(pair, victim)
    victim.signal(signal.SIGKILL)
    with pytest.raises(TransientError, match="globus-url-copy"):
        await copying
    assert not pair.left()


async def test_a_server_that_stays_silent(
    connections: list[Connection],
    victim: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gridftp_client, "STALL_S", 0.4)
    pair = Pair(connections, victim.url, tmp_path)
    copying = await under_way(pair, victim)
    with pytest.raises(TransientError, match="no progress"):
        await copying
    assert not pair.left()
    assert not clients(victim)


@pytest.mark.slow
async def test_a_server_that_takes_connections_and_never_answers(
    connections: list[Connection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gridftp_client, "STALL_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        pair = Pair(connections, f"ftp://127.0.0.1:{silent.getsockname()[1]}", tmp_path)
        with pytest.raises(TransientError, match="no progress"):
            await pair.copy()


async def test_a_file_is_not_longer_here_than_its_site_said(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server must not fill the disk of this machine: the client is stopped at that size."""

    async def understated(name: str) -> Stat:
        return Stat(1 << 20, False, False)

    with (pair.stores[0] / "endless").open("wb") as file:
        file.truncate(1 << 40)
    monkeypatch.setattr(pair.sites[0], "stat", understated)
    with pytest.raises(TransientError, match="longer than 1048576 bytes"):
        await pair.copy(ORIGIN, "g", "endless")
    assert not list(pair.base.glob("*part*"))


async def test_a_cancelled_copy_leaves_no_client_and_no_part(
    connections: list[Connection], victim: Server, tmp_path: Path
) -> None:
    pair = Pair(connections, victim.url, tmp_path)
    copying = await under_way(pair, victim)
    copying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await copying
    assert not pair.left()
    assert not clients(victim)


async def under_way(pair: Pair, server: Server) -> asyncio.Task[Path]:
    """Begin a copy, and pause its server in mid-file."""
    with (pair.stores[0] / "big").open("wb") as file:
        file.truncate(64 << 30)
    copying = asyncio.create_task(pair.copy(1, "g", "big"))
    while not (pair.left() and any(path.stat().st_size for path in pair.stores[1].iterdir())):
        assert not copying.done(), copying.exception()
        await asyncio.sleep(0.01)
    server.signal(signal.SIGSTOP)
    return copying


def clients(server: Server) -> list[str]:
    """Processes that talk to a server."""
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    mine = [line for line in found.stdout.splitlines() if f":{server.port}/" in line]
    return [line for line in mine if line.startswith("globus-url-copy")]


async def test_without_a_client_it_is_not_available(
    connections: list[Connection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    one, two = endpoints(connections, [tmp_path, tmp_path], "ftp://127.0.0.1:1")
    assert not await GridFtp().can_carry(one, two)


@pytest.mark.slow
async def test_both_ends_need_a_server_or_are_here(
    connections: list[Connection], tmp_path: Path
) -> None:
    served, other = endpoints(connections, [tmp_path, tmp_path], "ftp://127.0.0.1:1")
    other._site.spec = SiteSpec("two", 1, kind="ssh", access=Access())
    plain = RemoteEndpoint(1, other._site)
    method, here = GridFtp(), LocalEndpoint()
    assert await method.can_carry(served, here)
    assert await method.can_carry(here, served)
    assert not await method.can_carry(served, plain)
    assert not await method.can_carry(plain, here)
    assert not await method.can_carry(here, here)


async def test_it_keeps_off_capped_links(connections: list[Connection], tmp_path: Path) -> None:
    """The client has no option for a rate."""
    one, two = endpoints(connections, [tmp_path, tmp_path], "ftp://127.0.0.1:1")
    here = LocalEndpoint()
    method = GridFtp(
        BandwidthCaps(
            [
                LinkSpec(*ends, max_bandwidth_bytes_per_s=1e6)
                for ends in (("origin", "site0"), ("site0", "site1"))
            ]
        )
    )
    assert not await method.can_carry(here, one)
    assert await method.can_carry(one, here)
    assert not await method.can_carry(one, two)
    assert await method.can_carry(two, one)
