"""Copies of files between sites: one file for each transfer method, and the registry of methods.

A new method is a class with the methods of ``TransferMethod`` in a file of its own, and one record
in ``METHODS``.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from wfrun.sites.transfers.bandwidth_cap import BandwidthCaps
from wfrun.sites.transfers.direct.direct_rsync import DirectRsync
from wfrun.sites.transfers.direct.direct_scp import DirectScp
from wfrun.sites.transfers.direct.direct_sftp import DirectSftp
from wfrun.sites.transfers.gridftp.gridftp import GridFtp
from wfrun.sites.transfers.local.local_copy import LocalCopy
from wfrun.sites.transfers.local.same_file_system import SameFileSystem
from wfrun.sites.transfers.method import TransferMethod
from wfrun.sites.transfers.rclone import Rclone
from wfrun.sites.transfers.relay.relay import FileRelay
from wfrun.sites.transfers.relay.stream import Stream


class MethodRecord(msgspec.Struct, frozen=True):
    """A transfer method in the registry."""

    name: str
    """Name in catalogs and in the log."""
    make: Callable[[BandwidthCaps], TransferMethod]
    """Constructor, given the maximum bandwidths of the catalog."""
    large_only: bool = False
    """Whether each file costs a process or a login. Then small files use another method, unless the
    catalog names this method."""
    direct: bool = False
    """Whether files go directly from site to site. All direct methods use the same way: if one is
    slow, so are the others."""
    relayed: bool = False
    """Whether files pass through this machine over the connections of the sites."""
    resumes: bool = False
    """Whether a copy of a large file goes on from the part that an earlier copy has left."""


METHODS: dict[str, MethodRecord] = {
    record.name: record
    for record in (
        MethodRecord("same-file-system", lambda caps: SameFileSystem()),
        MethodRecord("copy", lambda caps: LocalCopy(caps.links)),
        MethodRecord("gridftp", GridFtp, True, direct=True, resumes=True),
        MethodRecord("rsync", DirectRsync, True, direct=True, resumes=True),
        MethodRecord("scp", DirectScp, large_only=True, direct=True),
        MethodRecord("sftp", DirectSftp, True, direct=True, resumes=True),
        MethodRecord("rclone", Rclone, large_only=True),
        MethodRecord("stream", Stream, relayed=True, resumes=True),
        MethodRecord("relay", FileRelay, relayed=True),
    )
}
"""Methods by name, in order of preference. A file uses the first method that can carry it. If the
catalog names methods for the pair of sites, only these are tried. ``stream`` works between any two
sites; ``relay`` is for the time in which a site has no agent."""
