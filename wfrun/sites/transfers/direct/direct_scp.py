"""The transfer method by the source's own scp."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wfrun.sites.transfers.direct.direct_clients import SSH, Clients, Program
from wfrun.sites.transfers.direct.direct_copy import DirectMethod, Sending
from wfrun.sites.transfers.direct.direct_script import remote_path
from wfrun.sites.transfers.method import NotCarriedError

OVER_SFTP = (8, 7)
"""The first OpenSSH whose scp can use SFTP (``-s``). With an older scp, the remote shell reads the
path."""
_PLAIN = re.compile(r"[\w./@%+=,-]+", re.ASCII)

SCP = Program("scp", "ssh -V 2>&1", SSH.version)
"""scp does not state its version, so the version is that of ssh beside it."""


class DirectScp(DirectMethod):
    """Implements ``TransferMethod`` by scp."""

    name = "scp"
    programs = (SSH, SCP)

    def works_between(self, source: Clients, destination: Clients) -> bool:
        return {"ssh", "scp"} <= source.keys() and (
            source["scp"] >= OVER_SFTP or "scp" in destination
        )

    def client(self, sending: Sending) -> Sequence[str]:
        is_old = sending.clients["scp"] < OVER_SFTP
        if is_old and not _PLAIN.fullmatch(sending.path):
            raise NotCarriedError(f"of this age does not write to {sending.path!r}")
        # Not quiet: ssh would not say why it fails.
        return (
            "scp", *([] if is_old else ["-s"]), *sending.kibit_per_s, "-F", "config", "--", "file",
            remote_path(sending.to, sending.path),
        )  # fmt: skip
