"""The faulty server as a pytest fixture; tests/conftest.py gives it to all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.servers.ssh import FaultySSH


@pytest.fixture
def faulty_ssh(tmp_path: Path) -> Iterator[FaultySSH]:
    """An SSH and SFTP server by paramiko, on loopback, whose faults the test chooses."""
    # Most tests need no paramiko, whose import takes long.
    from tests.servers.ssh import FaultySSH

    server = FaultySSH(tmp_path / "faulty")
    try:
        yield server
    finally:
        server.close()
