"""The handshake: who can pass it, and who cannot, at both ends."""

from __future__ import annotations

import contextlib
import json
import random
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wfrun.sites.launchers.channels.handshake import (
    Credentials,
    EngineHandshake,
    HandshakeRefusedError,
)
from wfrun.sites.node.channels.channels import Channel
from wfrun.sites.node.channels.signing import PROTOCOL, LineSigner, proof_of

SECRET = b"5" * 64
NONCE = "n" * 32


def hello(**changes: Any) -> bytes:
    """The hello of a launcher, with another proof where fields of it differ."""
    said: dict[str, Any] = {
        "wfrun": PROTOCOL, "launcher": "L1", "node": 0, "session": 3, "nonce": NONCE, **changes,
    }  # fmt: skip
    names = [said.get(name) for name in ("launcher", "node", "session", "nonce")]
    return json.dumps({"proof": proof_of(SECRET, "hello", *names), **said}).encode()


def engine(secret: bytes = SECRET) -> EngineHandshake:
    return EngineHandshake(Credentials(secret, 3))


def test_different_fields_have_different_proofs() -> None:
    """Also those that look alike when they are joined."""
    rng = random.Random(13)
    lists = {
        tuple("".join(rng.choices("1:,|a", k=rng.randrange(4))) for _ in range(rng.randrange(4)))
        for _ in range(3000)
    }
    assert len(lists) > 1000
    assert len({proof_of(SECRET, *fields) for fields in lists}) == len(lists)


def test_separators_in_fields_do_not_matter() -> None:
    """Where fields are joined by a character, these pairs sign the same text."""
    pairs = [
        (("engine", "L|0", 1, "a", "b"), ("engine", "L", 0, "1|a", "b")),
        (("engine", "L", 1, "a|b", "c"), ("engine", "L", 1, "a", "b|c")),
        (("1:a,", "b"), ("1", "a,", "b")),
        (("",), ()),
    ]
    for first, second in pairs:
        assert proof_of(SECRET, *first) != proof_of(SECRET, *second)


def test_the_number_of_a_line_cannot_be_part_of_it() -> None:
    one = LineSigner("k")
    for _ in range(12):
        tag = one.sign(b"x")[:32]
    other = LineSigner("k")
    other.sign(b"x")
    assert other.sign(b"1|x")[:32] != tag


def test_both_ends_sign_with_keys_of_their_own() -> None:
    known = engine()
    answer = json.loads(known.answer(hello()))
    fields = ("L1", 0, 3, NONCE, answer["nonce"], "")
    proof = proof_of(SECRET, "launcher", *fields)
    signer, verifier = known.complete(json.dumps({"proof": proof}).encode())
    with pytest.raises(ValueError, match="wrong signature"):
        verifier.verify(signer.sign(b"mirrored")[:-1])


REFUSED: dict[str, Any] = {
    "another role": {"proof": proof_of(SECRET, "engine", "L1", 0, 3, NONCE)},
    "another launcher's proof": {"proof": proof_of(SECRET, "hello", "L2", 0, 3, NONCE)},
    "another node's proof": {"proof": proof_of(SECRET, "hello", "L1", 1, 3, NONCE)},
    "another session": {"session": 2},
    "another run": {"proof": proof_of(b"6" * 64, "hello", "L1", 0, 3, NONCE)},
    "no proof": {"proof": None},
    "a list as proof": {"proof": [1]},
    "half a surrogate pair as proof": {"proof": "\ud800" * 64},
    "half a surrogate pair as name": {"launcher": "\ud800", "proof": ""},
    "no launcher": {"launcher": ""},
    "a number as launcher": {"launcher": 7},
    "a negative node": {"node": -1},
    "true as node": {"node": True},
    "too many nodes": {"node": 1 << 70},
    "a short nonce": {"nonce": "n"},
    "a long nonce": {"nonce": "n" * 3000},
    "a nonce of other letters": {"nonce": "é" * 32},
    "an earlier version": {"wfrun": 1},
    "a later version": {"wfrun": 3},
}


@pytest.mark.parametrize("case", REFUSED)
def test_hellos_that_the_engine_refuses(case: str) -> None:
    known = engine()
    changes = REFUSED[case]
    if "launcher" in changes and changes["launcher"] == "\ud800":
        line = json.dumps({**json.loads(hello()), **changes}).encode()
    else:
        line = hello(**changes)
    with pytest.raises((HandshakeRefusedError, ValueError)):
        known.answer(line)
    assert not known.has_answered


