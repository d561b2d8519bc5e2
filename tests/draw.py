"""What differs from commit to commit: CI draws worlds, and a share of the slow tests, by it."""

from __future__ import annotations

import subprocess
from hashlib import sha256

from tests.places import ROOT


def commit() -> str:
    """The hash of the commit that is tested; empty without git."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        found = subprocess.run(
            command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip()


def is_drawn(name: str, commit: str, parts: int) -> bool:
    """Whether a name is among the one in ``parts`` that a commit draws."""
    digest = sha256(f"{commit} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % parts == 0
