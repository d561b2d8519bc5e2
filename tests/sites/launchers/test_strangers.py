"""Real launchers connect while strangers hold and fill as many connections as they get."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sites.launchers.channel_rig import Rig
from tests.sites.remote.conftest import Cluster
from wfrun.sites.launchers.channels import channels
from wfrun.sites.launchers.channels.channels import MAX_STRANGERS
from wfrun.sites.launchers.channels.limited_log import INTERVAL_S, MAX_WARNINGS, LimitedWarnings
from wfrun.sites.launchers.channels.signed_link import SignedLink
from wfrun.sites.remote.agent import UNADMITTED_BYTES

STRANGERS = 640
"""More than the agent has places for."""
PAUSE_S = 1.0
"""Time after which a stranger calls again that was hung up on."""


@pytest.fixture(params=["tcp", pytest.param("asyncssh", marks=pytest.mark.slow)])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    sockets = Path(tempfile.mkdtemp(prefix="wf"))
    made: list[Cluster] = []

    def cluster() -> Cluster:
        made[:] = made or [Cluster(tmp_path / "cluster", sockets)]
        return made[0]

    rig = Rig(request.param, tmp_path / "run", cluster)
    rig.links = rig.new_links(handshake_s=600.0)  # no place becomes free in time by itself
    await rig.open()
    yield rig
    await rig.close()
    for each in made:
        each.sshd.stop()
    shutil.rmtree(sockets)


class Flood:
    """Strangers that call again whenever they are hung up on. Most say that they are a launcher
    that is expected, and stay; some are silent, some send more than anybody asks for."""

    def __init__(self, rig: Rig) -> None:
        self._address = rig.address()[rig.kind][0]
        self._nonce = 0
        self.calls = 0
        self._tasks = [asyncio.create_task(self._call(number % 8)) for number in range(STRANGERS)]

    def _hello(self) -> bytes:
        self._nonce += 1
        said = {"wfrun": 2, "launcher": "one", "node": 0, "session": 1, "proof": "0" * 64}
        return json.dumps({**said, "nonce": f"{self._nonce:032}"}).encode() + b"\n"

    async def _call(self, kind: int) -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(*self._address)
                try:
                    if kind != 0:
                        writer.write(self._hello())
                    if kind == 1:
                        writer.write(bytes(100_000))
                    self.calls += 1
                    while await reader.read(1 << 16):
                        pass
                finally:
                    writer.close()
            await asyncio.sleep(PAUSE_S)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.mark.slow
async def test_strangers_keep_no_launcher_out(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    taken: dict[SignedLink, int] = {}
    received = SignedLink.received

    def count(link: SignedLink, data: bytes) -> None:
        if link.is_stranger:
            taken[link] = taken.get(link, 0) + len(data)
        received(link, data)

    monkeypatch.setattr(SignedLink, "received", count)
    caplog.set_level(logging.WARNING)
    began_s = time.monotonic()
    flood = Flood(rig)
    try:
        while flood.calls < 2 * STRANGERS:  # each has called, and many again
            await asyncio.sleep(0.05)
        for node in (0, 1):
            rig.start("one", node)
        rig.start("two")
        await rig.handler.until(lambda: len(rig.handler.links) >= 3)
        calls = flood.calls
        while flood.calls < calls + STRANGERS // 2:
            await asyncio.sleep(0.05)
        # Those that are in stay in.
        assert rig.handler.reasons == []
        assert len(rig.handler.links) == 3
    finally:
        await flood.end()
    assert max(taken.values()) <= UNADMITTED_BYTES
    intervals = 1 + (time.monotonic() - began_s) // INTERVAL_S
    assert 0 < caplog.text.count("was refused") <= MAX_WARNINGS * intervals


@pytest.mark.parametrize(("burst_s", "most"), [(0.0, MAX_STRANGERS), (1e9, 4 * MAX_STRANGERS)])
async def test_the_number_of_callers_is_limited(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, burst_s: float, most: int
) -> None:
    """More may wait only while all are young. The oldest go."""
    if rig.kind != "tcp":
        pytest.skip("the same at each port")
    monkeypatch.setattr(channels, "BURST_S", burst_s)
    address = rig.address()["tcp"][0]
    streams = []
    for _ in range(most + 10):
        streams.append(await asyncio.open_connection(*address))
        await asyncio.sleep(0.005)  # in this order
    for reader, _ in streams[:10]:
        assert await asyncio.wait_for(reader.read(), 100) == b""
    ended = await asyncio.wait([asyncio.ensure_future(streams[10][0].read())], timeout=1.0)
    assert not ended[0]
    for _, writer in streams:
        writer.close()


def test_few_warnings_are_written_and_the_others_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_s = 0.0
    log = LimitedWarnings("here", lambda: now_s)
    for number in range(1000):
        log.warn(f"refused {number}")
    assert [record.getMessage() for record in caplog.records] == [
        f"site here: refused {number}" for number in range(MAX_WARNINGS)
    ]
    now_s += INTERVAL_S
    log.warn("once more")
    omitted = 1000 - MAX_WARNINGS
    assert caplog.records[-1].getMessage() == (
        f"site here: once more (and {omitted} more warnings like this before it)"
    )
    log.warn("and again")
    assert caplog.records[-1].getMessage() == "site here: and again"
