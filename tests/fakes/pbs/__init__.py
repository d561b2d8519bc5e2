"""A PBS of one node, for machines that cannot have a real one (OpenPBS is not packaged by Debian).

``program.py`` answers as qsub, qstat, qdel, qrls and pbsnodes of OpenPBS 23.06: every answer is one
of the recordings in ``tests/data/lrm/openpbs-23.06`` with other names and numbers in it, or was
seen on a live server. Jobs are real processes, run by a login shell; they start when cores are
free, narrow ones before a wide one that waits.

What neither shows is after the manual: the states of an array that is under way (OpenPBS 23.06
reference guide, "Job Array States"), and a job that is deleted before it starts.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.fakes.installed import asked as asked
from tests.fakes.installed import configure as configure
from tests.fakes.installed import end_jobs, write_commands
from tests.places import DATA

PROGRAM = Path(__file__).parent / "program.py"
RECORDINGS = DATA / "lrm" / "openpbs-23.06"
COMMANDS = ("qsub", "qstat", "qdel", "qrls", "pbsnodes")
DEFAULTS: dict[str, Any] = {
    "limits": {},
    "max_array": 10_000,
    "queue_max_array": None,
    "enabled": True,
    "started": True,
    "history": False,
    "down": 0,
    "gap_s": 0.02,
    "stage_out_s": 0.0,
    "stuck": False,
}
"""``limits`` of jobs by the names of ``LIMITS`` in ``program.py``, each element of an array
counted; ``max_array_size`` of the server and of the queue; whether the queue is enabled
(accepts jobs) and started (runs them);
``job_history_enable``; the cores of a second node, which is down; the time between the signals
to the processes of a job and to their parents, a few milliseconds at a live server; the time
from the end of a job to the delivery of its output; and whether arrays stay in state B for ever
when all elements have ended."""


def install(directory: Path, slots: int, **settings: Any) -> Path:
    """Make a PBS in this directory, unless there is one; returns the directory of its commands.
    ``settings`` override ``DEFAULTS``."""
    config = {"slots": slots, "recordings": str(RECORDINGS), **DEFAULTS, **settings}
    return write_commands(directory, PROGRAM, COMMANDS, config)


def undelivered(directory: Path) -> list[str]:
    """Paths to which the output of a job could not be copied, and of which PBS mails the user."""
    path = directory / "undelivered"
    return path.read_text().splitlines() if path.exists() else []


def requeue(directory: Path, *jobs: str) -> None:
    """Queue these jobs or elements again, as after a kill of the server."""
    words = (sys.executable, "-I", "-S", str(PROGRAM), str(directory), "requeue")
    subprocess.run([*words, *jobs], check=True, timeout=100)


def end(directory: Path) -> None:
    """End all its jobs; none starts after that."""
    end_jobs(directory, PROGRAM, "PBS_FAKE")
