"""The handshake of a launcher and its engine, and the signatures of their lines.

Both ends use this file: the engine, and, on Python 3.6 or later, the launcher. The launcher speaks
first. A line of the handshake is a JSON object of at most 4 KiB:
    launcher   {"wfrun": 2, "launcher": key, "node": i, "session": s, "nonce": a,
                "proof": P("hello", key, i, s, a)}
    engine     {"nonce": b, "certificate": digest, "proof": P("engine", key, i, s, a, b, digest)}
    launcher   {"proof": P("launcher", key, i, s, a, b, digest)}
``a`` and ``b`` are nonces, ``i`` is the number of the launcher's node, ``s`` the engine's session
(``channels.py``). P(fields) is HMAC-SHA256(secret, text) in hex, with the run's secret. The text is
the concatenation of "wfrun 2" and the fields, each as length, colon, field and comma, so that
different lists have different texts. An engine accepts each ``a`` once in a session, so that an
overheard hello cannot be replayed. ``digest`` is SHA-256 of the engine's certificate, in hex; empty
if the channel is not encrypted. On an encrypted channel everything after the engine's line is
inside TLS (``encryption.py``), so that only the owner of the certificate gets the launcher's proof.

Each later line is sent as 32 hex digits, a space, the line and a newline. The digits are the first
ones of HMAC-SHA256(key, "n|line") for line n of its direction, from 0. The key is P("to-engine",
...) or P("to-launcher", ...). An end that receives a wrong proof or signature closes the
connection. The file system, which holds the secret, is trusted.
"""

import hashlib
import hmac
import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

PROTOCOL = 2
HANDSHAKE_BYTES = 4096
"""Maximum length of a line of the handshake with its newline, in bytes."""
HANDSHAKE_S = 10.0
"""Timeout of the handshake over TCP, in seconds."""
SPOOL_HANDSHAKE_S = 150.0
"""Timeout of the handshake by spool files, in seconds. A network file system may show each new file
half a minute late."""


def proof_of(secret: bytes, *fields: object) -> str:
    """P(fields) of the handshake. Raises ValueError for a field that UTF-8 cannot encode."""
    words = [str(field).encode() for field in ("wfrun %d" % PROTOCOL, *fields)]
    text = b"".join(b"%d:%s," % (len(word), word) for word in words)
    return hmac.new(secret, text, hashlib.sha256).hexdigest()


def is_equal(found: object, wanted: str) -> bool:
    """Compare in constant time; False if ``found`` is no string."""
    return isinstance(found, str) and hmac.compare_digest(found.encode(), wanted.encode())


class LineSigner:
    """Signs the lines of one direction of a connection, or verifies them, in order."""

    def __init__(self, key: str) -> None:
        self._mac = hmac.new(key.encode(), digestmod=hashlib.sha256)
        self._count = 0

    def _tag(self, line: bytes) -> bytes:
        # The number of the line is signed with it: lines cannot be dropped, repeated or reordered.
        mac = self._mac.copy()
        mac.update(b"%d|%s" % (self._count, line))
        self._count += 1
        return mac.hexdigest()[:32].encode()

    def sign(self, line: bytes) -> bytes:
        """Sign the next line; returns the line to send, with its newline."""
        return b"%s %s\n" % (self._tag(line), line)

    def verify(self, signed: bytes) -> bytes:
        """Verify the next line, given without its newline; returns it without its signature. Raises
        ValueError for a wrong signature, also if a line was lost, repeated or reordered."""
        line = signed[33:]
        if not hmac.compare_digest(signed[:33], self._tag(line) + b" "):
            raise ValueError("a line has a wrong signature")
        return line


class LineSplitter:
    """Assembles lines from the pieces of a byte stream."""

    def __init__(self) -> None:
        self.max_bytes = HANDSHAKE_BYTES
        """Length in bytes from which an incomplete line is refused."""
        self._rest = bytearray()

    def feed(self, data: bytes) -> "List[bytes]":
        """Take the next piece; returns the lines that it completes, without newlines. Raises
        ValueError if the incomplete line after these has ``max_bytes`` or more."""
        lines: "List[bytes]" = []
        if b"\n" in data:
            lines = (bytes(self._rest) + data).split(b"\n")
            self._rest = bytearray(lines.pop())
        else:
            self._rest += data
        if len(self._rest) >= self.max_bytes:
            raise ValueError("a line is longer than %d bytes" % self.max_bytes)
        return lines

    @property
    def rest_bytes(self) -> int:
        """Length of the incomplete line."""
        return len(self._rest)


def object_of(line: bytes) -> "Dict[str, Any]":
    """Decode a line of the handshake. Raises ValueError if it is no JSON object or too long."""
    if len(line) > HANDSHAKE_BYTES:
        raise ValueError("a line of the handshake is too long")
    try:
        found = json.loads(line.decode())
    except RecursionError:
        found = None
    if not isinstance(found, dict):
        raise ValueError("a line of the handshake is no object")
    return found
