"""What globus-url-copy 10.12 prints, and what users read."""

from __future__ import annotations

import pytest

from wfrun.engine.errors import NoSpaceError, TransientError, WfrunError
from wfrun.sites.transfers.gridftp import gridftp_client
from wfrun.sites.transfers.gridftp.gridftp_errors import explain
from wfrun.sites.transfers.method import MethodFailedError

# Printed by globus-url-copy 10.12 with globus-gridftp-server 13.24.
FULL = """
error: globus_ftp_client: the server responded with an error
500 500-Command failed. : callback failed.
500-globus_xio: System error in write: No space left on device
500-globus_xio: A system call failed: No space left on device
500 End.

"""
FORBIDDEN = """
error: globus_ftp_client: the server responded with an error
500 500-Command failed. : globus_l_gfs_file_open failed.
500-globus_xio: Unable to open file /etc/xx
500-globus_xio: System error in open: Permission denied
500-globus_xio: A system call failed: Permission denied
500 End.

"""
EXPIRED = """
error: globus_ftp_control: gss_init_sec_context failed
GSS failure:
GSS Major Status: General failure
GSS Minor Status Error Chain:
globus_gsi_gssapi: Error with gss context
globus_gsi_gssapi: Error with GSI credential
globus_gsi_gssapi: Error with gss credential handle
globus_credential: Error with credential: The proxy credential: /tmp/x509up_u1000
      with subject: /O=Grid/CN=Tester
      expired 1440 minutes ago.


"""
NO_PROXY = """
error: globus_ftp_control: gss_init_sec_context failed
globus_gsi_gssapi: Error with gss credential handle
globus_credential: Valid credentials could not be found in any of the possible locations.
Attempt 1
globus_credential: Error reading host credential
"""
NO_CA = """
error: globus_ftp_control: gss_init_sec_context failed
GSS failure:
globus_sysconfig: Could not find a valid trusted CA certificates directory
globus_sysconfig: File does not exist: /nonexist is not a valid directory
"""
REFUSED = """
error: globus_xio: Unable to connect to 127.0.0.1:24099
globus_xio: System error in connect: Connection refused
globus_xio: A system call failed: Connection refused
"""
ENDED = """
error: an end-of-file was reached
globus_xio: An end of file occurred
"""


@pytest.mark.parametrize(
    ("said", "kind", "shown", "hint"),
    [
        (FULL, NoSpaceError, "System error in write: No space left on device", "Make room"),
        (FORBIDDEN, MethodFailedError, "open file /etc/xx; globus_xio: System error", "user"),
        (EXPIRED, MethodFailedError, "the proxy certificate has expired (grid-proxy-init", ""),
        (EXPIRED, MethodFailedError, "/tmp/x509up_u1000; with subject", ""),
        (NO_PROXY, MethodFailedError, "there is no proxy certificate", "grid-proxy-init"),
        (NO_CA, MethodFailedError, "/nonexist is not a valid directory", "CA"),
        (REFUSED, MethodFailedError, "Connection refused", "Does the server run?"),
        (ENDED, TransientError, "an end-of-file was reached", ""),
        ("", TransientError, "it printed no reason", ""),
    ],
)
def test_causes(said: str, kind: type[WfrunError], shown: str, hint: str) -> None:
    error = explain("A cannot be copied to B", said)
    assert type(error) is kind
    assert "A cannot be copied to B" in error.message
    if kind is MethodFailedError:  # a display cuts long messages
        assert not error.message.startswith("A")
    assert shown in error.message
    assert hint in (error.hint or "")
    assert len(error.message) < 500


def test_only_sshftp_is_explained_by_ssh() -> None:
    error = explain("A cannot be copied to sshftp://host/B", ENDED)
    assert type(error) is MethodFailedError
    assert "~/.globus/sshftp" in (error.hint or "")


async def test_the_client_has_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """It leads a session of its own, which has none, and opens no window for a password."""
    monkeypatch.setattr(gridftp_client, "PROGRAM", "sh")
    script = "cat; [ $(ps -o sid= -p $$) = $$ ] && echo alone; echo $SSH_ASKPASS_REQUIRE"
    process = await gridftp_client.start_client(["-c", script])
    process.end_input()
    said = b""
    while data := await process.read(100):
        said += data
    await process.close()
    assert said.split() == [b"alone", b"never"]
