"""What players of batch systems have in common beside their programs: a directory with commands, a
configuration that can change while they run, the calls of the commands, and processes to end."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def write_commands(
    directory: Path, program: Path, names: Sequence[str], config: Mapping[str, Any]
) -> Path:
    """Write the commands of a player whose program is ``program``, and its configuration, unless
    they are there; returns the directory of the commands."""
    commands = directory / "bin"
    if commands.exists():
        return commands
    commands.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(config))
    for name in names:
        words = (sys.executable, "-I", "-S", str(program), str(directory), name)
        (commands / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        (commands / name).chmod(0o755)
    return commands


def configure(directory: Path, **settings: Any) -> None:
    """Change settings of a player that runs."""
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


def end_jobs(directory: Path, program: Path, variable: str) -> None:
    """End all jobs of a player, which have its directory in this environment variable; none starts
    after that."""
    (directory / "ended").touch()
    deadline_s = time.monotonic() + 100
    while processes := _processes(directory, program, variable):
        assert time.monotonic() < deadline_s, f"jobs that do not end: {processes}"
        for pid in processes:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)


def _processes(directory: Path, program: Path, variable: str) -> list[int]:
    """The jobs, by their environment, and the commands."""
    found = []
    marks = (f"\0{variable}={directory}\0".encode(), f"\0{program}\0{directory}\0".encode())
    for path in Path("/proc").glob("[0-9]*"):
        try:
            known = (path / "environ").read_bytes(), (path / "cmdline").read_bytes()
            is_dead = (path / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            continue
        if not is_dead and any(mark in b"\0" + text for mark in marks for text in known):
            found.append(int(path.name))
    return found
