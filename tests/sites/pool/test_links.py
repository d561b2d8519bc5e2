"""The same for every channel: a launcher reaches its engine, and nobody else does."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.sites.pool.channel_rig import Rig, ask
from tests.sites.remote.conftest import Cluster

WAYS = ("tcp", "asyncssh", "openssh", "spool")


@pytest.fixture(scope="module")
def made() -> Iterator[list[Cluster]]:
    clusters: list[Cluster] = []
    yield clusters
    for cluster in clusters:
        cluster.sshd.stop()


@pytest.fixture(params=WAYS)
async def rig(
    request: pytest.FixtureRequest,
    made: list[Cluster],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Rig]:
    sockets = Path(tempfile.mkdtemp(prefix="wf"))

    def cluster() -> Cluster:
        if not made:
            made.append(Cluster(tmp_path_factory.mktemp("cluster"), sockets))
        return made[0]

    rig = Rig(request.param, tmp_path / "run", cluster)
    await rig.open()
    yield rig
    await rig.close()


async def test_lines_go_both_ways_in_order(rig: Rig) -> None:
    rig.start()
    link = await rig.taker.hello(0)
    assert link.channel == rig.kind
    for number in range(1000):
        ask(link, n=number)
    await rig.taker.until(lambda: len(rig.taker.said[0]) == 1001)
    assert [line["n"] for line in rig.taker.said[0][1:]] == list(range(1000))
    assert 0 < link.latency_s < 5


async def test_20_megabytes_both_ways(rig: Rig) -> None:
    rig.start()
    link = await rig.taker.hello(0)
    text = "y" * 10_000
    began_s = time.monotonic()
    for number in range(1000):
        ask(link, n=number, text=text)
    ask(link, say=[1000, 10_000])
    for number in range(1000):
        ask(link, n=number, text=text)
        if number % 100 == 0:
            await link.drained()
    await rig.taker.until(lambda: len(rig.taker.said[0]) == 3001)
    print("40 MB in %.2f s" % (time.monotonic() - began_s), rig.way)
    assert all(len(line["text"]) == 10_000 for line in rig.taker.said[0][1:])


async def test_reconnects_after_the_agent_is_killed(rig: Rig) -> None:
    rig.start()
    await rig.taker.hello(0)
    os.kill(await rig.agent_pid(), signal.SIGKILL)
    while rig.told[-1] is None:
        await asyncio.sleep(0.01)
    await rig.links.open(rig.taker)
    link = await rig.taker.hello(1)
    ask(link, n=1)
    await rig.taker.until(lambda: rig.taker.said[1][-1] == {"n": 1})
    assert len(rig.taker.reasons) == 1
