"""Removal of a directory at a site that something still writes into."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from wfrun.engine.model import Access
from wfrun.runners.admin.clean import remove_when_quiet
from wfrun.sites.remote.connection import connection_of

WRITES_S = 1.0


@pytest.mark.slow
async def test_a_directory_goes_when_its_writers_have_ended(tmp_path: Path) -> None:
    """A launcher that was cancelled writes exit records until its job is killed."""
    folder = tmp_path / "run" / "exits"
    folder.mkdir(parents=True)

    def write() -> None:
        end_s, number = time.monotonic() + WRITES_S, 0
        while time.monotonic() < end_s:
            number += 1
            try:
                (folder / f"{threading.get_ident()}-{number}").touch()
            except FileNotFoundError:  # it is gone
                return

    connection = connection_of(Access(transport="local"))
    await connection.open(lambda reason: None)
    writers = [threading.Thread(target=write) for _ in range(4)]
    for number in range(1000):
        (folder / f"old{number}").touch()
    for writer in writers:
        writer.start()
    await remove_when_quiet(await connection.host(), str(folder.parent))
    for writer in writers:
        writer.join()
    await connection.close()
    assert not folder.parent.exists()
