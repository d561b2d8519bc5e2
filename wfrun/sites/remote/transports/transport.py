"""The protocol of a connection to one host, for commands and files.

Implementations: ``AsyncsshTransport``, ``OpensshTransport`` (the system's ssh with a shared
master connection) and ``LocalTransport`` (wfrun runs on the host itself).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import NamedTuple, Protocol

from wfrun.engine.errors import WfrunError
from wfrun.sites.remote.files.plain_files import PlainFiles
from wfrun.sites.remote.incoming import Listener, OnConnection

UNNAMED = " (no space, a quota, or a directory?)"
"""Appended to the message of an SFTP error that has no code of its own."""


class NeedsLoginError(WfrunError):
    """The host requires a login that only the user can give; the hint says how."""


class Address(NamedTuple):
    """Where an SSH server is, as far as this machine knows."""

    host: str
    port: int
    user: str
    """The user who logs in there."""
    host_keys: tuple[str, ...]
    """Verified host keys in the format of ``authorized_keys``; none: they are not known here."""


class Process(Protocol):
    """A command that runs at the host, without a terminal."""

    async def write(self, data: bytes) -> None:
        """Write to the command's stdin; returns when the backlog is small. Raises TransientError
        when the command or the connection has ended."""

    def end_input(self) -> None:
        """Close the command's stdin."""

    async def read(self, limit: int) -> bytes:
        """Read 1 to ``limit`` bytes of the command's stdout; returns empty bytes at its end."""

    def errors(self) -> str:
        """The last 4 kB of the command's stderr so far."""

    async def wait(self) -> int | None:
        """Wait for the command's exit code; None if the connection was lost before."""

    async def close(self) -> None:
        """Close the command's streams, and send it SIGHUP if the transport can."""


class Transport(Protocol):
    """One connection to one host, used once: ``connect``, work, ``close``."""

    host: str
    """Name given by the user, for messages."""

    async def connect(self) -> None:
        """Connect. Raises TransientError when the host cannot be reached now, NeedsLoginError when
        it requires a login that only the user can give. Raises InfeasibleError when a retry cannot
        help. For an unknown host key, its hint has the command that accepts the key."""

    async def start(self, command: str) -> Process:
        """Start a POSIX shell command. Raises TransientError when the connection is lost."""

    async def start_with_agent(self, command: str) -> Process:
        """Start a command that can use the user's SSH agent, over a connection of its own if
        needed; other commands cannot use the agent. Raises InfeasibleError where there is no agent,
        and the errors of ``connect``."""

    async def address(self) -> Address | None:
        """The address of the host; None: wfrun runs there itself."""

    def read_file(self, path: str, start: int = 0) -> AsyncGenerator[bytes, None]:
        """Stream the bytes of a file from the byte ``start`` on. Callers close the generator unless
        they exhaust it. Raises InfeasibleError if the file is absent or unreadable, TransientError
        when the connection is lost."""

    async def write_file(
        self, path: str, content: AsyncIterator[bytes], mode: int, start: int = 0
    ) -> int:
        """Write a new file in an existing directory; returns its size in bytes. With ``start``, a
        multiple of 1 MiB, write an existing file from this byte on.

        The file has this name before it is complete, so callers give a temporary name. Raises
        InfeasibleError if it cannot be written (full, no permission), TransientError when the
        connection is lost; an incomplete file may remain.
        """

    async def plain_files(self) -> PlainFiles:
        """The file operations at this host that need no agent."""

    async def forward(self, address: str | None, on_connection: OnConnection) -> Listener:
        """Listen on a free TCP port of the host's address ``address``; None: of all addresses that
        the host allows. Raises InfeasibleError if the host or the transport does not forward ports,
        TransientError when the connection is lost."""

    async def lost(self) -> None:
        """Wait for the end of the connection, whatever its reason."""

    async def close(self) -> None:
        """End the connection and all commands on it."""
