"""What ``wfrun sites check`` says of a site's GridFTP server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sites.transfers.gridftp.gridftp_server import NEEDS_SERVER, Server
from wfrun.engine.model import GridFtpServer
from wfrun.runners.admin.checks import check_gridftp
from wfrun.runners.admin.lines import Finding, SiteFindings

pytestmark = NEEDS_SERVER


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    started = Server(tmp_path / "log")
    yield started
    started.stop()


async def found(server: GridFtpServer, directory: Path) -> Finding:
    findings: list[Finding] = []
    report = SiteFindings("alpha", findings.append)
    await check_gridftp.check_gridftp(server, str(directory), report)
    (finding,) = findings
    return finding


async def test_a_server_that_works(server: Server, tmp_path: Path) -> None:
    finding = await found(GridFtpServer(server.url), tmp_path)
    assert finding.state == "ok"
    assert finding.text.startswith(f"{server.url} by globus-url-copy ")


async def test_a_server_that_shows_other_files(server: Server, tmp_path: Path) -> None:
    finding = await found(GridFtpServer(server.url), tmp_path / "none")
    assert (finding.state, "No such file" in finding.text) == ("note", True)
    finding = await found(GridFtpServer(server.url, root="/data"), tmp_path)
    assert (finding.state, "not below 'root'" in finding.text) == ("note", True)


async def test_a_server_that_is_silent(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_gridftp, "ANSWERS_S", 0.1)
    server.signal(19)  # SIGSTOP
    finding = await found(GridFtpServer(server.url), tmp_path)
    assert (finding.state, "did not answer" in finding.text) == ("note", True)


async def test_without_a_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    finding = await found(GridFtpServer("ftp://127.0.0.1:1"), tmp_path)
    assert (finding.state, "not found" in finding.text) == ("note", True)
