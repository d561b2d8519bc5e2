"""Commands beside file data that waits to be sent over the same connection."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.network.network import Network
from tests.sites.remote.conftest import Cluster
from tests.waiting import until
from wfrun.engine.errors import TransientError
from wfrun.sites.remote.transports.asyncssh_transport import AsyncsshTransport

PIECE = bytes(1 << 18)
RATE = 400_000
"""Bytes per second of the link."""
AHEAD_BYTES = 1_500_000
"""Maximum number of bytes that go before the answer to a command. The window of a channel, which
would go before it otherwise, is 2 MiB. What goes during the command itself counts too."""


@pytest.mark.slow
async def test_a_command_does_not_wait_for_a_window_of_file_data(network: Network) -> None:
    transport = AsyncsshTransport("one", config=network.ssh_config)
    await transport.connect()
    taken = 0

    async def content() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield PIECE

    try:
        await transport.sftp()
        network.shape("submit", "one", rate=RATE)
        writing = asyncio.create_task(transport.write_file("big", content(), 0o600))
        await until(lambda: taken > 3 and network.carried("submit", "one") > len(PIECE))
        ahead = []
        for _ in range(3):
            before = network.carried("submit", "one")
            process = await transport.start("true")
            assert await process.wait() == 0
            ahead.append(network.carried("submit", "one") - before)
        assert not writing.done()
        assert min(ahead) < AHEAD_BYTES, ahead
    finally:
        writing.cancel()
        network.shape("submit", "one")
        await transport.close()


async def test_a_connection_that_is_lost_while_data_waits_ends_the_copy(
    cluster: Cluster, tmp_path: Path
) -> None:
    transport = AsyncsshTransport(cluster.host, config=cluster.config)
    await transport.connect()
    taken = 0

    async def content() -> AsyncIterator[bytes]:
        nonlocal taken
        yield PIECE
        for pid in cluster.sshd.processes():
            os.kill(pid, signal.SIGSTOP)
        for _ in range(100):
            taken += 1
            yield PIECE

    writing = asyncio.create_task(transport.write_file(str(tmp_path / "new"), content(), 0o600))
    before = -1
    while taken != before or not taken:  # until no more is taken
        before = taken
        await asyncio.sleep(0.3)
    assert taken < 100
    for pid in cluster.sshd.processes():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(TransientError):
        await asyncio.wait_for(writing, 60)
    await transport.close()
