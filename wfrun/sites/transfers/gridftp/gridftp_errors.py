"""Classification of errors of ``globus-url-copy``. Tested with client 10.12 and server 13.24."""

from __future__ import annotations

import re

from wfrun.engine.errors import NoSpaceError, TransientError, WfrunError
from wfrun.sites.transfers.method import MethodFailedError

_FULL = re.compile(r"No space left on device|[Qq]uota exceeded")
_NO_PROXY = re.compile(r"Valid credentials could not be found|Could not find a valid proxy")
_EXPIRED = re.compile(r"expired \d+ minutes ago|[Cc]redential.*expired|certificate has expired")
_HINTS = [
    (re.compile(pattern, re.IGNORECASE), hint)
    for pattern, hint in (
        (
            r"gss_init_sec_context|gss_accept|GSS failure|globus_gsi_|\b530[ -]|authenti|authoriz",
            "Try globus-url-copy -list with the URL of the site. Is the server's CA trusted here?",
        ),
        (
            r"Unable to connect|getaddrinfo",
            "Does the server run? Is 'gridftp' right in the catalog?",
        ),
        # The agent sees the source and the directory: another method works, or knows the cause.
        (
            r"Permission denied|Operation not permitted|Read-only file system|File too large"
            r"|Is a directory|Not a directory|File name too long|No such file|File not found",
            "Does the server show the site's file system, and work as the site's user?",
        ),
    )
]
"""Patterns of messages that mean that the method failed, each with a hint for the user."""
_NO_SERVER = re.compile(r"an end-of-file was reached|not configured for SSHFTP")
_CODE = re.compile(r"^\d{3}[- ](\d{3}[- ])?")
_NOISE = re.compile(
    r"End\.|GSS failure:|GSS M.*|error: globus_ftp_client: the server responded with an error"
    r"|Command failed\. : .*|globus_gsi_gssapi: Error with .*|globus_xio: A system call failed: .*"
    r"|error: globus_ftp_control: gss_init_sec_context failed"
)
"""Lines that add nothing to the other lines."""
_MAX_SAID = 600


def explain(what: str, said: str) -> WfrunError:
    """The error of a client that printed ``said`` to stderr. ``what`` is the beginning of the
    message, with the URLs."""
    reason = shorten(said)
    if _FULL.search(said):
        return NoSpaceError(f"{what}: {reason}", hint="Make room at the destination.")
    # The cause comes first: what is shown of a method that failed is cut at its end.
    if _NO_PROXY.search(said):
        hint = "Make one with grid-proxy-init, or set X509_USER_PROXY."
        return MethodFailedError(f"there is no proxy certificate: {what}", hint=hint)
    if _EXPIRED.search(said):
        cause = "the proxy certificate has expired (grid-proxy-init makes a new one)"
        return MethodFailedError(f"{cause}: {what}: {reason}")
    if "sshftp://" in what and _NO_SERVER.search(said):
        hint = (
            "For sshftp, ssh must log in without a password, and the account needs "
            "~/.globus/sshftp: see docs/gridftp.md."
        )
        return MethodFailedError(f"{reason}: {what}", hint=hint)
    for pattern, hint in _HINTS:
        if pattern.search(said):
            return MethodFailedError(f"{reason}: {what}", hint=hint)
    return TransientError(f"{what}: {reason}")


def shorten(said: str) -> str:
    """The client's output as one line, without codes, noise and repetitions."""
    lines = (_CODE.sub("", line.strip()).strip() for line in said.splitlines())
    kept = list(dict.fromkeys(line for line in lines if line and not _NOISE.fullmatch(line)))
    return "; ".join(kept)[:_MAX_SAID] or "it printed no reason"
