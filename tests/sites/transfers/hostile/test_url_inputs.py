"""Inputs by URL, from real servers on loopback: whole, once, and from allowed hosts alone."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import os
import re
import signal
import socket
import subprocess
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from tests.servers.web import BREAK_BYTES, DATA, Web
from tests.sites.remote.servers import Sshd, config_of, new_key
from tests.sites.transfers.gridftp.gridftp_server import NEEDS_SERVER, Server
from tests.waiting import PATIENCE_S
from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.engine.exchange import Content
from wfrun.engine.model import ORIGIN, SiteSpec
from wfrun.parsers.file_urls import FETCHED, remote_url, shown_url, url_fault
from wfrun.sites.remote.transports.local_transport import LocalProcess
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.gridftp import gridftp_client
from wfrun.sites.transfers.local.local_copy import LocalCopy
from wfrun.sites.transfers.router import TransferRouter
from wfrun.sites.transfers.urls import SCHEMES, gridftp_source, http_source
from wfrun.sites.transfers.urls.source import check_allowed
from wfrun.sites.transfers.urls.url_inputs import UrlInputs

HERE = frozenset({"127.0.0.1"})


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web()
    yield server
    server.end()


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate that signs itself, with its key."""
    path = tmp_path / "server.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
         "subjectAltName=IP:127.0.0.1", "-keyout", path, "-out", tmp_path / "ca.pem"],
        check=True, capture_output=True, timeout=PATIENCE_S,
    )  # fmt: skip
    path.write_text(path.read_text() + (tmp_path / "ca.pem").read_text())
    return path


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def inputs(
    tmp_path: Path,
    hosts: frozenset[str] = HERE,
    further: Mapping[str, Sequence[str]] | None = None,
) -> UrlInputs:
    store = tmp_path / "store"
    store.mkdir(exist_ok=True)
    site = LocalEndpoint(0, SiteSpec("site", slots=1), store)
    router = TransferRouter([site], {"copy": LocalCopy()}, tmp_path / "outputs")
    return UrlInputs(router, tmp_path / "inputs", hosts, further)


@pytest.fixture
async def urls(tmp_path: Path) -> AsyncIterator[UrlInputs]:
    made = inputs(tmp_path)
    yield made
    made.close()


def left(tmp_path: Path) -> list[str]:
    folders = (tmp_path / "store", tmp_path / "inputs")
    return [path.name for folder in folders if folder.exists() for path in folder.iterdir()]


async def test_a_file_is_fetched_once_for_all_copies(
    urls: UrlInputs, web: Web, tmp_path: Path
) -> None:
    url = f"{web.url}/data"
    await asyncio.gather(*(urls.copy(ORIGIN, url, 0, f"f{number}") for number in range(4)))
    assert web.asked == ["/data"]
    (fetched,) = (tmp_path / "inputs").iterdir()
    assert re.fullmatch("[0-9a-f]{32}", fetched.name)  # nothing of the URL
    assert {path.read_bytes() for path in (tmp_path / "store").iterdir()} == {DATA}
    again = inputs(tmp_path)  # as after a resume
    await again.copy(ORIGIN, url, 0, "g")
    again.close()
    assert web.asked == ["/data"]


