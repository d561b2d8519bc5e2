"""Faults of servers during copies by SFTP through this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from tests.sites.transfers.test_faults import (
    LARGE,
    MIDDLE,
    WHOLE,
    Injection,
    Rig,
    opened,
    servers,
)

if TYPE_CHECKING:
    from tests.servers.ssh import FaultySSH

__all__ = ["servers"]

pytestmark = pytest.mark.slow


@pytest.fixture
async def rig(servers: list[FaultySSH]) -> AsyncIterator[Rig]:
    async with opened(servers, "relay") as rig:
        yield rig


@pytest.mark.parametrize("server", [0, 1])
async def test_refused_channels(rig: Rig, server: int) -> None:
    (rig.stores[0] / "f").write_bytes(LARGE)
    rig.inject(server, ("no-channel", 0, None, 0, None))
    await rig.fails("f", "cannot be (read|written): .* cannot start a command now")
    rig.heal()
    await rig.succeeds("f")


async def test_a_server_that_does_not_answer_about_a_file(rig: Rig) -> None:
    (rig.stores[0] / "f").write_bytes(LARGE)
    rig.inject(0, ("stall", 0, "stat", 0, None))
    await rig.fails("f", "nothing came")


BY_SCP: list[tuple[int, Injection, str]] = [
    (0, ("stall", MIDDLE, "read", 0, None), "nothing came"),
    (0, ("reset", MIDDLE, "read", 0, 1), "connection"),
    (0, ("vanish", MIDDLE, None, 0, None), "absent"),
    (0, ("denied", 0, "open", 0, None), "(?i)permission denied"),
    (1, ("stall", MIDDLE, "write", 0, None), "nothing came"),
    (1, ("reset", MIDDLE, "write", 0, 1), "connection"),
    (1, ("disk-full", MIDDLE, None, 0, None), "no space, a quota"),
    (1, ("denied", 0, "open", 0, None), "(?i)permission denied"),
    (1, ("lost-write", MIDDLE, None, 0, None), "bytes"),
    (1, ("lost-write", MIDDLE, None, 0, 1), "checksum"),
]
"""Faults that this machine's scp meets."""


async def test_faults_by_scp(servers: list[FaultySSH]) -> None:
    async with opened(servers, "relay", "openssh") as rig:
        for number, (server, injection, words) in enumerate(BY_SCP):
            name = f"{number}-{injection[0]}.dat"
            path = rig.stores[0] / name
            path.write_bytes(LARGE)
            rig.inject(server, injection)
            await rig.fails(name, words, WHOLE)
            rig.heal()
            path.write_bytes(LARGE)
            await rig.succeeds(name, WHOLE)
