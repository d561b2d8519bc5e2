"""An LSF of a few hosts, for machines that cannot have a real one: LSF is not free.

``program.py`` answers as bsub, bjobs, bhist, bkill, blaunch and others of LSF 10.1, as far as IBM's
manual says what they do and print: its answers are those in ``tests/data/lrm/lsf-10.1-manual``,
which are written from the manual, with other names and numbers in them. So it shows that wfrun and
the manual agree, not that wfrun and LSF do. Jobs are real processes; all hosts are this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fakes.installed import asked as asked
from tests.fakes.installed import configure as configure
from tests.fakes.installed import end_jobs, write_commands
from tests.places import DATA

PROGRAM = Path(__file__).parent / "program.py"
RECORDINGS = DATA / "lrm" / "lsf-10.1-manual"
COMMANDS = (
    "bsub", "bjobs", "bhist", "bkill", "bresume", "bqueues", "bhosts", "lshosts", "bmgroup",
    "bparams", "busers", "lsid", "blaunch",
)  # fmt: skip
DEFAULTS: dict[str, Any] = {"max_array": 1000, "max_pending": None, "remembers": True}
"""``MAX_JOB_ARRAY_SIZE``; ``MAX_PEND_JOBS`` of the user; whether bjobs shows ended jobs, which it
does for CLEAN_PERIOD."""


def install(directory: Path, hosts: Mapping[str, int], **settings: Any) -> Path:
    """Make an LSF in this directory, unless there is one; returns the directory of its commands.
    ``hosts`` are numbers of slots by name, ``settings`` override ``DEFAULTS``."""
    config = {"hosts": dict(hosts), "recordings": str(RECORDINGS), **DEFAULTS, **settings}
    return write_commands(directory, PROGRAM, COMMANDS, config)


def end(directory: Path) -> None:
    """End all its jobs; none starts after that."""
    end_jobs(directory, PROGRAM, "LSF_FAKE")
