"""The programs for copies that a site has. Each transfer method names its own."""

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
    """Its command, a plain word: it goes into a script."""
    version_command: str
    """Shell command whose output has the version in its first line."""
    version: str
    """Regular expression of the beginning of that line, with groups for the two first numbers. It
    tells the program from others of this name."""

    def version_in(self, line: str) -> tuple[int, int]:
        """The version that this line states; (0, 0) if it is not of this program."""
        found = re.match(self.version, line)
        return (number_of(found[1], 0), number_of(found[2], 0)) if found else (0, 0)


SSH = Program("ssh", "ssh -V 2>&1", r"OpenSSH_\D*(\d+)\.(\d+)")

Clients = Mapping[str, tuple[int, int]]
"""Versions by name of the programs that a command of the user's finds at a site. (0, 0): another
program of this name, or one that does not state its version."""


async def ask_clients(connection: Connection, programs: Collection[Program]) -> Clients:
    """Ask a site which of the programs it has. Raises TransientError where it does not answer."""
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
    """The script that asks for programs: a line for each that is there."""
    return "".join(
        f"command -v {program.name} > /dev/null 2>&1 && "
        f'echo "wfrun-has {program.name} $({program.version_command} | head -n 1)"\n'
        for program in programs
    )


def parse_clients(said: str, programs: Collection[Program]) -> Clients:
    """Read the answer of a site."""
    found: dict[str, tuple[int, int]] = {}
    for program in programs:
        begin = f"wfrun-has {program.name} "
        for line in said.splitlines():
            if line.startswith(begin):
                found[program.name] = program.version_in(line[len(begin) :])
    return found
