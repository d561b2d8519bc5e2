from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runners.harness import LONG_S, PATIENCE_S, User


@pytest.fixture
def user(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[User]:
    """A user in an empty folder. What they started is ended with the test."""
    is_slow = request.node.get_closest_marker("slow") is not None
    somebody = User(tmp_path, LONG_S if is_slow else PATIENCE_S)
    yield somebody
    somebody.close()
