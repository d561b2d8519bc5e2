"""What programs on a node know of their batch system, as a site sends it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from wfrun.engine.model import Access
from wfrun.sites.kinds import make_batch_system


def put_facts(directory: Path, kind: str = "pbs") -> None:
    """Write the facts of a batch system into the run's directory of a site."""
    (directory / "bin").mkdir(exist_ok=True)
    facts = make_batch_system(kind, Access()).node
    (directory / "bin" / "batch_system.json").write_bytes(msgspec.json.encode(facts))