@pytest.mark.parametrize(
    ("path", "error", "words"),
    [
        ("absent", InfeasibleError, "answered 404 Not Found"),
        ("busy", TransientError, "answered 503"),
        ("short", TransientError, "of 2097152 bytes came"),
    ],
)
async def test_a_failure_leaves_nothing(
    urls: UrlInputs, web: Web, tmp_path: Path, path: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        await urls.copy(ORIGIN, f"{web.url}/{path}", 0, "f")
    assert "part" not in str(caught.value)
    assert left(tmp_path) == []


async def test_a_download_goes_on_where_it_broke_off(
    urls: UrlInputs, web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_source, "RESUME_DELAY_S", 0.0)
    await urls.copy(ORIGIN, f"{web.url}/breaks", 0, "f")
    assert (tmp_path / "store" / "f").read_bytes() == DATA
    assert web.ranges[0] == (None, None)
    assert web.ranges[1] == (f"bytes={BREAK_BYTES}-", '"1"')
    assert len(web.ranges) == -(-len(DATA) // BREAK_BYTES)


@pytest.mark.parametrize(
    ("path", "requests", "words"),
    [
        ("breaks-changes", 2, "has another file there"),
        ("breaks-ignores", 2, "has another file there"),
        ("breaks-lies", 2, "has another file there"),
        ("breaks-weak", 1, f"{BREAK_BYTES} of {len(DATA)} bytes came"),
        ("breaks-always", 1 + http_source.MAX_RESUMES, f"{BREAK_BYTES} of {len(DATA)} bytes came"),
    ],
)
async def test_parts_of_different_files_are_never_joined(
    urls: UrlInputs, web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    path: str, requests: int, words: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(http_source, "RESUME_DELAY_S", 0.0)
    with pytest.raises(TransientError, match=words):
        await urls.copy(ORIGIN, f"{web.url}/{path}", 0, "f")
    assert len(web.ranges) == requests
    assert left(tmp_path) == []


@pytest.mark.parametrize("length", ["²", "9" * 5000, "-1", "1_0", "many", ""])
async def test_a_length_that_is_no_number(
    urls: UrlInputs, web: Web, tmp_path: Path, length: str
) -> None:
    with pytest.raises(InfeasibleError, match="Content-Length is no number"):
        await urls.copy(ORIGIN, f"{web.url}/says{quote(length, encoding='latin-1')}", 0, "f")
    assert left(tmp_path) == []


async def test_a_source_that_fails_is_left_for_the_next_one(web: Web, tmp_path: Path) -> None:
    dead = f"http://localhost:{closed_port()}"
    first, second = f"{dead}/data?signature=hidden", f"{dead}/other"
    urls = inputs(
        tmp_path,
        HERE | {"localhost"},
        {first: (f"{web.url}/absent", f"{web.url}/data"), second: (f"{web.url}/other",)},
    )
    try:
        receipt = await urls.copy(ORIGIN, first, 0, "f")
        again = await urls.copy(ORIGIN, second, 0, "g")
    finally:
        urls.close()
    assert web.asked == ["/absent", "/data", "/other"]
    assert f"inputs at {dead} come from other places such as {web.url}/data" in receipt.fallback
    assert "refused" in receipt.fallback
    assert "hidden" not in receipt.fallback
    assert again.fallback == ""
    assert (tmp_path / "store" / "f").read_bytes() == DATA


async def test_all_sources_that_fail_are_named(web: Web, tmp_path: Path) -> None:
    url = f"{web.url}/absent"
    urls = inputs(tmp_path, HERE, {url: (f"{web.url}/busy",)})
    try:
        with pytest.raises(TransientError, match=r"absent .*answered 404.*busy .*answered 503"):
            await urls.copy(ORIGIN, url, 0, "f")
    finally:
        urls.close()


async def test_a_file_with_another_checksum_than_stated_is_refused(
    urls: UrlInputs, web: Web, tmp_path: Path
) -> None:
    stated, found = "0" * 64, hashlib.sha256(DATA).hexdigest()
    with pytest.raises(InfeasibleError, match=f"checksum is {found}, and .* says {stated}"):
        await urls.copy(ORIGIN, f"{web.url}/data", 0, "f", Content(None, stated, is_stated=True))
    assert left(tmp_path) == []
    await urls.copy(ORIGIN, f"{web.url}/data", 0, "f", Content(None, found, is_stated=True))
    assert left(tmp_path)[0] == "f"


async def test_a_silent_server_is_given_up(
    urls: UrlInputs, web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_source, "SILENCE_S", 0.3)
    with pytest.raises(TransientError, match="timed out"):
        await urls.copy(ORIGIN, f"{web.url}/silent", 0, "f")
    assert left(tmp_path) == []


async def test_a_cancelled_run_does_not_wait_for_a_server(
    urls: UrlInputs, web: Web, tmp_path: Path
) -> None:
    copying = asyncio.create_task(urls.copy(ORIGIN, f"{web.url}/silent", 0, "f"))
    while not left(tmp_path):
        await asyncio.sleep(0.01)
    urls.close()
    with pytest.raises(asyncio.CancelledError):
        await copying
    assert left(tmp_path) == []


async def test_redirects_stay_at_allowed_hosts(urls: UrlInputs, web: Web, tmp_path: Path) -> None:
    web.redirects = {
        "/moved": "/data",
        "/other": f"http://localhost:{web.server_port}/data",
        "/file": "file:///etc/passwd",
        "/circle": "/circle",
    }
    await urls.copy(ORIGIN, f"{web.url}/moved", 0, "f")
    assert (tmp_path / "store" / "f").read_bytes() == DATA
    for path, words in (
        ("other", "localhost, which may not be asked"),
        ("file", "is not allowed"),
        ("circle", "infinite loop"),
    ):
        with pytest.raises(InfeasibleError, match=words):
            await urls.copy(ORIGIN, f"{web.url}/{path}", 0, path)
    with pytest.raises(InfeasibleError, match="may not be asked"):
        await urls.copy(ORIGIN, f"http://localhost:{web.server_port}/data", 0, "g")
    assert web.asked.count("/data") == 1


async def test_certificates_are_verified(
    urls: UrlInputs, certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = Web(certificate)
    try:
        with pytest.raises(InfeasibleError, match="self-signed certificate"):
            await urls.copy(ORIGIN, f"{web.url}/data", 0, "f")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        web.redirects = {"/plain": web.url.replace("https", "http") + "/data"}
        await urls.copy(ORIGIN, f"{web.url}/data", 0, "f")
        with pytest.raises(InfeasibleError, match="without encryption"):
            await urls.copy(ORIGIN, f"{web.url}/plain", 0, "g")
    finally:
        web.end()
    assert (tmp_path / "store" / "f").read_bytes() == DATA


async def test_sftp_with_the_configuration_of_ssh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = new_key(tmp_path / "key")
    sshd = Sshd(tmp_path / "sshd", key)
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    known = home / ".ssh" / "known_hosts"
    known.write_text(f"[127.0.0.1]:{sshd.port} {public_of(sshd)}\n")
    config_of(home / ".ssh" / "config", sshd.port, key, known, name="archive")
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "a file").write_bytes(DATA)
    urls = inputs(tmp_path, frozenset({"archive"}))
    try:
        await urls.copy(ORIGIN, f"sftp://archive{tmp_path}/a%20file", 0, "f")
        with pytest.raises(InfeasibleError, match=r"(?i)no such file"):
            await urls.copy(ORIGIN, f"sftp://archive{tmp_path}/absent", 0, "g")
    finally:
        urls.close()
        sshd.stop()
    assert (tmp_path / "store" / "f").read_bytes() == DATA
    assert os.listdir(tmp_path / "store") == ["f"]


@NEEDS_SERVER
async def test_gridftp_by_its_client(tmp_path: Path) -> None:
    server = Server(tmp_path / "log")
    (tmp_path / "a file").write_bytes(DATA)
    (tmp_path / "endless").symlink_to("/dev/zero")
    urls = inputs(tmp_path, HERE)
    try:
        await urls.copy(ORIGIN, f"{server.url}{tmp_path}/a%20file", 0, "f")
        for path, error, words in (
            ("absent", InfeasibleError, "No such file"),
            ("a%0d%0aDELE%20a", InfeasibleError, "printable ASCII"),
        ):
            with pytest.raises(error, match=words):
                await urls.copy(ORIGIN, f"{server.url}{tmp_path}/{path}", 0, "g")
        with pytest.raises(InfeasibleError, match="may not be asked"):
            await urls.copy(ORIGIN, f"ftp://localhost:{server.port}{tmp_path}/a%20file", 0, "g")
        copying = asyncio.create_task(urls.copy(ORIGIN, f"{server.url}{tmp_path}/endless", 0, "g"))
        while not any(name.startswith(".wfrun-part") for name in left(tmp_path)):
            await asyncio.sleep(0.01)
        server.signal(signal.SIGKILL)
        with pytest.raises(TransientError, match="cannot be fetched by globus-url-copy"):
            await copying
        with pytest.raises(TransientError, match="Unable to connect"):
            await urls.copy(ORIGIN, f"{server.url}{tmp_path}/a%20file?", 0, "g")
    finally:
        urls.close()
        server.stop()
    assert (tmp_path / "store" / "f").read_bytes() == DATA
    assert os.listdir(tmp_path / "store") == ["f"]


BYPASSES = (
    "archive?@127.0.0.3:2198", "archive#@127.0.0.3", "archive\\@127.0.0.3", "archive%2f@127.0.0.3",
    "127.0.0.3@archive", "archive:80@127.0.0.3", "archive;127.0.0.3", "archive,127.0.0.3",
    "archive:21:22", "archive:", "archive:0", "archive:65536", "archive:²",
    "arch\u0131ve", "[archive]",
    "[::1", "[::1%25lo]", "archive&127.0.0.3", "127.0.0.3?archive", "archive|127.0.0.3", "-archive",
    "archive?127.0.0.3", "archive'", "(archive)", "$archive", "*",
)  # fmt: skip
"""Authorities in which one client finds another host than the next one."""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URLs that ``globus-url-copy`` is given, which is replaced."""
    found: list[str] = []

    async def start(argv: Sequence[str]) -> LocalProcess:
        found.append(argv[0])
        return await local_start(["true"])

    local_start = gridftp_client.start_client
    monkeypatch.setattr(gridftp_client, "PROGRAM", "true")
    monkeypatch.setattr(gridftp_source, "PROGRAM", "true")
    monkeypatch.setattr(gridftp_source, "start_client", start)
    return found


@pytest.mark.parametrize("scheme", FETCHED)
@pytest.mark.parametrize("authority", BYPASSES)
async def test_a_url_has_one_host(
    urls: UrlInputs, asked: list[str], scheme: str, authority: str
) -> None:
    """For check and client alike; where they could differ, nobody is asked."""
    url = f"{scheme}://{authority}/x"
    hosts = frozenset({"archive", "[archive]", "127.0.0.3", "::1", "*", "-archive", "archive:"})
    assert url_fault(url) is not None or scheme == "sftp"
    with pytest.raises((InfeasibleError, TransientError)):
        async with SCHEMES[scheme](url, hosts if url_fault(url) else frozenset()):
            raise AssertionError
    assert not asked


@pytest.mark.parametrize(
    "url",
    ["ftp://Archive/x", "gsiftp://archive:2811/x%20y?z@b", "ftp://[::1]:2811//x",
     "http://archive/?@127.0.0.3/", "https://ARCHIVE.example.org:8443/a/b?c=/d@e#f",
     "http://[::1]/", "sftp://me@archive/x", "sftp://archive:22/x?y"],
)  # fmt: skip
async def test_all_find_the_same_host(asked: list[str], url: str) -> None:
    """The check, what is shown, and what each client makes of the URL that it is given."""
    found = remote_url(url)
    assert check_allowed(url, frozenset({found.host})) == found
    assert urlsplit(url).hostname == found.host
    assert urlsplit(url).port == found.port
    shown = shown_url(url)
    assert urlsplit(shown).hostname == found.host
    if found.scheme in ("ftp", "gsiftp"):
        async with SCHEMES[found.scheme](url, frozenset({found.host})) as content:
            assert [piece async for piece in content] == []
        assert urlsplit(asked[0]).netloc.lower() == urlsplit(url).netloc.lower()
        assert not {"@", "?", "#"} & set(asked[0])
    if found.scheme in ("http", "https"):
        request = urllib.request.Request(found.text())
        assert request.host.lower() == urlsplit(url).netloc.lower()
        connection = http.client.HTTPConnection(request.host)
        assert connection.host.lower() == found.host


def test_all_schemes_are_known_to_parsers() -> None:
    assert tuple(SCHEMES) == FETCHED


def public_of(sshd: Sshd) -> str:
    return sshd.host_key.with_suffix(".pub").read_text().strip()
