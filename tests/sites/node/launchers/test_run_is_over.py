"""Launchers end with their run, also those that no engine and no batch system can reach."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sites.launchers.channel_rig import Recorder
from tests.sites.node.launchers.batch_launcher_rig import Engine
from wfrun.engine.model import LauncherSpec
from wfrun.sites.launchers.channels.channels import SiteChannels
from wfrun.sites.remote.connection import Connection
from wfrun.sites.remote.transports.local_transport import LocalTransport
from wfrun.testing.probe import request


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = Engine(tmp_path / "site")
    yield engine
    engine.close()


async def dismiss(directory: Path) -> None:
    """What the engine of another session does when the run has ended. It does not know the
    launcher: its batch job has left the queue."""
    connection = Connection(("host",), lambda host, may_ask: LocalTransport())
    await connection.open(lambda status: None)
    spec = LauncherSpec(cores=1, channels=("spool",))
    channels = SiteChannels(connection, str(directory), spec, "here")
    await channels.open(Recorder())
    await channels.dismiss()
    await channels.close()
    await connection.close()


@pytest.mark.parametrize("way", ["spool", "tcp"])
async def test_a_launcher_that_nobody_reaches_ends_with_the_run(way: str, engine: Engine) -> None:
    """It would wait for an engine for an hour."""
    key = f"{secrets.token_hex(8)}.l"
    job = engine.start(key, channels=[way], patience_s=3600)
    if way == "tcp":  # its engine is connected, and never says anything
        engine.accept()
    await dismiss(engine.directory)
    assert job.wait(100) == 0
    assert engine.record(key)["cause"] == "done"


async def test_its_tasks_end_with_it(engine: Engine) -> None:
    """Nobody wants them any more, and the launcher would live as long as they do."""
    run_id = secrets.token_hex(8)
    job = engine.start(f"{run_id}.l", patience_s=3600)
    engine.accept()
    engine.run(request(f"{run_id}.1", "sleep", "3600"))
    engine.until_started(f"{run_id}.1")
    await dismiss(engine.directory)
    assert job.wait(100) == 0
    assert engine.ends(f"{run_id}.l.jsonl")[f"{run_id}.1"]["cause"] == "cancelled"
