"""A PBS of one node, for machines that cannot have a real one (OpenPBS is not packaged by Debian).

``program.py`` answers as qsub, qstat, qdel and pbsnodes of OpenPBS 23.06: every answer is one of
the recordings in ``tests/data/lrm/openpbs-23.06`` with other names and numbers in it. Jobs are real
processes, and start in the order of their submission (``strict_ordering``) when cores are free.

What the recordings don't show is after the manual: the states of an array that is under way
(OpenPBS 23.06 reference guide, "Job Array States"), and a job that is deleted before it starts.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from pathlib import Path

from tests.places import DATA

PROGRAM = Path(__file__).parent / "program.py"
RECORDINGS = DATA / "lrm" / "openpbs-23.06"
COMMANDS = ("qsub", "qstat", "qdel", "pbsnodes")


def install(directory: Path, slots: int, max_jobs: int | None = None) -> Path:
    """Make a PBS in this directory, unless there is one; returns the directory of its commands.
    ``max_jobs``: so many a user may have in the queue, elements of arrays counted one by one."""
    commands = directory / "bin"
    if commands.exists():
        return commands
    commands.mkdir(parents=True)
    config = {"slots": slots, "max_jobs": max_jobs, "recordings": str(RECORDINGS)}
    (directory / "config.json").write_text(json.dumps(config))
    for name in COMMANDS:
        words = (sys.executable, "-I", "-S", str(PROGRAM), str(directory), name)
        (commands / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        (commands / name).chmod(0o755)
    return commands


def end(directory: Path) -> None:
    """End all its jobs; none starts after that."""
    (directory / "ended").touch()
    deadline_s = time.monotonic() + 10
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
