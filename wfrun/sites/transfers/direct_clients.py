"""The programs for copies that a site has."""

from __future__ import annotations

import re
from typing import NamedTuple

from wfrun.engine.errors import TransientError
from wfrun.parsers.foreign import number_of
from wfrun.sites.remote.connection import Connection

_PROBE = """\
for c in ssh rsync scp sftp; do command -v $c > /dev/null 2>&1 && echo "wfrun-has $c"; done
echo "wfrun-rsync $(rsync --version 2> /dev/null | head -n 1)"
echo "wfrun-ssh $(ssh -V 2>&1)"
"""
_HAS = re.compile(r"^wfrun-has (\w+)$", re.MULTILINE)
_RSYNC = re.compile(r"^wfrun-rsync rsync\s+version v?(\d+)\.(\d+)", re.MULTILINE)
_SSH = re.compile(r"^wfrun-ssh OpenSSH_\D*(\d+)\.(\d+)", re.MULTILINE)
_MAX_ANSWER_BYTES = 1 << 16


class Clients(NamedTuple):
    """The programs that a command of the user's finds at a site, and their versions."""

    programs: frozenset[str]
    rsync: tuple[int, int]
    """(0, 0): none, or not the one of rsync.samba.org."""
    ssh: tuple[int, int]
    """(0, 0): none, or not OpenSSH's."""


async def ask_clients(connection: Connection) -> Clients:
    """Ask a site for its programs. Raises TransientError where it does not answer."""
    transport = await connection.transport()
    process = await transport.start(_PROBE)
    try:
        process.end_input()
        said = b""
        while len(said) < _MAX_ANSWER_BYTES and (data := await process.read(_MAX_ANSWER_BYTES)):
            said += data
        if await process.wait() is None:
            raise TransientError(f"{transport.host}: the connection was lost")
        return parse_clients(said.decode(errors="replace"))
    finally:
        await process.close()


def parse_clients(said: str) -> Clients:
    """Read the answer of a site."""
    return Clients(frozenset(_HAS.findall(said)), _version(_RSYNC, said), _version(_SSH, said))


def _version(pattern: re.Pattern[str], said: str) -> tuple[int, int]:
    found = pattern.search(said)
    return (number_of(found[1], 0), number_of(found[2], 0)) if found else (0, 0)
