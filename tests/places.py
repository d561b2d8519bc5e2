"""Where the project's files are, and the corpus that some tests read."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The project's root."""

EXAMPLES = ROOT / "examples"

DATA = ROOT / "tests" / "data"
"""Recordings of real programs, and logs of earlier versions."""

CORPUS = Path(os.environ.get("WFRUN_CORPUS") or ROOT.parent / "shared" / "data")
"""Workflows and workload logs that other people published; absent in most checkouts."""
