"""The handshake of a launcher and its engine, and the signatures of their lines.

Both ends use this file: the engine, and, on Python 3.6 or later, the launcher. The launcher speaks
first. A line of the handshake is a JSON object of at most 4 KiB:
    launcher   {"wfrun": 2, "launcher": key, "node": i, "session": s, "nonce": a,
                "proof": P("hello", key, i, s, a)}
    engine     {"nonce": b, "certificate": digest, "proof": P("engine", key, i, s, a, b, digest)}
    launcher   {"proof": P("launcher", key, i, s, a, b, digest)}
P(fields) is HMAC-SHA256(secret, text) in hex. The text is that of "wfrun 2" and the fields, each as
its length, a colon, itself and a comma, so that no two lists of fields have the same text. ``s`` is
the engine's session (``channels.py``). An engine accepts each ``a`` once in a session: a hello that
was overheard proves nothing. ``digest`` is SHA-256 of the engine's certificate, in hex; it is empty
where the channel is not encrypted. Otherwise all that follows the engine's line is inside TLS
(``encryption.py``), and the launcher's proof is its first line: only the owner of the certificate
gets it.

Each later line, in either direction, is 32 hex digits of HMAC-SHA256(P("to-engine", ...) or
P("to-launcher", ...), "i|line") for line i of that direction, counted from 0, then a space, the
line and its end. An end that receives a wrong proof or signature closes the connection. The file
system, which holds the secret, is trusted.
"""

import hashlib
import hmac
import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

PROTOCOL = 2
HANDSHAKE_BYTES = 4096
"""Maximum length of a line of the handshake, its end included."""
HANDSHAKE_S = 10.0
"""Timeout of the handshake."""
SPOOL_HANDSHAKE_S = 150.0
"""Timeout of the handshake by files: a network file system may show a new file half a minute late,
in each direction."""


def proof_of(secret: bytes, *fields: object) -> str:
    """P(fields) of the handshake. Raises ValueError for text that is no Unicode."""
    words = [str(field).encode() for field in ("wfrun %d" % PROTOCOL, *fields)]
    text = b"".join(b"%d:%s," % (len(word), word) for word in words)
    return hmac.new(secret, text, hashlib.sha256).hexdigest()


def is_equal(found: object, wanted: str) -> bool:
    """Compare in constant time; False for anything that is no string."""
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
        """The line as it is sent, with its end."""
        return b"%s %s\n" % (self._tag(line), line)

    def verify(self, signed: bytes) -> bytes:
        """Verify the signature of the next line and return the line. ``signed`` comes without its
        line end. Raises ValueError for a wrong signature, also if the line is not the next one."""
        line = signed[33:]
        if not hmac.compare_digest(signed[:33], self._tag(line) + b" "):
            raise ValueError("a line has a wrong signature")
        return line


class LineSplitter:
    """Assembles lines from the pieces of a byte stream."""

    def __init__(self) -> None:
        self.max_bytes = HANDSHAKE_BYTES
        """Maximum length of a line that is not complete yet."""
        self._rest = bytearray()

    def feed(self, data: bytes) -> "List[bytes]":
        """The lines that this piece completes, without their ends. Raises ValueError if an
        incomplete line has ``max_bytes`` or more."""
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
    """The object of a line of the handshake. Raises ValueError for anything else."""
    if len(line) > HANDSHAKE_BYTES:
        raise ValueError("a line of the handshake is too long")
    try:
        found = json.loads(line.decode())
    except RecursionError:
        found = None
    if not isinstance(found, dict):
        raise ValueError("a line of the handshake is no object")
    return found
