"""TLS over a stream of bytes, without I/O. Both ends of an encrypted channel use this file: the
engine, and, on Python 3.6 or later, the launcher.

Each end knows the other by the handshake (``signing.py``), which names the digest of the engine's
certificate. No authority and no date is looked at: the certificate is new with each session of an
engine, and clocks of nodes may be wrong.
"""

import hashlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from typing import Optional

READ_BYTES = 1 << 16
"""Maximum number of bytes decrypted at once; a record of TLS has at most 16 KiB."""
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Ciphers with authenticated encryption and forward secrecy; TLS before 1.2 has none. All ciphers
of TLS 1.3 are of this kind and are not in the list."""


class Encryption:
    """One end of TLS on a connection.

    ``digest`` is that of the certificate that the other end must have; with None the other end
    needs no certificate.
    """

    def __init__(
        self, context: "ssl.SSLContext", is_server: bool, digest: "Optional[str]" = None
    ) -> None:
        import ssl

        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server)
        self._digest = digest
        self.is_open = False
        """Whether the other end is known and can read what is sent."""
        self._unsent = bytearray()
        """What was to be sent before the handshake of TLS was complete."""

    def receive(self, data: bytes) -> bytes:
        """Take bytes from the other end; returns the decrypted ones. Raises ValueError for bytes
        that are not TLS, or if the other end does not own the expected certificate."""
        import ssl

        self._incoming.write(data)
        pieces = []
        try:
            if not self.is_open:
                self._tls.do_handshake()
                self._check()
                self.is_open = True
                if self._unsent:
                    self._tls.write(self._unsent)
                    self._unsent.clear()
            while True:
                piece = self._tls.read(READ_BYTES)
                if not piece:
                    break
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise ValueError("its encryption is invalid: %s" % error) from error
        return b"".join(pieces)

    def _check(self) -> None:
        if self._digest is None:
            return
        found = hashlib.sha256(self._tls.getpeercert(True) or b"").hexdigest()
        if found != self._digest:
            raise ValueError(
                "another process answers in the engine's place: its certificate differs"
            )

    def begin(self) -> None:
        """Begin the handshake of TLS, which the launcher does."""
        self.receive(b"")

    def send(self, data: bytes) -> None:
        """Encrypt what is to be sent."""
        if self.is_open:
            self._tls.write(data)
        else:
            self._unsent += data

    def outgoing(self) -> bytes:
        """Take what is to be sent to the other end now."""
        return self._outgoing.read()


def encryption_of_launcher(digest: str) -> Encryption:
    """The launcher's end. Raises ValueError where this Python has no TLS."""
    try:
        import ssl
    except ImportError:
        raise ValueError(
            "the engine asks for encryption, and Python here has no module ssl; 'encrypt: false' "
            "among the site's launchers in the catalog does without"
        ) from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the digest is checked instead
    context.set_ciphers(CIPHERS)
    return Encryption(context, False, digest)
