"""The protocols of a machine that runs a launcher, and of the connection to that launcher."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from wfrun.engine.exchange import Content


class LauncherPipe(Protocol):
    """The connection to a launcher process: lines in both directions."""

    def send(self, line: bytes) -> None:
        """Send a line, given without its newline. Never waits. Lines arrive in the order of the
        calls."""

    async def drained(self) -> None:
        """Wait until the amount of unsent data is small, or the launcher has ended."""

    async def close(self, *, patience_s: float) -> None:
        """Close the launcher's standard input, wait up to ``patience_s`` seconds for its end, then
        disconnect. A launcher that has not ended goes on."""


class LauncherHost(Protocol):
    """The machine on which a launcher runs, with the directory of the site for one run.

    The directory has the site's file store, and the sandboxes, logs and exit records of attempts.
    """

    launcher_log: str
    """Path of the file with the launchers' stderr, for messages."""

    async def prepare(self) -> None:
        """Make the directory (mode 0700), if it does not exist. Raises InfeasibleError if it cannot
        be made or written."""

    async def is_removed(self) -> bool:
        """Whether the directory does not exist any more."""

    async def launch(
        self,
        config: Mapping[str, Any],
        on_lines: Callable[[list[bytes]], None],
        on_end: Callable[[], None],
    ) -> LauncherPipe:
        """Start a launcher.

        ``on_lines`` is called with lines from the launcher, without their newlines; ``on_end``
        once, when the launcher has ended, but not after ``close``. Raises OSError if the launcher
        cannot be started, TransientError if the machine cannot be reached.
        """

    async def stderr_tail(self) -> str:
        """The last part of the launchers' stderr."""

    async def log(self, key: str) -> tuple[bytes, bytes]:
        """Stdout and stderr of an attempt."""

    async def absent(self, files: Mapping[str, Content]) -> list[str]:
        """Return the names of files that the store lacks or has with other contents, as
        ``Site.absent`` does."""

    async def remove(self, names: Sequence[str]) -> None:
        """Remove files from the store, as ``Site.remove`` does."""

    async def close(self) -> None:
        """Disconnect from the machine."""
