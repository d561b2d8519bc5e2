"""The way to one machine: commands run there, and files pass.

Implementations: ``AsyncsshTransport``, ``OpensshTransport`` (the system's ssh with a shared
master connection) and ``LocalTransport`` (wfrun runs on the head node itself).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Protocol

from wfrun.engine.errors import WfrunError
from wfrun.sites.remote.callers import Answer, Listener


class NeedsLoginError(WfrunError):
    """The site wants a new login that only the user can give; the hint says how."""


class Process(Protocol):
    """A command that runs at the far end. It knows no terminal."""

    async def write(self, data: bytes) -> None:
        """Give it input; returns when little enough is on the way. Raises TransientError when it,
        or the connection, has ended."""

    def end_input(self) -> None:
        """Close its stdin."""

    async def read(self, limit: int) -> bytes:
        """1 to ``limit`` bytes of its stdout as they come; empty at the end."""

    def errors(self) -> str:
        """The last 4 kB of its stderr so far."""

    async def wait(self) -> int | None:
        """Its exit code; None where the connection was lost before it was known."""

    async def close(self) -> None:
        """End it: its streams are closed, and it gets a hang-up where the transport can."""


class Transport(Protocol):
    """One connection to one host, used once: ``connect``, work, ``close``."""

    host: str
    """As the user named it, for messages."""

    async def connect(self) -> None:
        """Raises TransientError when the host can't be reached now, NeedsLoginError when it wants
        a login that can't be given without the user, InfeasibleError for what no new try will
        mend (an unknown host key: the message holds the command that would accept it)."""

    async def start(self, command: str) -> Process:
        """Run a line of POSIX shell there. Raises TransientError when the connection is lost."""

    def read_file(self, path: str) -> AsyncGenerator[bytes, None]:
        """Stream a file's bytes; to be closed where it is not used up. Raises InfeasibleError where
        it is absent or can't be read, TransientError when the connection is lost."""

    async def write_file(self, path: str, content: AsyncIterator[bytes], mode: int) -> int:
        """Write a new file under exactly this name (the caller chooses a temporary one), its
        directory exists; returns its size in bytes. Raises InfeasibleError where it can't be
        written (full, no permission), TransientError when the connection is lost. What was written
        of a file that fails may stay behind."""

    async def forward(self, address: str | None, answer: Answer) -> Listener:
        """Take TCP connections from now on at this address of the host, or all that it allows,
        at a free port. Raises InfeasibleError where the host does not allow it or the transport
        can't, TransientError when the connection is lost."""

    async def lost(self) -> None:
        """Return when the connection has ended, for whatever reason."""

    async def close(self) -> None:
        """End the connection and all that runs over it."""
