"""Faults of servers during copies by SFTP through this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.sites.transfers.test_faults import (
    AT_DESTINATION,
    AT_SOURCE,
    HARMLESS,
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
async def rig(servers: list[FaultySSH]) -> AsyncIterator[Rig]:  # noqa: F811
    async with opened(servers, "sftp-relay") as rig:
        yield rig


async def test_faulty_sources(rig: Rig) -> None:
    for number, (injection, words) in enumerate(AT_SOURCE):
        name = f"{number}-{injection[0]}.dat"
        path = rig.stores[0] / name
        path.write_bytes(LARGE)
        rig.inject(0, injection, name)
        await rig.fails(name, words)
        rig.heal()
        path.write_bytes(LARGE)
        await rig.succeeds(name)


async def test_faulty_destinations(rig: Rig) -> None:
    for number, (injection, words) in enumerate(AT_DESTINATION):
        name = f"{number}-{injection[0]}.dat"
        (rig.stores[0] / name).write_bytes(LARGE)
        rig.inject(1, injection)
        await rig.fails(name, words, WHOLE)
        rig.heal()
        await rig.succeeds(name, WHOLE)
