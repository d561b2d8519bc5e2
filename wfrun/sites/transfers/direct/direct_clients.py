"""Finds out which programs for copies a site has. Each transfer method names its programs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from wfrun.engine.errors import TransientError
from wfrun.parsers.foreign import number_of
from wfrun.sites.remote.connection import Connection

_MAX_ANSWER_BYTES = 1 << 16


class Program(NamedTuple):
    """A program that a transfer method runs at sites."""

    name: str
    """The program's command, a plain word: it goes into a script."""
    version_command: str
    """Shell command whose output has the version in its first line."""
    version: str
    """Regular expression for the beginning of the version line, with groups for the first two
    numbers. It does not match other programs of the same name."""

    def version_in(self, line: str) -> tuple[int, int]:
        """The version that a line states; (0, 0) if the line is not from this program."""
        found = re.match(self.version, line)
        return (number_of(found[1], 0), number_of(found[2], 0)) if found else (0, 0)


SSH = Program("ssh", "ssh -V 2>&1", r"OpenSSH_\D*(\d+)\.(\d+)")

Clients = Mapping[str, tuple[int, int]]
"""Version of each program that is in the user's PATH at a site, by name. (0, 0): it is another
program of this name, or does not state its version."""


async def ask_clients(connection: Connection, programs: Collection[Program]) -> Clients:
    """Ask a site which of the programs it has. Raises TransientError if the connection is lost."""
    transport = await connection.transport()
    process = await transport.start(probe(programs))
    try:
        process.end_input()
        said = b""
        while len(said) < _MAX_ANSWER_BYTES and (data := await process.read(_MAX_ANSWER_BYTES)):
            said += data
        if await process.wait() is None:
            raise TransientError(f"{transport.host}: the connection was lost")
        return parse_clients(said.decode(errors="replace"), programs)
    finally:
        await process.close()


def probe(programs: Collection[Program]) -> str:
    """The shell script that prints a line with the version of each program that exists."""
    return "".join(
        f"command -v {program.name} > /dev/null 2>&1 && "
        f'echo "wfrun-has {program.name} $({program.version_command} | head -n 1)"\n'
        for program in programs
    )


def parse_clients(said: str, programs: Collection[Program]) -> Clients:
    """Parse the output of the script of ``probe``."""
    found: dict[str, tuple[int, int]] = {}
    for program in programs:
        begin = f"wfrun-has {program.name} "
        for line in said.splitlines():
            if line.startswith(begin):
                found[program.name] = program.version_in(line[len(begin) :])
    return found
