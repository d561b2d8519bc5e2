"""Spool files at the engine's end: reported in order, by a real agent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import cast

import pytest

from tests.waiting import until
from wfrun.sites.launchers.channels.spool import SpoolListener
from wfrun.sites.remote.agent_client import AgentHost
from wfrun.sites.remote.host import Host
from wfrun.sites.remote.incoming import ConnectionHandler
from wfrun.sites.remote.transports.local_transport import LocalTransport


@pytest.fixture
async def host() -> AsyncIterator[AgentHost]:
    transport = LocalTransport()
    host = AgentHost(transport)
    await host.start()
    yield host
    await host.close()
    await transport.close()


async def test_files_are_reported_in_order_however_they_appear(
    host: AgentHost, tmp_path: Path
) -> None:
    files: list[tuple[str, bytes]] = []
    (tmp_path / "a.0.7.1.3").write_bytes(b"three")
    (tmp_path / "b.c.0.7.1.1").write_bytes(b"another")
    await host.spool(str(tmp_path), 7, lambda name, data: files.append((name, data)))
    await until(lambda: bool(files))
    assert files == [("b.c.0.7.1", b"another")]
    (tmp_path / "a.0.7.1.2").write_bytes(b"two")
    (tmp_path / ".a.0.7.1.1").write_bytes(b"half")
    (tmp_path / "b.c.0.7.1.2").write_bytes(b"")
    await until(lambda: len(files) == 2)
    assert files[1] == ("b.c.0.7.1", b"")
    (tmp_path / ".a.0.7.1.1").write_bytes(b"one")
    (tmp_path / ".a.0.7.1.1").rename(tmp_path / "a.0.7.1.1")
    await until(lambda: len(files) == 5)
    assert files[2:] == [("a.0.7.1", each) for each in (b"one", b"two", b"three")]
    await until(lambda: not list(tmp_path.iterdir()))


async def test_older_sessions_and_connections_are_removed(host: AgentHost, tmp_path: Path) -> None:
    files: list[tuple[str, bytes]] = []
    for name in ("a.0.6.9.1", ".a.0.6.9.2", "a.0.8.1.1", "a.0.7.1.2", "a.0.7.2.1", "note", "x.y"):
        (tmp_path / name).write_bytes(name.encode())
    listener = await host.spool(str(tmp_path), 7, lambda *both: files.append(both))
    # Removed by the agent perhaps before what it has files of them is read here.
    await until(lambda: bool(files) and len(list(tmp_path.iterdir())) == 3)
    assert files == [("a.0.7.2", b"a.0.7.2.1")]
    assert {path.name for path in tmp_path.iterdir()} == {"a.0.8.1.1", "note", "x.y"}
    await listener.close()
    await host.spool(str(tmp_path), 8, lambda *both: files.append(both))
    await until(lambda: len(files) == 2)
    assert files[1] == ("a.0.8.1", b"a.0.8.1.1")


class _Files:
    """Implements the part of ``Host`` that reports spool files."""

    def __init__(self) -> None:
        self.report: Callable[[str, bytes], None] = lambda name, data: None

    async def spool(
        self, directory: str, session: int, on_file: Callable[[str, bytes], None]
    ) -> None:
        self.report = on_file


@pytest.mark.parametrize(
    "name",
    ["", "x", "a.1", "../../x.0.7.1", "a/b.0.7.1", "a.0.7.²", f"a.0.7.{'9' * 5000}", "a\n.0.7.1"],
)
async def test_names_that_no_launcher_writes_are_ignored(name: str) -> None:
    host, accepted = _Files(), 0

    def accept(connection: object) -> ConnectionHandler:
        nonlocal accepted
        accepted += 1
        raise AssertionError(name)

    listener = SpoolListener(cast(Host, host), "/run", 7, accept)
    await listener.open()
    host.report(name, b"x")
    assert accepted == 0
