"""A PBS of one node, for machines that cannot have a real one (OpenPBS is not packaged by Debian).

``program.py`` answers as qsub, qstat, qdel, qrls and pbsnodes of OpenPBS 23.06: every answer is one
of the recordings in ``tests/data/lrm/openpbs-23.06`` with other names and numbers in it, or was
seen on a live server. Jobs are real processes, run by a login shell; they start when cores are
free, narrow ones before a wide one that waits.

What neither shows is after the manual: the states of an array that is under way (OpenPBS 23.06
reference guide, "Job Array States"), and a job that is deleted before it starts.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.places import DATA

PROGRAM = Path(__file__).parent / "program.py"
RECORDINGS = DATA / "lrm" / "openpbs-23.06"
COMMANDS = ("qsub", "qstat", "qdel", "qrls", "pbsnodes")
DEFAULTS: dict[str, Any] = {
    "limits": {},
    "max_array": 10_000,
    "queue_max_array": None,
    "enabled": True,
    "history": False,
    "down": 0,
}
"""``limits`` of jobs by the names of ``LIMITS`` in ``program.py``, each element of an array
counted; ``max_array_size`` of the server and of the queue; whether the queue is enabled;
``job_history_enable``; and the cores of a second node, which is down."""


def install(directory: Path, slots: int, **settings: Any) -> Path:
    """Make a PBS in this directory, unless there is one; returns the directory of its commands.
    ``settings`` override ``DEFAULTS``."""
    commands = directory / "bin"
    if commands.exists():
        return commands
    commands.mkdir(parents=True)
    config = {"slots": slots, "recordings": str(RECORDINGS), **DEFAULTS, **settings}
    (directory / "config.json").write_text(json.dumps(config))
    for name in COMMANDS:
        words = (sys.executable, "-I", "-S", str(PROGRAM), str(directory), name)
        (commands / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        (commands / name).chmod(0o755)
    return commands


def configure(directory: Path, **settings: Any) -> None:
    """Change settings of a PBS that runs."""
    path = directory / "config.json"
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({**json.loads(path.read_text()), **settings}))
    fresh.rename(path)


def asked(directory: Path, command: str) -> list[list[str]]:
    """The arguments of all calls of a command."""
    path = directory / "calls"
    lines = path.read_text().splitlines() if path.exists() else []
    calls = (json.loads(line) for line in lines)
    return [call[1:] for call in calls if call[0] == command]


def requeue(directory: Path, *jobs: str) -> None:
    """Queue these jobs or elements again, as after a kill of the server."""
    words = (sys.executable, "-I", "-S", str(PROGRAM), str(directory), "requeue")
    subprocess.run([*words, *jobs], check=True, timeout=100)


def end(directory: Path) -> None:
    """End all its jobs; none starts after that."""
    (directory / "ended").touch()
    deadline_s = time.monotonic() + 100
    while processes := _processes(directory):
        assert time.monotonic() < deadline_s, f"jobs that do not end: {processes}"
        for pid in processes:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)


def _processes(directory: Path) -> list[int]:
    """Those of its jobs, by their environment, and of its commands."""
    found = []
    marks = (f"\0PBS_FAKE={directory}\0".encode(), f"\0{PROGRAM}\0{directory}\0".encode())
    for path in Path("/proc").glob("[0-9]*"):
        try:
            known = (path / "environ").read_bytes(), (path / "cmdline").read_bytes()
            is_dead = (path / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            continue
        if not is_dead and any(mark in b"\0" + text for mark in marks for text in known):
            found.append(int(path.name))
    return found
