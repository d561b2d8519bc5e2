"""Servers for the tests of connections to clusters."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sites.remote.servers import Misbehaving, Sshd, config_of, new_key, public


class Cluster:
    """A login node: an sshd, a key that it accepts, and the user's configuration."""

    def __init__(self, directory: Path, sockets: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.sockets = sockets
        self.key = new_key(directory / "user_key")
        self.sshd = Sshd(directory / "sshd", self.key)
        self.known_hosts = directory / "known_hosts"
        self.known_hosts.write_text(f"[127.0.0.1]:{self.sshd.port} {public(self.sshd.host_key)}\n")
        self.config = directory / "config"
        self.host = self.add("cluster", self.sshd.port)

    def add(self, name: str, port: int, more: str = "", key: Path | None = None) -> str:
        """Add another name to the configuration."""
        return config_of(self.config, port, key or self.key, self.known_hosts, name=name, more=more)


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Make login shells run no profile but the test's."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture(scope="session")
def sockets() -> Iterator[Path]:
    """A directory for sockets, whose paths must be short."""
    directory = Path(tempfile.mkdtemp(prefix="wf"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory, sockets: Path) -> Iterator[Cluster]:
    """A login node shared by tests that leave it unchanged."""
    made = Cluster(tmp_path_factory.mktemp("cluster"), sockets)
    yield made
    made.sshd.stop()


@pytest.fixture
def cluster(tmp_path: Path, sockets: Path) -> Iterator[Cluster]:
    """A login node for tests that stop its sshd or change its keys."""
    made = Cluster(tmp_path / "cluster", sockets)
    yield made
    made.sshd.stop()


@pytest.fixture
def misbehaving(tmp_path: Path) -> Iterator[Misbehaving]:
    server = Misbehaving(tmp_path)
    yield server
    server.close()
