"""Invalid bytes at both ends of a channel, before and after the handshake: refused without a
traceback, a wait or much memory."""

from __future__ import annotations

import asyncio
import functools
import json
import random
import ssl
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.sites.channels.test_handshake import NONCE, SECRET, Listener, hello, proofs
from wfrun.sites.launchers.channels import signed_link
from wfrun.sites.launchers.channels.certificate import make_context
from wfrun.sites.launchers.channels.handshake import Credentials
from wfrun.sites.launchers.channels.signed_link import SignedLink
from wfrun.sites.node.channels import channels
from wfrun.sites.node.channels.signing import HANDSHAKE_BYTES, LineSigner, proof_of

SEED = 13
ROUNDS = 1000


class Connection:
    """Implements ``IncomingConnection`` in memory."""

    address = "10.0.0.1:5"

    def __init__(self) -> None:
        self.written = b""
        self.is_admitted = False
        self.is_over = False

    def admit(self) -> None:
        self.is_admitted = True

    async def write(self, data: bytes) -> None:
        self.written += data

    def disconnect(self) -> None:
        self.is_over = True


class Owner:
    """Implements ``LinkOwner``."""

    def __init__(self) -> None:
        self.proved: list[SignedLink] = []
        self.lines: list[bytes] = []
        self.refused: list[str] = []

    def on_proved(self, link: SignedLink) -> None:
        self.proved.append(link)

    def on_lines(self, link: SignedLink, lines: list[bytes]) -> None:
        self.lines += lines

    def on_ended(self, link: SignedLink, reason: str) -> None:
        pass

    def on_refused(self, link: SignedLink, reason: str) -> None:
        self.refused.append(reason)


class Engine:
    """The engine's end of one connection."""

    def __init__(
        self,
        *,
        encrypt: bool = False,
        is_expected: bool = True,
        connection: Connection | None = None,
    ) -> None:
        self.connection, self.owner = connection or Connection(), Owner()
        context, digest = _context() if encrypt else (None, "")
        self.link = SignedLink(
            self.connection,
            "tcp",
            Credentials(SECRET, 3, context, digest),
            self.owner,
            lambda key: is_expected and key == "L1",
        )

    async def prove(self) -> LineSigner:
        """Pass the handshake; returns the signer of lines to the engine."""
        self.link.received(hello() + b"\n")
        while not self.connection.written:
            await asyncio.sleep(0)
        b = json.loads(self.connection.written)["nonce"]
        names = ("L1", 0, 3, NONCE, b, "")
        proof = proof_of(SECRET, "launcher", *names)
        self.link.received(json.dumps({"proof": proof}).encode() + b"\n")
        return LineSigner(proof_of(SECRET, "to-engine", *names))


