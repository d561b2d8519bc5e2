"""Copies from a site whose programs send what they like: to this machine, and to another site."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sites.transfers.hostile.test_clean_tree import HOSTILE, archive, entry, folder, link
from tests.sites.transfers.test_conformance import Store
from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.engine.model import ORIGIN, Access
from wfrun.sites.remote.connection import connection_of
from wfrun.sites.transfers.endpoints.endpoint import Endpoint
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.relay import stall
from wfrun.sites.transfers.relay.stream import Stream
from wfrun.sites.transfers.router import TransferRouter

pytestmark = pytest.mark.slow
TAR = """#!/bin/sh
case $* in *-cf*) exec cat "$HOSTILE/archive" ;; esac
PATH=/usr/bin:/bin exec tar "$@"
"""
CAT = """#!/bin/sh
case $(readlink /proc/self/fd/0) in "$HOSTILE"/site0/*) exec yes ;; esac
PATH=/usr/bin:/bin exec cat "$@"
"""


@pytest.fixture
async def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TransferRouter]:
    """A hostile site (0), and an honest one (1)."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("tar", TAR), ("cat", CAT)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("HOSTILE", str(tmp_path))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    endpoints: list[Endpoint] = []
    connections = []
    for index in range(2):
        store = tmp_path / f"site{index}" / "run" / "files"
        store.mkdir(parents=True)
        connections.append(connection_of(Access(transport="local")))
        await connections[-1].open(lambda reason: None)
        endpoints.append(RemoteEndpoint(index, Store(index, connections[-1], store)))
    yield TransferRouter(endpoints, {"stream": Stream()}, tmp_path / "run" / "outputs")
    for connection in connections:
        await connection.close()


def places(tmp_path: Path) -> dict[int, str]:
    return {ORIGIN: str(tmp_path / "run" / "outputs" / "d"), 1: "d"}


def tree_below(tmp_path: Path) -> list[str]:
    """All that exists, beside what the test has made."""
    found = (
        str(path.relative_to(tmp_path))
        for name in ("run", "site1")
        for path in (tmp_path / name).rglob("*")
    )
    return sorted(path for path in found if path not in ("run/outputs", "site1/run"))


@pytest.mark.parametrize("what", ["link to a file", "through a link", "parent", "device"])
@pytest.mark.parametrize("destination", [ORIGIN, 1])
async def test_a_hostile_directory_leaves_nothing(
    sites: TransferRouter, tmp_path: Path, what: str, destination: int
) -> None:
    (tmp_path / "site0/run/files/d").mkdir()
    (tmp_path / "archive").write_bytes(archive([folder("a"), entry("f"), *HOSTILE[what]]))
    with pytest.raises(InfeasibleError, match=r"/d cannot be copied: the directory contains"):
        await sites.copy(0, "d", destination, places(tmp_path)[destination])
    assert tree_below(tmp_path) == ["site1/run/files"]


@pytest.mark.parametrize("destination", [ORIGIN, 1])
async def test_an_honest_directory_arrives(
    sites: TransferRouter, tmp_path: Path, destination: int
) -> None:
    (tmp_path / "site0/run/files/d").mkdir()
    (tmp_path / "archive").write_bytes(archive([entry("a/f", size=5), link("a/l", "f")]))
    receipt = await sites.copy(0, "d", destination, places(tmp_path)[destination])
    assert receipt.size_bytes == 5
    arrived = tmp_path / ("run/outputs" if destination == ORIGIN else "site1/run/files") / "d"
    assert (arrived / "a/l").read_bytes() == b"xxxxx"


async def test_a_site_that_stops_sending_is_given_up(
    sites: TransferRouter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not hold the slots of the other end."""
    monkeypatch.setattr(stall, "STALL_S", 0.2)
    (tmp_path / "site0/run/files/d").mkdir()
    os.mkfifo(tmp_path / "archive")
    with pytest.raises(TransientError, match=r"nothing came for 0\.2 s"):
        await sites.copy(0, "d", ORIGIN, places(tmp_path)[ORIGIN])
    assert tree_below(tmp_path) == ["site1/run/files"]


@pytest.mark.parametrize("destination", [ORIGIN, 1])
async def test_a_file_without_end_is_stopped(
    sites: TransferRouter, tmp_path: Path, destination: int
) -> None:
    """The site said 2 MB, which is more than a message holds, and sends without end."""
    (tmp_path / "site0/run/files/f").write_bytes(bytes(2_000_000))
    with pytest.raises(TransientError, match="longer"):
        await sites.copy(0, "f", destination, places(tmp_path)[destination])
    assert tree_below(tmp_path) == ["site1/run/files"]
