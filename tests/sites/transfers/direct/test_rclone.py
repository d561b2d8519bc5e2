"""Copies through storage by rclone: a real WebDAV server, which Debian's rclone is, and one that
sends what nobody has put there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from tests.sites.transfers.test_faults import Rig, opened
from tests.waiting import PATIENCE_S, until
from wfrun.engine.errors import TransientError
from wfrun.engine.exchange import Content
from wfrun.engine.model import LinkSpec
from wfrun.sites.node.tasks.digests import digest_of_bytes
from wfrun.sites.transfers import METHODS, rclone
from wfrun.sites.transfers.bandwidth_cap import BandwidthCaps
from wfrun.sites.transfers.endpoints.endpoint import longer
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.method import MethodFailedError
from wfrun.sites.transfers.router import TransferRouter
from wfrun.testing.sites import ODD_NAMES
from wfrun.testing.transfers import TransferConformance

if TYPE_CHECKING:
    from tests.servers.ssh import FaultySSH

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("rclone") is None, reason="needs the package rclone"),
]

_LISTING = '<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">{}</D:multistatus>'
_LISTED = (
    "<D:response><D:href>{}</D:href><D:propstat><D:prop>{}</D:prop>"
    "<D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
)


class Hostile(BaseHTTPRequestHandler):
    """Storage that takes every object, and sends ``content`` for each, over and over if it is
    ``endless``."""

    content = b""
    endless = False
    size = 0
    put = ""
    """Path of the last object."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_MKCOL(self) -> None:
        self.send_response(201)
        self.end_headers()

    def do_PROPFIND(self) -> None:
        folder = "<D:resourcetype><D:collection/></D:resourcetype>"
        length = f"<D:getcontentlength>{self.size}</D:getcontentlength>"
        listed = _LISTED.format(self.put, f"<D:resourcetype/>{length}")
        if self.path == "/":
            listed = _LISTED.format("/", folder) + listed
        body = _LISTING.format(listed).encode()
        self.send_response(207)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        type(self).put = self.path
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_MKCOL()

    def do_DELETE(self) -> None:
        self.do_MKCOL()

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(self.content)
            while self.endless:
                self.wfile.write(self.content)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[FaultySSH]]:
    from tests.servers.ssh import FaultySSH

    base = tmp_path_factory.mktemp("sites")
    made = [FaultySSH(base / name, name) for name in ("one", "two")]
    try:
        yield made
    finally:
        for server in made:
            server.close()


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the storage holds. The configuration of both sites calls it ``store``."""
    base = tmp_path_factory.mktemp("storage")
    kept, config = base / "kept", base / "rclone.conf"
    kept.mkdir()
    server = subprocess.Popen(
        ["rclone", "serve", "webdav", "--addr", "127.0.0.1:0", "--config", os.devnull, str(kept)],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    with pytest.MonkeyPatch.context() as patch, server:
        try:
            url = next(word for line in server.stderr for word in line.split() if "://" in word)
            config.write_text(f"[store]\ntype = webdav\nvendor = other\nurl = {url}\n")
            patch.setenv("RCLONE_CONFIG", str(config))
            yield kept
        finally:
            server.terminate()


@pytest.fixture
async def rig(servers: list[FaultySSH], storage: Path) -> AsyncIterator[Rig]:
    async with opened(servers, "rclone") as rig:
        for endpoint in rig.endpoints:
            use(endpoint, "store:files")
        yield rig
        for path in storage.rglob("*"):
            assert path.is_dir(), "an object is left"


def use(endpoint: RemoteEndpoint, remote: str | None) -> None:
    """Let the catalog name this remote for a site."""
    assert endpoint.spec is not None
    assert endpoint.spec.access is not None
    access = replace(endpoint.spec.access, rclone=remote)
    endpoint.spec = replace(endpoint.spec, access=access)


async def test_any_name_arrives(rig: Rig) -> None:
    odd = (name.replace("/", "_") for name in ODD_NAMES)
    names = list(dict.fromkeys(["empty", "line\nend", "-", "$(touch injected)", *odd]))
    for number, name in enumerate(names):
        path = rig.stores[0] / name
        path.write_bytes(os.urandom(number * 70_000))
        path.chmod(0o755 if number % 2 else 0o644)
        receipt = await rig.router.copy(0, name, 1, name, Content(number * 70_000))
        arrived = rig.stores[1] / name
        assert (receipt.method, receipt.fallback) == ("rclone", "")
        assert arrived.read_bytes() == path.read_bytes()
        assert arrived.stat().st_mode & 0o777 == (0o555 if number % 2 else 0o444)
    assert len(list(rig.stores[1].iterdir())) == len(names)


async def test_only_sites_with_a_remote_and_the_program(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await rig.method.can_carry(*rig.endpoints)
    assert not await rig.method.can_carry(rig.endpoints[0], rig.endpoints[0])
    use(rig.endpoints[1], None)
    assert not await rig.method.can_carry(*rig.endpoints)
    use(rig.endpoints[1], "store:files")
    monkeypatch.setenv("PATH", "/bin/nowhere")
    fresh = [RemoteEndpoint(index, site) for index, site in enumerate(rig.sites)]
    for endpoint in fresh:
        use(endpoint, "store:files")
    assert not await rig.method.can_carry(fresh[0], fresh[1])


class Suite(TransferConformance):
    """The suite of all transfers. Small files and directories go as a stream."""

    __test__ = False
    emulates_links = False

    def __init__(self, rig: Rig) -> None:
        self._rig = rig

    def make(self, stores: list[Path], links: list[LinkSpec]) -> TransferRouter:
        for site, store in zip(self._rig.sites, stores, strict=True):
            site.directory = store
        methods = {name: METHODS[name].make(BandwidthCaps()) for name in ("rclone", "stream")}
        return TransferRouter(
            self._rig.endpoints, methods, stores[0].parent / "outputs", large_only=["rclone"]
        )


async def test_the_suite_of_transfers(rig: Rig, tmp_path: Path) -> None:
    """What differs from a stream: how large files are written."""
    suite = Suite(rig)
    tests: list[Callable[[Path], Awaitable[None]]] = [
        partial(suite.test_contents_that_are_expected, size_bytes=300_000),
        suite.test_a_copy_appears_whole_or_not_at_all,
        suite.test_a_large_file_needs_little_memory,
    ]
    for number, test in enumerate(tests):
        place = tmp_path / str(number)
        place.mkdir()
        await test(place)


@pytest.mark.parametrize("to_storage", [True, False])
async def test_a_cancelled_copy_leaves_no_object(rig: Rig, storage: Path, to_storage: bool) -> None:
    """It is cancelled while the object is written or read: the rate allows it no end."""
    size_bytes = 12_000_000  # rclone begins with a burst of 4 MiB
    (rig.stores[0] / "f").write_bytes(bytes(size_bytes))
    caps = BandwidthCaps([LinkSpec("site0", "site1", max_bandwidth_bytes_per_s=3e6)])
    router = TransferRouter(rig.endpoints, {"rclone": METHODS["rclone"].make(caps)}, rig.stores[0])
    copying = asyncio.ensure_future(router.copy(0, "f", 1, "f", Content(size_bytes)))

    place = storage if to_storage else rig.stores[1]
    await until(lambda: copying.done() or any(path.is_file() for path in place.rglob("*")))
    assert not copying.done()
    if to_storage:
        (name,) = (path.name for path in storage.rglob("*") if path.is_file())
        assert re.match("wfrun-[0-9a-f]{32}", name)
    copying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await copying
    assert not list(rig.stores[1].iterdir())
    await until(lambda: not any(path.is_file() for path in storage.rglob("*")))


async def test_storage_that_cannot_be_written(rig: Rig) -> None:
    (rig.stores[0] / "f").write_bytes(b"x")
    for end, name in ((0, "site0"), (1, "site1")):
        use(rig.endpoints[end], "absent:files")
        with pytest.raises(MethodFailedError, match=f"rclone at {name}: .*config"):
            await rig.router.copy(0, "f", 1, "f")
        use(rig.endpoints[end], "store:files")
    assert not list(rig.stores[1].iterdir())


async def test_storage_that_sends_something_else(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without end, and of the right size: nothing of it gets a name. One byte too many is taken."""
    content = os.urandom(100_000)
    (rig.stores[0] / "f").write_bytes(content)
    taken: list[int] = []

    def longer_now(path: str) -> TransientError:
        taken.extend(part.stat().st_size for part in rig.stores[1].rglob("*") if part.is_file())
        return longer(path)

    monkeypatch.setattr(rclone, "longer", longer_now)
    with ThreadingHTTPServer(("127.0.0.1", 0), Hostile) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            for name, value in (
                ("TYPE", "webdav"),
                ("URL", f"http://127.0.0.1:{server.server_port}"),
                ("VENDOR", "other"),
            ):
                monkeypatch.setenv(f"RCLONE_CONFIG_HOSTILE_{name}", value)
            for endpoint in rig.endpoints:
                use(endpoint, "hostile:")
            whole = Content(len(content), digest_of_bytes(content))
            monkeypatch.setattr(Hostile, "size", len(content))
            for other, endless, words in (
                (content, True, "became longer"),
                (bytes(len(content)), False, "checksum"),
                (content[:-1], False, "bytes"),
            ):
                monkeypatch.setattr(Hostile, "content", other)
                monkeypatch.setattr(Hostile, "endless", endless)
                with pytest.raises(TransientError, match=words):
                    await asyncio.wait_for(rig.router.copy(0, "f", 1, "f", whole), PATIENCE_S)
                assert not list(rig.stores[1].iterdir())
            assert set(taken) == {len(content) + 1}
        finally:
            server.shutdown()
            serving.join(PATIENCE_S)
