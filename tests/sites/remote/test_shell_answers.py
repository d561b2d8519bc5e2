"""What a host without an agent answers to the commands of a copy."""

from __future__ import annotations

from typing import Any, cast

import pytest

from wfrun.engine.errors import TransientError
from wfrun.sites.remote.files import cat
from wfrun.sites.remote.files.shell_files import ShellFiles
from wfrun.sites.remote.host import Stat
from wfrun.sites.remote.transports.local_transport import LocalTransport
from wfrun.sites.remote.transports.transport import Transport
from wfrun.sites.transfers.local import full_disk


class Host:
    host = "head"


@pytest.mark.parametrize("size", ["9" * 5000, "9" * 19, "²", "-1", ""])
async def test_an_impossible_size(monkeypatch: pytest.MonkeyPatch, size: str) -> None:
    async def answer(*_: object) -> bytes:
        return f"size {size}\n".encode()

    monkeypatch.setattr(cat, "answer", answer)
    files = ShellFiles(cast(Transport, Host()))
    with pytest.raises(TransientError, match="the host answered"):
        await files.stat("/f")


async def test_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(*_: object) -> bytes:
        return b"executable\nsize 12\n"

    monkeypatch.setattr(cat, "answer", answer)
    assert await ShellFiles(cast(Transport, Host())).stat("/f") == Stat(12, True, False)


@pytest.mark.parametrize("free", ["9" * 5000, "²", "many", ""])
async def test_a_disk_that_says_no_number(monkeypatch: pytest.MonkeyPatch, free: str) -> None:
    async def answer(*_: object) -> bytes:
        return f"Filesystem\n/dev/sda 1 1 {free} 1% /\n".encode()

    monkeypatch.setattr(cat, "answer", answer)
    assert await full_disk.shortage(cast(Any, Host()), "/") is None


async def test_an_answer_without_end_is_cut() -> None:
    transport = LocalTransport()
    with pytest.raises(TransientError, match="cannot be asked: the host answered more than"):
        await cat.answer(transport, "yes", "it cannot be asked")
    await transport.close()
