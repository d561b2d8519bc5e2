"""The fixture of tests that take a user to the testbed's clusters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.clusters import Grid
from tests.runners.harness import LONG_S, User
from tests.testbed.testbed import Testbed


@pytest.fixture
def grid(testbed: Testbed, tmp_path: Path) -> Iterator[Grid]:
    user = User(tmp_path, LONG_S)
    grid = Grid(testbed, user)
    try:
        yield grid
    finally:
        user.close()
        grid.close()
