"""Tests stand where `conftest.py` looks for those that it marks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import INTEGRATION, SITES, WITH_LAUNCHERS
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
