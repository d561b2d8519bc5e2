"""Shared memory of commands on other nodes: nothing stays after a launcher that was killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from wfrun.sites.node.launchers import remote_commands
from wfrun.sites.node.launchers.remote_commands import SharedMemory, remove_left_memory

MAKE = """
import sys, time
from pathlib import Path
from wfrun.sites.node.launchers import remote_commands
remote_commands.SHARED_MEMORY = sys.argv[1]
made = remote_commands.SharedMemory.make("other")
Path(made.path, "vader_segment").touch()
print("made", flush=True)
time.sleep(60)
"""


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(remote_commands, "SHARED_MEMORY", str(tmp_path))
    return tmp_path


def test_the_next_launcher_removes_what_a_killed_one_has_left(memory: Path) -> None:
    """While it lives its directory stays."""
    (memory / "others").mkdir()
    (memory / ".wfrun-killed-early").mkdir()
    command = [sys.executable, "-c", MAKE, str(memory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == "made\n"
        remove_left_memory()
        assert (memory / "wfrun-other" / "vader_segment").exists()
        launcher.kill()
        launcher.wait(10)
    remove_left_memory()
    assert [path.name for path in memory.iterdir()] == ["others"]


def test_a_launcher_removes_its_own(memory: Path) -> None:
    made = SharedMemory.make("1.0")
    assert made is not None
    remove_left_memory()
    assert [path.name for path in memory.iterdir()] == ["wfrun-1.0"]
    made.remove()
    assert not list(memory.iterdir())


def test_a_command_starts_without_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_commands, "SHARED_MEMORY", "/nowhere")
    assert SharedMemory.make("1.0") is None
    remove_left_memory()
