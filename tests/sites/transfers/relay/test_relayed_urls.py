"""Inputs of an SFTP server without a shell pass through this machine without a copy on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.servers.faults import Kind, Operation
from tests.sites.transfers.test_conformance import Store
from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.engine.exchange import Content
from wfrun.engine.model import ORIGIN, Access, LinkSpec
from wfrun.sites.node.tasks.digests import digest_of_bytes
from wfrun.sites.remote.connection import connection_of
from wfrun.sites.transfers.bandwidth_cap import BandwidthCaps
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.relay import stall
from wfrun.sites.transfers.relay.stream import Stream
from wfrun.sites.transfers.router import TransferRouter
from wfrun.sites.transfers.urls.url_inputs import UrlInputs

if TYPE_CHECKING:
    from tests.servers.ssh import FaultySSH

pytestmark = pytest.mark.slow
DATA = bytes(range(256)) * 8192
MIDDLE = len(DATA) // 2


@pytest.fixture
async def urls(
    tmp_path: Path, faulty_ssh: FaultySSH, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[UrlInputs]:
    """Inputs for a site with an agent; the server of the inputs runs no commands."""
    faulty_ssh.faults.inject("denied", operation="exec")
    (faulty_ssh.home / "-a b.dat").write_bytes(DATA)
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "config").write_text(faulty_ssh.ssh_config.read_text())
    monkeypatch.setenv("HOME", str(home))
    store = tmp_path / "store"
    store.mkdir()
    connection = connection_of(Access(transport="local"))
    await connection.open(lambda reason: None)
    site = RemoteEndpoint(0, Store(0, connection, store))
    links = [LinkSpec("origin", "site0", max_bandwidth_bytes_per_s=20e6)]
    router = TransferRouter(
        [site],
        {"stream": Stream(BandwidthCaps(links))},
        tmp_path / "outputs",
        links=links,
        checksums=True,
    )
    made = UrlInputs(router, tmp_path / "inputs", frozenset({faulty_ssh.name}))
    yield made
    made.close()
    await connection.close()


async def test_a_file_goes_on_while_it_comes(
    urls: UrlInputs, tmp_path: Path, faulty_ssh: FaultySSH
) -> None:
    url = f"sftp://{faulty_ssh.name}{faulty_ssh.home}/-a%20b.dat"
    receipt = await urls.copy(ORIGIN, url, 0, "new/f")
    assert (receipt.size_bytes, receipt.digest) == (len(DATA), digest_of_bytes(DATA))
    assert receipt.method == "relay"
    # At the cap of the link.
    assert receipt.elapsed_s > len(DATA) / 20e6 / 2
    assert (tmp_path / "store" / "new" / "f").read_bytes() == DATA
    assert not (tmp_path / "inputs").exists()
    assert (tmp_path / "store" / "new" / "f").stat().st_mode & 0o777 == 0o555


async def test_faults_of_the_server(
    urls: UrlInputs, tmp_path: Path, faulty_ssh: FaultySSH, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sftp://{faulty_ssh.name}{faulty_ssh.home}/-a%20b.dat"
    faults: list[tuple[Kind, int, Operation | None, int, type[Exception], str]] = [
        ("stall", MIDDLE, "read", 0, TransientError, "nothing came"),
        ("reset", MIDDLE, "read", 0, TransientError, "connection"),
        ("wrong-size", 0, None, 1000, TransientError, "shorter"),
        ("wrong-size", 0, None, -1000, TransientError, "more than its"),
        ("denied", 0, "open", 0, InfeasibleError, "(?i)permission denied"),
    ]
    for kind, at_byte, operation, amount, error, words in faults:
        faulty_ssh.faults.inject(kind, "*.dat", operation=operation, at_byte=at_byte, amount=amount)
        with monkeypatch.context() as patch:
            if kind == "stall":
                patch.setattr(stall, "STALL_S", 0.5)
            with pytest.raises(error, match=words) as caught:
                await urls.copy(ORIGIN, url, 0, "f")
        assert "part" not in str(caught.value)
        faulty_ssh.faults.heal()
        assert not list((tmp_path / "store").iterdir())
        assert not (tmp_path / "inputs").exists()
    other = Content(None, digest_of_bytes(b"another"), is_stated=True)
    with pytest.raises(InfeasibleError, match="checksum"):
        await urls.copy(ORIGIN, url, 0, "f", other)
    assert not list((tmp_path / "store").iterdir())
    await urls.copy(ORIGIN, url, 0, "f")
