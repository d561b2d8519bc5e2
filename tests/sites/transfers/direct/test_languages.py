"""The messages of programs that copy files are in English, whatever the user's language is: the
cause of a failed copy is found in them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from tests.servers.ssh import FaultySSH
from tests.sites.transfers.test_checksums import Far, far
from wfrun.engine.errors import WfrunError
from wfrun.engine.exchange import Content
from wfrun.sites.transfers.causes import failure_of
from wfrun.sites.transfers.direct.direct_script import _SCRIPT, UNDER_INPUT
from wfrun.sites.transfers.endpoints.endpoint import Endpoint
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint

__all__ = ["far"]

FULL = """#!/bin/sh
case "$LC_ALL" in
C) echo "tar: Cannot write: No space left on device" >&2 ;;
*) echo "tar: Kann nicht schreiben: Auf dem Ger\u00e4t ist kein Speicherplatz mehr" >&2 ;;
esac
cat > /dev/null
exit 2
"""
"""A tar that finds no room."""


@pytest.fixture
def german(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "tar"
    program.parent.mkdir()
    program.write_text(FULL)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")


async def archive() -> AsyncIterator[bytes]:
    yield bytes(10240)


async def check(endpoint: Endpoint, folder: Path) -> None:
    with pytest.raises(WfrunError) as caught:
        await endpoint.write_tree(str(folder / "d"), archive(), Content(), "1-1")
    assert failure_of(caught.value).cause == "disk-full", caught.value
    (folder / "e").mkdir()
    with pytest.raises(WfrunError, match="No space"):
        await read(endpoint, str(folder / "e"))


async def read(endpoint: Endpoint, path: str) -> None:
    async with aclosing(endpoint.read_tree(path)) as pieces:
        async for _ in pieces:
            pass


@pytest.mark.usefixtures("german")
async def test_directories_of_this_machine(tmp_path: Path) -> None:
    await check(LocalEndpoint(), tmp_path)


@pytest.mark.usefixtures("german")
async def test_directories_of_a_site(far: Far, faulty_ssh: FaultySSH) -> None:
    await check(RemoteEndpoint(0, far), faulty_ssh.home)


@pytest.mark.usefixtures("german")
def test_clients_of_a_site() -> None:
    client = "sh -c 'echo \"$LC_ALL\" >&2'"
    under = UNDER_INPUT.format(client=client)
    script = _SCRIPT.format(files=":", source="/dev/null", under_input=under)
    # The client ends with the input of the script.
    with subprocess.Popen(
        ["sh", "-c", script], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "C\n"
