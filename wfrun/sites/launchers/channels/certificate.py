"""The engine's self-signed certificate for encrypted channels, a new one for each session."""

from __future__ import annotations

import datetime
import hashlib
import ssl
import tempfile
from pathlib import Path

from wfrun.sites.node.channels.encryption import CIPHERS


def make_context() -> tuple[ssl.SSLContext, str]:
    """Make a TLS server context with a new key and certificate. Returns the context, and the
    SHA-256 digest of the certificate in hex."""
    # Imported here: they take 50 ms, and few commands open channels.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "wfrun")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.datetime(2000, 1, 1))
        .not_valid_after(datetime.datetime(2049, 12, 31))
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0  # a launcher that connects again begins anew
    # The module ssl reads keys from files alone. The directory is accessible to the user alone.
    with tempfile.TemporaryDirectory(prefix="wfrun-") as directory:
        path = Path(directory, "key.pem")
        path.write_bytes(pem)
        context.load_cert_chain(path)
    der = certificate.public_bytes(serialization.Encoding.DER)
    return context, hashlib.sha256(der).hexdigest()
