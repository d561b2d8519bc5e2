"""The protocol of a head node, which the agent answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from wfrun.sites.remote.callers import Answer, Listener


class Result(msgspec.Struct, frozen=True):
    """A command that ended."""

    exit_code: int | None
    """None: it took longer than it was given, and was killed."""
    output: bytes
    errors: bytes


class NewFile(msgspec.Struct, frozen=True):
    """A small file to be written whole: under a temporary name, then renamed."""

    path: str
    content: bytes
    mode: int = 0o600


class Stat(msgspec.Struct, frozen=True):
    """What a path is."""

    size_bytes: int
    """0 for a directory."""
    is_executable: bool
    """For its owner."""
    is_directory: bool


class Facts(msgspec.Struct, frozen=True):
    """What a head node is."""

    host: str
    user: str
    python: str
    """Version of the Python that the agent runs on."""
    clock_offset_s: float
    """Its clock minus ours, to within the round trip."""
    home: str
    round_trip_s: float


class Counts(msgspec.Struct, frozen=True):
    """What was run on the head node so far, by this connection's agents."""

    commands: Mapping[str, int]
    """By program name: ``sbatch``, ``squeue`` …"""
    cpu_s: float
    """CPU seconds of the agents and the commands they ran."""
    agents: int
    """How many were started."""


class Host(Protocol):
    """The head node of one site. Paths are absolute. Every method raises TransientError when the
    connection or the agent is lost or does not answer in time: what was asked for may have been
    done."""

    async def facts(self) -> Facts: ...

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> Result:
        """Run a command, without a shell, in the user's login environment (so that PATH has the
        batch system's commands), with ``env`` added."""

    async def make_directories(self, paths: Sequence[str], mode: int = 0o700) -> None:
        """With their parents. Raises InfeasibleError where that is not allowed or the disk is
        full."""

    async def write(self, files: Sequence[NewFile]) -> None:
        """Write small files, all of them in one message, in this order. Raises InfeasibleError
        where one can't be written; those before it are."""

    async def read(self, paths: Sequence[str], limit: int = 1 << 20) -> list[bytes | None]:
        """The last ``limit`` bytes of each file; None where it is absent or can't be read."""

    async def stat(self, paths: Sequence[str]) -> list[Stat | None]:
        """What each path is, links followed; None where it is absent."""

    async def claim(self, paths: Sequence[str]) -> list[bool]:
        """Create each of these files exclusively; whether it was us who did."""

    async def rename(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Rename files into place, making the directories that they go to; a file that is there
        is replaced. Raises InfeasibleError where one can't be renamed."""

    async def remove(self, paths: Sequence[str]) -> None:
        """Remove files and trees, as far as they are there."""

    async def watch(self, directory: str, told: Callable[[list[bytes]], None]) -> None:
        """From now on give the contents of all ``*.json`` files that are in ``directory`` or come
        to be there, each once per agent, in groups. They are the exit records of attempts; those
        told of are moved together into one file of JSON lines, ``records.jsonl``. Returns when
        all that was there, in that file too, has been told of. Line ends within a record become
        spaces. A file that is no JSON object after some seconds is told of as it is, and stays;
        one that can't be read is not told of until it can."""

    async def addresses(self, name: str | None) -> list[str]:
        """Numeric addresses of a machine as the head node knows them; None: its own, the likeliest
        to be reached from a node first, loopback last. Raises InfeasibleError where it is not
        known."""

    async def listen(self, address: str | None, answer: Answer) -> Listener:
        """Take TCP connections from now on at this address of the head node, or all of them, at a
        free port. Raises InfeasibleError where that can't be done."""

    async def spool(
        self, directory: str, session: int, told: Callable[[str, bytes], None]
    ) -> Listener:
        """From now on give all files of this session that are, or come to be, in the directory:
        ``<name>.<session>.<connection>`` and what is in the next one of it, in order; they are
        removed, and so is what earlier sessions and connections left. Raises InfeasibleError where
        that can't be done."""

    async def counts(self) -> Counts: ...
