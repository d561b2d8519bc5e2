"""The protocols of a machine that runs a launcher, and of the connection to that launcher."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from wfrun.engine.exchange import Content


class LauncherPipe(Protocol):
    """The connection to a launcher process: lines in both directions."""

    def send(self, line: bytes) -> None:
        """Send a line, given without its end, after those sent before. Never waits."""

    async def drained(self) -> None:
        """Return when little is left to send."""

    async def close(self, *, patience_s: float) -> None:
        """Close the launcher's input, wait this long for its end, then release it."""


class LauncherHost(Protocol):
    """The machine on which a launcher runs, and the directory of the site there.

    The directory is the site's file system for one run: its file store, the sandboxes and logs of
    the attempts, and their exit records.
    """

    launcher_log: str
    """Where the launcher's stderr is written, for messages."""

    async def prepare(self) -> None:
        """Make the directory (mode 0700). Raises InfeasibleError if it cannot be made or
        written."""

    async def is_removed(self) -> bool:
        """Whether the directory does not exist any more."""

    async def launch(
        self,
        config: Mapping[str, Any],
        on_lines: Callable[[list[bytes]], None],
        on_end: Callable[[], None],
    ) -> LauncherPipe:
        """Start a launcher.

        ``on_lines`` is called with its lines, without their ends; ``on_end`` once when it has
        ended, but not after ``close``. Raises OSError if it cannot be started, TransientError if
        the machine cannot be reached.
        """

    async def stderr_tail(self) -> str:
        """The end of the launchers' stderr."""

    async def log(self, key: str) -> tuple[bytes, bytes]:
        """Stdout and stderr of an attempt."""

    async def absent(self, files: Mapping[str, Content]) -> list[str]:
        """As ``Site.absent``."""

    async def remove(self, names: Sequence[str]) -> None:
        """As ``Site.remove``."""

    async def close(self) -> None:
        """Release the machine."""
