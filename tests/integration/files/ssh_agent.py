"""An SSH agent with the key of the testbed, as a user has one, and that key at a site."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbed.layout import Layout


@contextlib.contextmanager
def agent_of(layout: Layout, place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run an agent whose socket is in the directory ``place``."""
    socket = place / "agent"
    said = subprocess.run(
        ["ssh-agent", "-s", "-a", str(socket)], check=True, capture_output=True, text=True
    ).stdout
    pid = int(said.split("SSH_AGENT_PID=")[1].split(";")[0])
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    try:
        key = str(layout.client / "id_ed25519")
        subprocess.run(["ssh-add", "-q", key], check=True, capture_output=True)
        yield
    finally:
        os.kill(pid, signal.SIGTERM)


def put_key(layout: Layout, name: str) -> str:
    """Put the key at a site, as its user would have; returns its path there."""
    site = layout.site(name)
    path = site.home / "bin" / "key"
    shutil.copy(layout.client / "id_ed25519", path)
    path.chmod(0o600)
    shutil.chown(path, site.user, site.user)
    return str(path)
