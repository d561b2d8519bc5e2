"""The transfer method by the source's own sftp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wfrun.sites.transfers.direct.direct_clients import SSH, Clients, Program
from wfrun.sites.transfers.direct.direct_copy import DirectMethod, Sending
from wfrun.sites.transfers.method import NotCarriedError

WITH_REPUT = (6, 7)
"""The first OpenSSH whose sftp resumes uploads."""


class DirectSftp(DirectMethod):
    """Implements ``TransferMethod`` by sftp, with a batch of one command."""

    name = "sftp"
    # It does not state its version: that of ssh beside it.
    programs = (SSH, Program("sftp", "ssh -V 2>&1", SSH.version))

    def works_between(self, source: Clients, destination: Clients) -> bool:
        return {"ssh", "sftp"} <= source.keys()

    def resumes(self, source: Clients) -> bool:
        return source["sftp"] >= WITH_REPUT

    def client(self, sending: Sending) -> Sequence[str]:
        return "sftp", *sending.kibit_per_s, "-b", "batch", "-F", "config", "--", sending.to.host

    def files(self, sending: Sending) -> Mapping[str, str]:
        # A command is a line. sftp(1): words with spaces stand in quotes, quotes behind \\.
        if "\n" in sending.path or "\0" in sending.path:
            raise NotCarriedError(f"does not write to {sending.path!r}")
        quoted = sending.path.replace("\\", "\\\\").replace('"', '\\"')
        command = "reput" if sending.left else "put"
        return {"batch": f'{command} file "{quoted}"\n'}
