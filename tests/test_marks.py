"""Tests stand where `conftest.py` looks for those that it marks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import INTEGRATION, SITES, WITH_LAUNCHERS
from tests.draw import is_drawn
from tests.places import ROOT

KEY = re.compile(r'\b(?:request|shell)\(\s*f?"([a-z]+-?)[0-9{]')
"""The beginning of a fixed key of an attempt, up to its number."""


@pytest.mark.parametrize("room", [INTEGRATION, *WITH_LAUNCHERS], ids=lambda room: room.name)
def test_a_room_has_tests(room: Path) -> None:
    assert list(room.rglob("test_*.py"))


def test_no_two_files_have_the_same_keys() -> None:
    """Their tests run at the same time, and a launcher that recovers the attempts of a dead one
    kills all processes with their keys on the machine. The suites let no launcher die."""
    files = [path for room in WITH_LAUNCHERS for path in room.rglob("test_*.py")]
    files += [*SITES.glob("test_*.py"), *(ROOT / "tests" / "failing").glob("test_*.py")]
    files += (ROOT / "wfrun" / "testing").glob("*.py")
    suites = ROOT / "wfrun" / "testing"
    having: dict[str, set[str]] = {}
    for path in files:
        if "testbed" not in path.read_text() or path.parent == suites:  # users of its own
            name = "suites" if path.parent == suites else path.name
            for start in KEY.findall(path.read_text()):
                having.setdefault(start, set()).add(name)
    assert len(having) > 10
    assert not {start: names for start, names in having.items() if len(names) > 1}


def test_each_commit_draws_its_share() -> None:
    names = [f"test_{n}" for n in range(3000)]
    first, second = ({n for n in names if is_drawn(n, commit, 3)} for commit in ("a", "b"))
    assert 900 < len(first) < 1100
    assert 250 < len(first & second) < 420


@pytest.mark.slow
def test_a_share_leaves_out_slow_tests_unless_they_are_marked() -> None:
    files = ["tests/engine/model/test_model.py", "tests/engine/core/test_changes.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only"]
    command += ["--share", "1000000000", *files]
    done = subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    found = done.stdout.splitlines()
    assert "tests/engine/model/test_model.py::test_every_rule_holds_in_fresh_worlds[11]" in found
    quick = [name for name in found if name.startswith(files[1])]
    assert quick
    assert not [name for name in quick if "test_random_worlds_that_change" in name]
