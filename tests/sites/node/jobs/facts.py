"""What a site sends to a node: programs, and what they know of their batch system."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import msgspec

from wfrun.engine.model import Access
from wfrun.sites.kinds import make_batch_system
from wfrun.sites.node import FOLDER


@cache
def sent_programs() -> Path:
    """A folder with all programs, as nodes have them."""
    folder = Path(tempfile.mkdtemp(prefix="wfrun-node-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for program in FOLDER.glob("*/*.[ps]*"):
        shutil.copy(program, folder)
    return folder


def put_facts(directory: Path, kind: str = "pbs") -> None:
    """Write the facts of a batch system into the run's directory of a site."""
    (directory / "bin").mkdir(exist_ok=True)
    facts = make_batch_system(kind, Access()).node
    (directory / "bin" / "batch_system.json").write_bytes(msgspec.json.encode(facts))
