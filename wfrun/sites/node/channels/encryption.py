"""TLS over a stream of bytes, without I/O. Both ends of an encrypted channel use this file: the
engine, and, on Python 3.6 or later, the launcher.

The handshake of ``signing.py`` identifies both ends and names the digest of the engine's
certificate. The certificate is self-signed and made for one session. Its dates are not checked,
since clocks of nodes may be wrong.
"""

import hashlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from typing import Optional

READ_BYTES = 1 << 16
"""Maximum number of bytes decrypted at once; a record of TLS has at most 16 KiB."""
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""The ciphers of TLS 1.2 that have authenticated encryption and forward secrecy. Older versions of
TLS have no such cipher. All ciphers of TLS 1.3 have both properties and are always enabled."""


class Encryption:
    """One end of TLS on a connection.

    ``digest`` is the expected SHA-256 digest of the other end's certificate; None: not checked.
    """

    def __init__(
        self, context: "ssl.SSLContext", is_server: bool, digest: "Optional[str]" = None
    ) -> None:
        import ssl

        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server)
        self._digest = digest
        self.is_open = False
        """Whether the TLS handshake is complete and the certificate was the expected one."""
        self._unsent = bytearray()
        """Data to send that waits for the end of the TLS handshake."""

    def receive(self, data: bytes) -> bytes:
        """Take encrypted bytes from the other end; returns decrypted ones. Raises ValueError for
        invalid TLS, or if the other end does not own the expected certificate."""
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
        """Begin the TLS handshake; called by the launcher, the TLS client."""
        self.receive(b"")

    def send(self, data: bytes) -> None:
        """Encrypt data to send; ``outgoing`` returns the result."""
        if self.is_open:
            self._tls.write(data)
        else:
            self._unsent += data

    def outgoing(self) -> bytes:
        """Take the encrypted bytes to send to the other end now."""
        return self._outgoing.read()


def encryption_of_launcher(digest: str) -> Encryption:
    """Make the launcher's end of TLS. Raises ValueError if this Python has no module ssl."""
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