@functools.cache
def _context() -> tuple[ssl.SSLContext, str]:
    return make_context()


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Data with some bytes replaced, removed, repeated or inserted."""
    for _ in range(rng.randint(1, 4)):
        at, size = rng.randrange(len(data) + 1), rng.randint(0, 20)
        new = rng.choice([b"", b"\0", b"\n", b"{", b'"', b"9" * 400, rng.randbytes(size)])
        data = data[:at] + new + data[at + rng.choice([0, 0, size]) :]
    return data


def pieces(data: bytes, rng: random.Random) -> list[bytes]:
    """Data in pieces of random sizes."""
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randint(0, 3)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if a < b]


@pytest.mark.parametrize("encrypt", [False, True], ids=["plain", "encrypted"])
async def test_an_engine_refuses_what_is_no_handshake(encrypt: bool) -> None:
    rng = random.Random(SEED)
    for _ in range(ROUNDS):
        engine = Engine(encrypt=encrypt)
        line = hello() + b"\n"
        said = damaged(line, rng) if rng.random() < 0.8 else line + rng.randbytes(50) + b"\n"
        for piece in pieces(said, rng):
            engine.link.received(piece)
        assert not engine.owner.proved
        assert engine.link.is_stranger or engine.connection.is_admitted
        await engine.link.closed()


async def test_an_engine_refuses_what_is_no_line_of_the_launcher() -> None:
    rng = random.Random(SEED)
    for _ in range(ROUNDS // 2):
        engine = Engine()
        signer = await engine.prove()
        assert engine.owner.proved == [engine.link]
        line = signer.sign(b'{"n": 1}')
        said = damaged(line, rng)
        for piece in pieces(said, rng):
            engine.link.received(piece)
        engine.link.received(b"\n")
        assert engine.owner.lines in ([], [b'{"n": 1}'])
        assert said.startswith(line) or engine.owner.refused == ["a line has a wrong signature"]
        await engine.link.closed()


@pytest.mark.parametrize(
    "pong", [b"[", b"[]", b"null", b"1e999", b'"x"', b"{}", b"9" * 5000, b"[" * 9999]
)
async def test_an_engine_refuses_an_invalid_answer_to_a_ping(pong: bytes) -> None:
    engine = Engine()
    signer = await engine.prove()
    engine.link.received(signer.sign(b'{"pong": ' + pong + b"}"))
    engine.link.received(signer.sign(b'{"n": 1}'))
    assert engine.owner.lines == ([] if engine.owner.refused else [b'{"n": 1}'])
    await engine.link.closed()


async def test_an_engine_keeps_little_of_an_endless_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signed_link, "MAX_LINE_BYTES", 1 << 20)
    stranger, launcher = Engine(), Engine()
    await launcher.prove()
    for engine, most in ((stranger, HANDSHAKE_BYTES), (launcher, 1 << 20)):
        sent = 0
        while not engine.owner.refused:
            engine.link.received(b"x" * 1000)
            sent += 1000
            assert sent < most + 2000
        assert engine.connection.is_over
        await engine.link.closed()


async def test_an_engine_keeps_little_of_a_launcher_that_is_not_expected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signed_link, "MAX_EARLY_BYTES", 1 << 16)
    engine = Engine(is_expected=False)
    signer = await engine.prove()
    sent = 0
    while not engine.owner.refused:
        line = signer.sign(b"x" * 1000)
        engine.link.received(line)
        sent += 1000
        assert sent < (1 << 16) + 2000
    assert engine.owner.lines == []
    await engine.link.closed()


@pytest.mark.parametrize("proved", [False, True], ids=["before", "after"])
def test_a_launcher_survives_what_is_no_engine(tmp_path: Path, proved: bool) -> None:
    rng = random.Random(SEED)
    for number in range(60):
        (tmp_path / str(number)).mkdir()
        listener = Listener(tmp_path / str(number))
        said = json.loads(listener.hello())
        answer: dict[str, Any] = {"nonce": "b", "certificate": "", "proof": proofs(said, "engine")}
        line = json.dumps(answer).encode() + b"\n"
        if proved:
            listener.say(line)
            assert listener.channel.session == 1
            line = LineSigner(proofs(said, "to-launcher")).sign(b'{"stop": true}')
        said_now = damaged(line, rng)
        listener.say(said_now + b"\n")
        assert not listener.channel.is_open or said_now.startswith(line)
        listener.close()


def test_a_launcher_keeps_little_of_an_endless_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "MAX_LINE_BYTES", 1 << 20)
    listener = Listener(tmp_path)
    said = json.loads(listener.hello())
    answer = {"nonce": "b", "certificate": "", "proof": proofs(said, "engine")}
    listener.say(json.dumps(answer).encode() + b"\n")
    assert listener.channel.session == 1
    tracemalloc.start()
    sent = 0
    while listener.channel.is_open:
        listener.say(b"x" * 100_000)
        sent += 100_000
        assert sent < 10 << 20
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()
    listener.close()


@pytest.mark.parametrize(
    "address",
    [b"", b"\0" * 99, b"[" * 99_999, b'{"session": 1e999}', b'{"session": 3, "tcp": 7}',
     b'{"session": 3, "tcp": [["127.0.0.1", 1e999]]}', b'{"session": 3, "tcp": [[[], {}]]}',
     b'{"session": 3, "tcp": [["127.0.0.1", 99999999]]}', b'{"session": [], "tcp": {}}',
     b'{"session": 3, "tcp": [["\xff", 5]]}'],
)  # fmt: skip
def test_a_launcher_survives_invalid_addresses(tmp_path: Path, address: bytes) -> None:
    listener = Listener(tmp_path)
    (tmp_path / "launchers/address.json").write_bytes(address)
    for _ in range(3):
        listener.channel._retry_s = listener.channel._looked_s = 0.0  # now, not in a second
        listener.channel.turn()
        assert not listener.channel.is_open
    listener.close()


class AnsweredConnection(Connection):
    """A connection through the agent: it waits for an answer to each write, with a timeout."""

    def __init__(self) -> None:
        super().__init__()
        self.is_answered = asyncio.Event()

    async def write(self, data: bytes) -> None:
        await super().write(data)
        await asyncio.wait_for(self.is_answered.wait(), 60)


async def test_a_link_that_ends_when_a_write_is_answered_leaves_no_task() -> None:
    # asyncio.wait_for of Python 3.11 and older then ignores the cancellation of the task.
    connection = AnsweredConnection()
    engine = Engine(connection=connection)
    engine.link.received(hello() + b"\n")
    while not connection.written:
        await asyncio.sleep(0)
    connection.is_answered.set()
    await asyncio.sleep(0)  # the waiter of the event is done, wait_for has not gone on
    engine.link.ended("it was closed by the other side")
    for _ in range(10):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
