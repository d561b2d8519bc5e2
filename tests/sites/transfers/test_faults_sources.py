"""Sources that are deleted, truncated or grow while they are copied, by each method: what was to be
copied arrives whole, or nothing does and one message says why."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.sites.transfers.gridftp.gridftp_server import NEEDS_SERVER, Server, endpoints
from tests.sites.transfers.test_faults import opened, servers
from tests.waiting import until
from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.model import Access, SiteSpec
from wfrun.sites.node.alone import clone
from wfrun.sites.remote.connection import connection_of
from wfrun.sites.transfers.endpoints.endpoint import at_most
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.gridftp.gridftp import GridFtp
from wfrun.sites.transfers.local import disk
from wfrun.sites.transfers.local.local_copy import LocalCopy
from wfrun.sites.transfers.method import TransferMethod
from wfrun.sites.transfers.relay import stream
from wfrun.sites.transfers.relay.stream import Stream
from wfrun.sites.transfers.router import TransferRouter

if TYPE_CHECKING:
    from tests.servers.ssh import FaultySSH

__all__ = ["servers"]

DATA = bytes(range(256)) * (24 << 12)
"""More than what is read ahead of a destination that takes nothing."""
EARLY = 1 << 20


def truncate(path: Path) -> None:
    os.truncate(path, EARLY)


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(bytes(EARLY))


CHANGES: dict[str, Callable[[Path], None]] = {
    "deleted": Path.unlink,
    "truncated": truncate,
    "grown": grow,
}


def check(store: Path, name: str, error: BaseException | None, data: bytes = DATA) -> None:
    """The whole file is there, or nothing and a message."""
    found = {path.name: path.read_bytes() for path in store.iterdir()}
    if error is None:
        assert found == {name: data}
        (store / name).unlink()
        return
    assert not found
    assert isinstance(error, (TransientError, InfeasibleError)), error
    assert name in error.message
    assert "\n" not in error.message.strip()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["stream", "relay", "rsync", "scp", "sftp"])
async def test_at_another_site(servers: list[FaultySSH], method: str) -> None:
    """While the destination stalls."""
    data = DATA if method in ("stream", "relay") else DATA[: 4 << 20]  # These read little ahead.
    async with opened(servers, method) as rig:
        for name, change in CHANGES.items():
            (rig.stores[0] / name).write_bytes(data)
            pattern = "*rsync*" if method == "rsync" else "*part*"
            rig.servers[1].faults.inject("stall", pattern, operation="write", at_byte=EARLY)
            copying = asyncio.create_task(rig.copy(name))
            await until(lambda: rig.servers[1].faults.stalled > 0)
            change(rig.stores[0] / name)
            rig.heal()
            check(rig.stores[1], name, await copying, data)


class Gate:
    """Lets a copy pause before its second piece."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, after the gate from its second call on."""
        calls: list[None] = []

        def gated(*args: Any) -> Any:
            if calls:
                self.reached.set()
                self.opened.wait()
            calls.append(None)
            return function(*args)

        return gated

    async def pieces(self, data: AsyncIterator[bytes], *args: Any) -> AsyncGenerator[bytes, None]:
        """Pass on a stream, of which a piece waits at the gate."""
        async for piece in at_most(data, *args):
            self.reached.set()
            while not self.opened.is_set():
                await asyncio.sleep(0.01)
            yield piece


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("method", [LocalCopy(), Stream()])
async def test_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: TransferMethod, change: str
) -> None:
    gate = Gate()
    monkeypatch.setattr(disk, "_CHUNK_BYTES", EARLY)
    monkeypatch.setattr(disk, "_copy_chunk", gate.before(disk._copy_chunk))
    monkeypatch.setattr(stream, "at_most", gate.pieces)
    stores = [tmp_path / "one", tmp_path / "two"]
    for store in stores:
        store.mkdir()
    (stores[0] / "f").write_bytes(DATA)
    sites = [LocalEndpoint(n, SiteSpec(f"s{n}", 1), store) for n, store in enumerate(stores)]
    router = TransferRouter(sites, {"any": method}, tmp_path)
    copying = asyncio.create_task(router.copy(0, "f", 1, "f"))
    await until(gate.reached.is_set)
    CHANGES[change](stores[0] / "f")
    gate.opened.set()
    await asyncio.wait([copying])
    check(stores[1], "f", copying.exception())


@pytest.mark.parametrize("change", CHANGES)
def test_on_a_head_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """By the program that copies within its file system."""
    gate = Gate()
    monkeypatch.setattr(clone, "CHUNK_BYTES", EARLY)
    monkeypatch.setattr(clone, "FICLONE", 0)  # Where blocks are shared nothing takes time.
    monkeypatch.setattr(clone, "copy_chunk", gate.before(clone.copy_chunk))
    source, store = tmp_path / "f", tmp_path / "store"
    source.write_bytes(DATA)
    answers: list[Any] = []
    asked = [str(source), str(store / "part"), str(store / "f"), 0o444, None]
    copying = threading.Thread(target=lambda: answers.append(clone.answer_to(asked)))
    copying.start()
    gate.reached.wait()
    CHANGES[change](source)
    gate.opened.set()
    copying.join()
    ((size_bytes, reason),) = answers
    failed: WfrunError | None = None if reason is None else TransientError(reason[1])
    assert failed is not None or size_bytes == len(DATA)
    check(store, "f", failed)


@pytest.mark.slow
@NEEDS_SERVER
@pytest.mark.parametrize("deleted", [False, True])
async def test_at_a_gridftp_server(tmp_path: Path, deleted: bool) -> None:
    """It is paused in mid-file."""
    server = Server(tmp_path / "log")
    connection = connection_of(Access(transport="local"))
    await connection.open(lambda reason: None)
    stores = [tmp_path / "one", tmp_path / "two"]
    for store in stores:
        store.mkdir()
    with (stores[0] / "f").open("wb") as file:
        file.truncate(64 << 30)
        sites = endpoints([connection, connection], stores, server.url)
        router = TransferRouter(sites, {"gridftp": GridFtp()}, tmp_path)
        try:
            copying = asyncio.create_task(router.copy(0, "f", 1, "f"))
            await until(lambda: any(path.stat().st_size for path in stores[1].iterdir()))
            server.signal(signal.SIGSTOP)
            if deleted:
                (stores[0] / "f").unlink()
            file.truncate(EARLY)
            server.signal(signal.SIGCONT)
            await asyncio.wait([copying])
            check(stores[1], "f", copying.exception() or AssertionError("it was truncated"))
        finally:
            server.stop()
            await connection.close()
