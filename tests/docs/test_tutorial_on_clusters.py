"""The last step of the tutorial, on real clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import run_sessions, sessions
from tests.docs.test_code_blocks import check, prepare
from tests.places import ROOT
from tests.testbed.testbed import Testbed

PAGE = ROOT / "docs/tutorial.md"


@pytest.mark.slow
def test_the_tutorial_runs_on_two_clusters(testbed: Testbed, tmp_path: Path) -> None:
    prepare(PAGE, tmp_path)
    (tmp_path / ".ssh").mkdir(mode=0o700)
    (tmp_path / ".ssh/config").write_text(testbed.layout.ssh_config.read_text())
    check(run_sessions(sessions(PAGE, on_clusters=True), tmp_path))
