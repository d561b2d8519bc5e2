"""Encrypted channels: what somebody between launcher and engine sees, and can do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.sites.launchers.channel_rig import Caller, Rig, ask
from wfrun.sites.launchers.channels.certificate import make_context
from wfrun.sites.node.channels.encryption import Encryption, encryption_of_launcher
from wfrun.sites.tasks import end_tasks

KINDS = ("tcp", "spool")
WORD = "a-token-that-nobody-may-see"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig("tcp", tmp_path / "run", lambda: pytest.fail("no SSH is needed"))
    rig.links = rig.new_links(kinds=KINDS)
    await rig.open()
    yield rig
    await rig.close()


async def reopen(rig: Rig, *, encrypt: bool) -> None:
    """Open the channels as another engine does."""
    await rig.links.close()
    rig.links = rig.new_links(kinds=KINDS, encrypt=encrypt)
    await rig.links.expect(["one"])
    await rig.links.open(rig.handler)


class Middle:
    """Stands between the engine's port and launchers: it listens and, told so, takes part."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._target = rig.address()["tcp"][0]
        self._server: asyncio.Server | None = None
        self._serving: list[asyncio.Task[Any]] = []
        """Kept, as the event loop may drop tasks that wait only for each other."""
        self.seen = bytearray()
        """All bytes that passed, in both directions."""
        self.calls = 0
        self.reasons: list[str] = []

    async def open(self) -> None:
        """Give launchers the address of this process instead of the engine's."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        path = self._rig.directory / "launchers/address.json"
        address: dict[str, Any] = json.loads(path.read_text())
        address["tcp"] = [self._server.sockets[0].getsockname()[:2]]
        path.write_text(json.dumps(address))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.calls += 1
        serving = asyncio.current_task()
        assert serving is not None
        self._serving.append(serving)
        there, out = await asyncio.open_connection(*self._target)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self.pass_on(reader, writer, there, out)
        finally:
            writer.close()
            out.close()

    async def pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        out: asyncio.StreamWriter,
    ) -> None:
        await asyncio.gather(self.copy(reader, out), self.copy(there, writer))

    async def copy(self, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            self.seen += data
            to.write(data)
        to.close()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        await end_tasks(self._serving)


async def talk(rig: Rig) -> None:
    """Send a word to a launcher, and get it back."""
    rig.start()
    link = await rig.handler.hello(0)
    ask(link, text=WORD)
    await rig.handler.until(lambda: rig.handler.said[0][-1] == {"text": WORD})


async def test_a_listener_sees_no_message(rig: Rig) -> None:
    middle = Middle(rig)
    await middle.open()
    await talk(rig)
    assert len(middle.seen) > 500
    assert WORD.encode() not in middle.seen
    assert b'"hello": 1' not in middle.seen
    await middle.close()


async def test_without_encryption_a_listener_sees_messages(rig: Rig) -> None:
    """This is what the test above would see if there were no encryption."""
    await reopen(rig, encrypt=False)
    middle = Middle(rig)
    await middle.open()
    await talk(rig)
    assert middle.seen.count(WORD.encode()) == 2
    await middle.close()


class Interceptor(Middle):
    """Lets both ends prove who they are, and then ends the encryption of each at itself."""

    async def pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        out: asyncio.StreamWriter,
    ) -> None:
        out.write(await reader.readline())
        answer = await there.readline()
        writer.write(answer)
        digest = json.loads(answer)["certificate"]
        to_launcher = Encryption(make_context()[0], True)
        to_engine = encryption_of_launcher(digest)
        to_engine.begin()
        await asyncio.gather(
            self._take(to_launcher, reader, writer), self._take(to_engine, there, out)
        )

    async def _take(
        self, end: Encryption, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(end.outgoing())
        while data := await reader.read(1 << 16):
            self.seen += end.receive(data)
            writer.write(end.outgoing())


class Stripper(Middle):
    """Tells the launcher that the engine does without encryption."""

    async def pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        out: asyncio.StreamWriter,
    ) -> None:
        out.write(await reader.readline())
        answer = json.loads(await there.readline())
        writer.write(json.dumps({**answer, "certificate": ""}).encode() + b"\n")
        await super().pass_on(reader, writer, there, out)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(Interceptor, "its certificate differs"), (Stripper, "does not know the secret")],
)
async def test_a_man_in_the_middle_gets_nothing(rig: Rig, kind: type[Middle], reason: str) -> None:
    middle = kind(rig)
    await middle.open()
    node = rig.start(kinds="tcp,spool")
    link = await rig.handler.hello(0)  # by files: nobody is between
    assert link.channel == "spool"
    assert middle.calls == 1
    assert middle.seen == b""
    node.kill()
    assert node.stderr is not None
    said = await asyncio.to_thread(node.stderr.read)
    assert reason in said.decode()
    await middle.close()


async def test_only_the_owner_of_the_certificate_gets_the_proof(rig: Rig) -> None:
    """A process that passes the handshake on and takes the launcher's part in TLS has no proof."""
    caller = Caller(rig)
    await caller.greet()
    await caller.read_answer()
    await caller.prove(who="engine", lines=[b'{"hello": 1}'])
    assert await caller.is_hung_up()
    assert rig.handler.links == []
    caller.close()


async def test_a_python_without_tls_goes_on_to_files(rig: Rig, tmp_path: Path) -> None:
    """As on nodes whose Python was built without OpenSSL."""
    (tmp_path / "ssl.py").write_text("raise ImportError('No module named _ssl')\n")
    node = rig.start(kinds="tcp,spool", path=str(tmp_path))
    link = await rig.handler.hello(0)
    assert link.channel == "spool"
    node.kill()
    assert node.stderr is not None
    said = await asyncio.to_thread(node.stderr.read)
    assert b"has no module ssl; 'encrypt: false'" in said
    # Where the catalog permits it, it does without.
    await reopen(rig, encrypt=False)
    rig.start(kinds="tcp,spool", path=str(tmp_path))
    assert (await rig.handler.hello(1)).channel == "tcp"


async def test_garbage_instead_of_encryption_is_refused(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caller = Caller(rig)
    await caller.greet()
    await caller.read_answer()
    await caller.say(b'{"proof": "%s"}\n' % caller.proof("launcher").encode())
    assert await caller.is_hung_up()
    assert "its handshake is invalid" in caplog.text
    caller.close()


def test_encryption_is_authenticated_and_recent() -> None:
    context, digest = make_context()
    engine, launcher = Encryption(context, True), encryption_of_launcher(digest)
    launcher.begin()
    launcher.send(b"first")
    received = b""
    while not (engine.is_open and launcher.is_open):
        received += engine.receive(launcher.outgoing())
        assert launcher.receive(engine.outgoing()) == b""
    received += engine.receive(launcher.outgoing())
    assert received == b"first"
    launcher.send(b"second")
    sealed = bytearray(launcher.outgoing())
    assert b"second" not in sealed
    sealed[-1] ^= 1
    with pytest.raises(ValueError, match="its encryption is invalid"):
        engine.receive(bytes(sealed))
    assert all(cipher["aead"] for cipher in context.get_ciphers())
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
