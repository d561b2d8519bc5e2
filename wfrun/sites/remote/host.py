"""The protocol of a head node. The agent implements it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from wfrun.sites.remote.incoming import Listener, OnConnection


class CommandResult(msgspec.Struct, frozen=True):
    """Result of a command that ended."""

    exit_code: int | None
    """None if the command exceeded its timeout and was killed."""
    output: bytes
    errors: bytes


class NewFile(msgspec.Struct, frozen=True):
    """A small file, written under a temporary name and renamed when it is complete."""

    path: str
    content: bytes
    mode: int = 0o600
    digest: str | None = None
    """SHA-256 digest of ``content`` in hexadecimal, compared before the rename; None: not
    compared."""


class Stat(msgspec.Struct, frozen=True):
    """Status of a path."""

    size_bytes: int
    """0 for a directory."""
    is_executable: bool
    """Executable by its owner."""
    is_directory: bool


class Facts(msgspec.Struct, frozen=True):
    """Facts about a head node."""

    host: str
    user: str
    python: str
    """Version of the Python that the agent runs on."""
    clock_offset_s: float
    """The head node's clock minus ours; the error is at most the round-trip time."""
    home: str
    round_trip_s: float
    shell: str = "/bin/sh"
    """Path of the user's login shell."""


class AgentCounts(msgspec.Struct, frozen=True):
    """Commands and CPU time of this connection's agents so far."""

    commands: Mapping[str, int]
    """Number of runs by program name, such as ``sbatch``."""
    cpu_s: float
    """CPU seconds of the agents and their commands."""
    agents: int
    """Number of agents started."""


class Host(Protocol):
    """The head node of one site. Paths are absolute.

    Every method raises TransientError when the connection or the agent is lost or does not answer
    in time. The request may have been carried out then.
    """

    async def facts(self) -> Facts: ...

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> CommandResult:
        """Run a command without a shell, in the user's login environment, whose PATH has the batch
        system's commands; ``env`` has further variables. The command is killed after ``timeout_s``.
        Raises InfeasibleError for an absent program."""

    async def run_series(
        self, commands: Sequence[Sequence[str]], *, timeout_s: float = 30.0
    ) -> list[CommandResult]:
        """Run commands as ``run`` does, one after the other, in one request. The series ends early
        when a command fails, prints too much, or ends later than SERIES_S of ``agent.py``. Returns
        the results of the commands that ran: at least one, and the last may have failed.
        ``timeout_s`` is the timeout of each command. Raises InfeasibleError if the program of the
        first command is absent."""

    async def make_directories(self, paths: Sequence[str], mode: int = 0o700) -> None:
        """Make directories and their parents. Raises InfeasibleError if that is not permitted or
        the disk is full."""

    async def make_private(self, path: str) -> None:
        """Make a directory that this user alone can enter, and its parents. An existing one gets
        mode 0700. Raises InfeasibleError if other users can write in it or replace it."""

    async def write(self, files: Sequence[NewFile]) -> None:
        """Write small files in the given order. Raises InfeasibleError at the first file that
        cannot be written; the files before it are written. Raises TransientError at the first
        file whose digest differs."""

    async def read(self, paths: Sequence[str], limit: int = 1 << 20) -> list[bytes | None]:
        """The last ``limit`` bytes of each file; None if it is absent or unreadable. Raises
        TransientError if a file may be readable soon."""

    async def read_part(self, path: str, start: int, limit: int) -> bytes | None:
        """At most ``limit`` bytes of a file from the byte ``start`` on. Empty at the end of the
        file; None if the file is absent or unreadable. ``limit`` is at most 16 MiB. Raises
        TransientError if the file may be readable soon."""

    async def digest_of_growing(self, path: str, size_bytes: int) -> str | None:
        """Wait until a file that is being written has ``size_bytes``, and return the SHA-256 digest
        of these bytes, in hex. None if the file does not appear or grow for a minute, or is removed
        or replaced."""

    async def stat(self, paths: Sequence[str]) -> list[Stat | None]:
        """Status of each path, symbolic links followed; None if it is absent."""

    async def claim(self, paths: Sequence[str]) -> list[bool]:
        """Create each file exclusively. The result is True for a file that this call or an earlier
        one created, also over another connection. So the call is safe to repeat."""

    async def rename(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Rename files, making the parents of the new names and replacing files there. Raises
        InfeasibleError at the first file that cannot be renamed."""

    async def remove(self, paths: Sequence[str]) -> None:
        """Remove files and directory trees; absent ones are ignored."""

    async def watch(self, directory: str, on_records: Callable[[list[bytes]], None]) -> None:
        """Report the exit records in ``directory``: the contents of all ``*.json`` files that are
        there or appear later.

        ``on_records`` gets each record once per agent, in groups, with line ends replaced by
        spaces. Reported files are merged into one file of JSON lines, ``records.jsonl``. Returns
        when all existing records, those of that file included, have been reported. A file that is
        not a JSON object after some seconds is reported unchanged and stays; an unreadable one is
        reported when it becomes readable.
        """

    async def addresses(self, name: str | None) -> list[str]:
        """Numeric addresses of the machine ``name``, resolved at the head node. If ``name`` is
        None, the addresses of the head node that face the cluster, then loopback. Raises
        InfeasibleError for an unknown name."""

    async def listen(self, address: str | None, on_connection: OnConnection) -> Listener:
        """Listen on a free TCP port of ``address`` of the head node. If it is None, listen on all
        addresses that face the cluster (see ``addresses``). Raises InfeasibleError where that is
        not possible."""

    async def spool(
        self, directory: str, session: int, on_file: Callable[[str, bytes], None]
    ) -> Listener:
        """Report the spool files of this session that are in ``directory`` now or appear later.

        ``on_file`` gets ``<name>.<session>.<connection>`` and the content of the next file of this
        connection, in order. Reported files are removed, as are files of earlier sessions and
        connections. Raises InfeasibleError where the directory cannot be watched.
        """

    async def counts(self) -> AgentCounts: ...
