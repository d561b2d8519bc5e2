"""The server that forks the command for tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runners.warm import Server, WarmProcess

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


def start(server: Server, folder: Path, *words: str) -> WarmProcess:
    out, err = folder / "out", folder / "err"
    for path in (out, err):
        path.touch()
    argv = [str(Path(sys.executable).with_name("wfrun")), *words]
    return server.start(argv, folder, dict(os.environ), out, err)


def test_status_and_output_are_those_of_the_command(server: Server, tmp_path: Path) -> None:
    assert start(server, tmp_path, "nosuch").wait(60) == 2
    assert "no file 'nosuch'" in (tmp_path / "err").read_text()


def test_a_process_with_the_pid_of_an_ended_one_runs(server: Server, tmp_path: Path) -> None:
    """The system gives pids again after 32,768 processes or more."""
    if not os.access(LAST_PID, os.W_OK):
        pytest.skip("only root can choose the next pid")
    first = start(server, tmp_path, "nosuch")
    assert first.wait(60) == 2
    for _ in range(50):  # Another process of the machine may take the pid.
        LAST_PID.write_text(str(first.pid - 1))
        second = start(server, tmp_path, "--version")
        if second.pid == first.pid:
            break
        second.wait(60)
    assert second.pid == first.pid
    assert second.wait(60) == 0
    assert first.poll() == 2