def test_a_hello_is_accepted_once_in_a_session() -> None:
    credentials = Credentials(SECRET, 3)
    EngineHandshake(credentials).answer(hello())
    with pytest.raises(HandshakeRefusedError, match="it repeats"):
        EngineHandshake(credentials).answer(hello())
    with pytest.raises(HandshakeRefusedError, match="it repeats"):
        EngineHandshake(credentials.without_encryption()).answer(hello())
    EngineHandshake(credentials).answer(hello(nonce="m" * 32))


@pytest.mark.parametrize("who", ["engine", "hello", "to-engine", "to-launcher"])
def test_a_launcher_has_to_play_its_own_part(who: str) -> None:
    """The mirror: the engine's own proof, or any other than the launcher's, sent back to it."""
    known = engine()
    answer = json.loads(known.answer(hello()))
    fields = ("L1", 0, 3, NONCE, answer["nonce"], "")
    with pytest.raises(HandshakeRefusedError, match="does not know the secret"):
        known.complete(json.dumps({"proof": proof_of(SECRET, who, *fields)}).encode())
    if who == "engine":
        assert answer["proof"] == proof_of(SECRET, who, *fields)


class Listener:
    """A process at the engine's address, and a launcher that calls it."""

    def __init__(self, directory: Path) -> None:
        (directory / "launchers").mkdir()
        (directory / "launchers/secret").write_bytes(SECRET)
        self._listener = socket.create_server(("127.0.0.1", 0))
        address = {"session": 3, "tcp": [self._listener.getsockname()]}
        (directory / "launchers/address.json").write_text(json.dumps(address))
        self.poller = select.poll()
        self.channel = Channel(str(directory), "L1", 0, ["tcp"], self.poller)
        self.caller: socket.socket | None = None

    def hello(self) -> bytes:
        """Take the launcher's call; returns its hello."""
        self.channel.turn()
        self.caller, _ = self._listener.accept()
        self.caller.settimeout(30)
        said = b""
        while not said.endswith(b"\n"):
            self.channel.turn()
            said += self.caller.recv(4096)
        return said

    def say(self, data: bytes) -> None:
        """Answer the launcher, and let it take the answer."""
        assert self.caller is not None
        with contextlib.suppress(ConnectionError):
            self.caller.sendall(data)
        self.poller.poll(10_000)
        self.channel.turn()

    def close(self) -> None:
        self.channel.close()
        self._listener.close()
        if self.caller is not None:
            self.caller.close()


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    listener = Listener(tmp_path)
    yield listener
    listener.close()


def proofs(said: dict[str, Any], who: str, secret: bytes = SECRET, nonce: str = "b") -> str:
    names = [said[name] for name in ("launcher", "node", "session", "nonce")]
    return proof_of(secret, who, *names, nonce, "")


def test_a_launcher_believes_the_engine(listener: Listener) -> None:
    """Beside the refusals below: this answer is accepted."""
    said = json.loads(listener.hello())
    answer = {"nonce": "b", "certificate": "", "proof": proofs(said, "engine")}
    listener.say(json.dumps(answer).encode() + b"\n")
    assert listener.channel.is_open


@pytest.mark.parametrize("case", ["mirror", "launcher", "hello", "another run", "a mirrored nonce"])
def test_answers_that_a_launcher_refuses(listener: Listener, case: str) -> None:
    line = listener.hello()
    said = json.loads(line)
    answer = {"nonce": "b", "certificate": "", "proof": ""}
    if case == "mirror":
        answer = said
    elif case == "another run":
        answer["proof"] = proofs(said, "engine", b"6" * 64)
    elif case == "a mirrored nonce":
        answer.update(nonce=said["nonce"], proof=said["proof"])
    else:
        answer["proof"] = proofs(said, case)
    listener.say(json.dumps(answer).encode() + b"\n")
    assert not listener.channel.is_open
    assert listener.channel.session == 0


def test_a_launcher_that_calls_another_launcher_is_no_engine(
    listener: Listener, tmp_path: Path
) -> None:
    """Two launchers that are led to each other refuse each other."""
    (tmp_path / "other").mkdir()
    other = Listener(tmp_path / "other")
    first, second = listener.hello(), other.hello()
    listener.say(second)
    other.say(first)
    assert not listener.channel.is_open
    assert not other.channel.is_open
    other.close()
