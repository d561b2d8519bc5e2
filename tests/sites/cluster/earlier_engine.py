"""What an earlier engine has left at a cluster."""

from __future__ import annotations

from pathlib import Path


def leave_batch(home: Path) -> None:
    """Leave a batch of one attempt of run ``r1``, at a site whose directory is
    ``home/scratch``."""
    batches = home / "scratch" / "wfrun-r1" / "batches"
    batches.mkdir(parents=True)
    for folder in (batches.parent, batches):
        folder.chmod(0o700)
    (batches / "wfrun-r1-1.jsonl").write_text('{"key": "r1.0.0.1"}\n')
    (batches / "wfrun-r1-1.ids").write_text("17\n")
