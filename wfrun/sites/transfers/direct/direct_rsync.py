"""The transfer method by the source's own rsync."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wfrun.sites.transfers.direct.direct_clients import SSH, Clients, Program
from wfrun.sites.transfers.direct.direct_copy import DirectMethod, Sending
from wfrun.sites.transfers.direct.direct_script import remote_path

MIN_RSYNC = (3, 0)
"""The first rsync with ``-s``. Without it the remote shell reads the arguments, which changes some
names."""


class DirectRsync(DirectMethod):
    """Implements ``TransferMethod`` by rsync."""

    name = "rsync"
    programs = (
        SSH,
        Program("rsync", "rsync --version 2> /dev/null", r"rsync\s+version v?(\d+)\.(\d+)"),
    )

    after_ssh = re.compile(r"rsync error:|rsync: .*connection", re.IGNORECASE)

    def works_between(self, source: Clients, destination: Clients) -> bool:
        versions = [site.get("rsync", (0, 0)) for site in (source, destination)]
        return "ssh" in source and min(versions) >= MIN_RSYNC

    def resumes(self, source: Clients) -> bool:
        return True

    def client(self, sending: Sending) -> Sequence[str]:
        # In place: the part is new, and a temporary file beside it would have another name. What
        # is there already is compared when the rest has arrived, and sent again if it differs.
        how = ["--append-verify"] if sending.left else ["--inplace", "--whole-file"]
        if sending.bytes_per_s is not None:  # KiB/s; 0 would be no limit
            how.append(f"--bwlimit={max(1, int(sending.bytes_per_s / 1024))}")
        return (
            "rsync", "-s", *how, "--copy-links", "-e", "ssh -F config",
            "--", "file", remote_path(sending.to, sending.path),
        )  # fmt: skip
