from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runners.harness import User


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    """A user in an empty folder. What they started is ended with the test."""
    somebody = User(tmp_path)
    yield somebody
    somebody.close()
