"""The engine's side of the handshake, without I/O. ``wfrun/sites/node/channels/signing.py``
describes the handshake."""

from __future__ import annotations

import json
import secrets
import ssl
from typing import Any

from wfrun.sites.node.channels.encryption import Encryption
from wfrun.sites.node.channels.signing import (
    PROTOCOL,
    LineSigner,
    is_equal,
    object_of,
    proof_of,
)

MAX_NODES = 1 << 16
"""Maximum number of nodes of a launcher. Each has a link of its own."""
NONCE_CHARACTERS = 32
"""Length of a launcher's nonce in its hello."""


class HandshakeRefusedError(Exception):
    """The engine refuses a connection: the other end does not prove that it is a launcher of this
    run, or speaks another version of the handshake."""


class Credentials:
    """What an engine needs for its handshakes in one session: the secret of the run, the number of
    the session, the TLS certificate, and the used nonces."""

    def __init__(
        self,
        secret: bytes = b"",
        session: int = 0,
        context: ssl.SSLContext | None = None,
        digest: str = "",
        used_nonces: set[str] | None = None,
    ) -> None:
        self.secret = secret
        self.session = session
        self.context = context
        """TLS context with the engine's certificate; None: channels are not encrypted."""
        self.digest = digest
        """SHA-256 digest of the certificate; empty without one."""
        self.used_nonces = set() if used_nonces is None else used_nonces
        """Nonces of the accepted hellos. A second hello with a used nonce is refused as a replay.
        """

    def without_encryption(self) -> Credentials:
        """These credentials without TLS, for the spool. The used nonces are shared."""
        return Credentials(self.secret, self.session, used_nonces=self.used_nonces)


class EngineHandshake:
    """The engine's side of one handshake: call ``answer`` with the launcher's first line, then
    ``complete`` with its second.

    Both methods raise HandshakeRefusedError with the reason. ``complete`` raises ValueError for a
    line that is no JSON object.
    """

    def __init__(self, credentials: Credentials) -> None:
        self.launcher = ""
        """Key of the launcher that the other end claims to be."""
        self.node = 0
        self.has_answered = False
        """Whether a hello was accepted. The sender of an accepted hello knows the run's secret."""
        self._credentials = credentials
        self._fields: tuple[object, ...] = ()

    def answer(self, line: bytes) -> bytes:
        """Check a launcher's hello; returns the line to answer it with, without its newline."""
        said = _hello_of(line)
        known = self._credentials
        launcher, node, nonce = said["launcher"], said["node"], said["nonce"]
        self.launcher, self.node = launcher, node
        if said["session"] != known.session:
            raise HandshakeRefusedError("it calls for another session of the engine")
        fields = (launcher, node, known.session, nonce)
        if not is_equal(said.get("proof"), proof_of(known.secret, "hello", *fields)):
            raise HandshakeRefusedError("it does not know the secret of this run")
        if nonce in known.used_nonces:
            raise HandshakeRefusedError("it repeats what a launcher has sent before")
        known.used_nonces.add(nonce)
        ours = secrets.token_hex(16)
        self._fields = (*fields, ours, known.digest)
        self.has_answered = True
        answer = {"nonce": ours, "certificate": known.digest, "proof": self._proof("engine")}
        return json.dumps(answer).encode()

    def complete(self, line: bytes) -> tuple[LineSigner, LineSigner]:
        """Check the launcher's proof. Returns the signer of lines to the launcher and the verifier
        of lines from it."""
        if not is_equal(object_of(line).get("proof"), self._proof("launcher")):
            raise HandshakeRefusedError("it does not know the secret of this run")
        return LineSigner(self._proof("to-launcher")), LineSigner(self._proof("to-engine"))

    def encryption(self) -> Encryption | None:
        """The engine's end of TLS; None: the channel is not encrypted."""
        context = self._credentials.context
        return None if context is None else Encryption(context, True)

    def _proof(self, who: str) -> str:
        return proof_of(self._credentials.secret, who, *self._fields)


def _hello_of(line: bytes) -> dict[str, Any]:
    """Decode a hello and check the types of its fields. Raises HandshakeRefusedError."""
    try:
        said = object_of(line)
        str(said.get("launcher")).encode()  # raises ValueError for half a surrogate pair
    except ValueError:
        said = {}
    if said.get("wfrun") == 1:
        raise HandshakeRefusedError(
            "it is a launcher of an earlier version of wfrun, which this one cannot continue with: "
            "cancel its batch job, and its tasks run in a new launcher"
        )
    types = {"wfrun": int, "launcher": str, "node": int, "session": int, "nonce": str}
    if (
        any(type(said.get(name)) is not of for name, of in types.items())
        or said["wfrun"] != PROTOCOL
        or not said["launcher"]
        or not 0 <= said["node"] < MAX_NODES
        or len(said["nonce"]) != NONCE_CHARACTERS
        or not said["nonce"].isascii()
    ):
        raise HandshakeRefusedError("its handshake is invalid")
    return said
