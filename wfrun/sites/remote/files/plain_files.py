"""The file operations that copies need at a host without an agent."""

from __future__ import annotations

from typing import Protocol

from wfrun.sites.remote.host import Stat


class PlainFiles(Protocol):
    """Files behind a transport, by SFTP (``SftpFiles``) or by shell commands (``ShellFiles``).

    Paths are absolute. Every method raises InfeasibleError where the host refuses, TransientError
    when the connection is lost.
    """

    async def stat(self, path: str) -> Stat | None:
        """Status of a path, symbolic links followed; None if it is absent. Raises InfeasibleError
        for a pipe or a device, whose reading may have no end."""

    async def make_directory(self, path: str) -> None:
        """Make a directory and its parents where they do not exist."""

    async def rename(self, path: str, final: str, mode: int) -> None:
        """Give a file its permissions and its final name, replacing any file or directory of this
        name."""

    async def remove(self, path: str) -> None:
        """Remove a file or directory tree, if it exists."""
