"""Detection of a full disk at a site, after a program failed without saying so."""

from __future__ import annotations

import asyncio
import shlex
from contextlib import suppress

from wfrun.engine.errors import InfeasibleError, WfrunError
from wfrun.parsers.foreign import number_of
from wfrun.sites.remote.files import cat
from wfrun.sites.remote.transports.transport import UNNAMED, Transport

FULL_KB = 1024
"""Free space in kB below which a disk counts as full after a failed write. It is not 0, since a few
blocks may have become free after the failure, for example those of the part."""
LOOK_S = 30.0
"""Timeout of a query of the free space of a disk."""


async def shortage(transport: Transport, directory: str, missing_bytes: int = 0) -> str | None:
    """A message with the free space that df shows, if the disk is full or has no room for
    ``missing_bytes``. None if it has room, or if df does not answer."""
    with suppress(WfrunError, ValueError, IndexError, asyncio.TimeoutError):
        asked = cat.answer(transport, f"df -Pk {shlex.quote(directory)}", directory)
        said = await asyncio.wait_for(asked, LOOK_S)
        available_kb = number_of(said.splitlines()[-1].split()[3], signed=True)
        if available_kb is not None and available_kb < max(FULL_KB, missing_bytes // 1024):
            return f"No space left on device: df shows {available_kb} kB"
    return None


async def name_full_disk(error: InfeasibleError, transport: Transport, directory: str) -> None:
    """Add to an error of SFTP that the disk is full, if df shows that. Version 3 of the protocol
    has no code for this: OpenSSH answers ``Failure`` (draft-ietf-secsh-filexfer-02, section 7)."""
    if UNNAMED in error.message and (found := await shortage(transport, directory)):
        error.message += f"; {found}"
