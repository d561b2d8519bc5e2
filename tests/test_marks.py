"""Tests stand where `conftest.py` looks for those that it marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import FAULTS, INTEGRATION, WITH_LAUNCHERS


@pytest.mark.parametrize("room", [INTEGRATION, *WITH_LAUNCHERS], ids=lambda room: room.name)
def test_a_room_has_tests(room: Path) -> None:
    assert list(room.rglob("test_*.py"))


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_a_file_of_the_group_faults_exists(name: str) -> None:
    assert list(INTEGRATION.rglob(name))
