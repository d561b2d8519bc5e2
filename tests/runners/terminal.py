"""A user's command on a real pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.runners.harness import WFRUN, User


class Terminal:
    """The command on a terminal, and what has been drawn there."""

    def __init__(
        self, user: User, columns: int, *words: str | Path, argv: Sequence[str] = (str(WFRUN),)
    ) -> None:
        self._near, far = pty.openpty()
        fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environment = {k: v for k, v in user.environment.items() if k not in ("COLUMNS", "LINES")}
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *argv, *map(str, words)],
            cwd=user.folder,
            env={**environment, "TERM": "xterm-256color"},
            stdin=far,
            stdout=far,
            stderr=far,
        )
        os.close(far)
        self._drawn = bytearray()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._near, 1 << 16)
            except OSError:  # the other end is closed
                return
            self._drawn += data

    @property
    def text(self) -> str:
        """What has been drawn, without colours and movements."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._drawn.decode(errors="replace"))

    @property
    def drawn(self) -> str:
        """All that the terminal was sent."""
        return self._drawn.decode(errors="surrogateescape")

    @property
    def descriptor(self) -> int:
        """The user's end of the terminal."""
        return self._near

    def type(self, keys: bytes) -> None:
        os.write(self._near, keys)

    def done(self) -> int:
        """Wait for the end of the command; returns its exit status."""
        try:
            return self._process.wait(100)
        finally:
            self.close()

    def close(self) -> None:
        """Hang up, as when a connection breaks."""
        self._process.send_signal(signal.SIGHUP)
        self._process.wait(100)
        self._reader.join(10)
        os.close(self._near)
