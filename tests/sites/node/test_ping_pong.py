"""Whether nodes reach each other, tried by the program of `wfrun sites check --nodes`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from wfrun.sites.node import FOLDER

PROGRAM = FOLDER / "alone/ping_pong.py"
HERE = 'exec sh -c "$2"'
"""The other node is this machine."""
BEHIND_A_WALL = 'exec unshare -n sh -c "$2"'
"""The other node has a network of its own, without a way to this one."""
ONE_PORT = 'exec sh -c "$(echo "$2" | sed \'s/,[0-9]*//\')"'
"""From the other node one of both ports is closed."""


def tried(folder: Path, other: str) -> dict[str, object]:
    """What the first node writes. ``other`` is how the agent starts the command on the other."""
    (folder / "nodes").write_text("one\nother\n")
    (folder / "agent").write_text(f"#!/bin/sh\n{other}\n")
    (folder / "agent").chmod(0o755)
    shutil.copy(PROGRAM, folder)
    subprocess.run(
        [sys.executable, "ping_pong.py", "out.json", "--try"],
        cwd=folder, check=True, timeout=60,
        env={
            "PATH": "/usr/bin:/bin",
            "WFRUN_NODEFILE": str(folder / "nodes"),
            "OMPI_MCA_plm_rsh_agent": str(folder / "agent"),
        },
    )  # fmt: skip
    found: dict[str, object] = json.loads((folder / "out.json").read_bytes())
    return found


def test_a_node_is_reached_at_both_kinds_of_ports(tmp_path: Path) -> None:
    assert tried(tmp_path, HERE) == {"reached": ["daemons", "processes"]}


def test_closed_ports_are_told(tmp_path: Path) -> None:
    assert tried(tmp_path, ONE_PORT) == {"reached": ["daemons"]}


def test_a_node_without_a_way_is_not_reached(tmp_path: Path) -> None:
    can = subprocess.run(["unshare", "-n", "true"], check=False, capture_output=True)
    if can.returncode:
        pytest.skip("no network namespaces")
    assert tried(tmp_path, BEHIND_A_WALL) == {"reached": []}
