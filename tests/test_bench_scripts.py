"""The programs of bench/ start as their README says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

SCRIPTS = [path for path in sorted((ROOT / "bench").glob("*.py")) if "argparse" in path.read_text()]


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_says_what_it_measures(script: Path) -> None:
    done = subprocess.run(
        [sys.executable, script, "--help"],
        cwd=ROOT, env={}, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "usage: " in done.stdout
