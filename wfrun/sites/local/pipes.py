"""A child process that exchanges lines with the engine's event loop over its standard streams."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable

from wfrun.sites.local.lines import StreamLines

_READ_BYTES = 1 << 20
_HIGH_WATER_BYTES = 4 << 20
_unreaped: set[int] = set()
"""Pids of released child processes that have not been waited for yet."""


def reap() -> None:
    """Wait for all released child processes that have ended, so that none stays a zombie. Does not
    block."""
    for pid in tuple(_unreaped):
        ended = pid
        with contextlib.suppress(ChildProcessError):
            ended, _ = os.waitpid(pid, os.WNOHANG)
        if ended:
            _unreaped.discard(pid)


def _spawn(argv: tuple[str, ...], log_path: str, stdin: int, stdout: int) -> int:
    """Start a process in its own session, so that neither Ctrl-C nor a closed terminal ends it.
    Returns its pid. Its stderr is appended to ``log_path``. Raises OSError if it cannot be started.
    """
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    actions = [(os.POSIX_SPAWN_DUP2, fd, n) for n, fd in enumerate((stdin, stdout, log))]
    try:
        try:
            return os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions, setsid=True)
        except NotImplementedError:  # an old C library; a process group is nearly as good
            return os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions, setpgroup=0)
    finally:
        os.close(log)


class Pipes:
    """Implements ``LauncherPipe``: starts a process and exchanges lines with it.

    ``on_lines`` is called with received lines, without their newlines; ``on_end`` once, when the
    process closes its standard output, but not after ``close``. The process's stderr is appended to
    ``log_path``. Raises OSError if the process cannot be started.
    """

    def __init__(
        self,
        argv: tuple[str, ...],
        log_path: str,
        on_lines: Callable[[list[bytes]], None],
        on_end: Callable[[], None],
    ) -> None:
        reap()
        self._loop = asyncio.get_running_loop()
        self._on_lines = on_lines
        self._on_end: Callable[[], None] | None = on_end
        self._splitter = StreamLines()
        self._unsent = bytearray()
        self._ended = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        stdin, self._input = os.pipe()
        self._output, stdout = os.pipe()
        try:
            self.pid = _spawn(argv, log_path, stdin, stdout)
        except OSError:
            os.close(self._input)
            os.close(self._output)
            raise
        finally:
            os.close(stdin)
            os.close(stdout)
        for fd in (self._input, self._output):
            os.set_blocking(fd, False)
            with contextlib.suppress(OSError, AttributeError):  # Fewer and longer reads.
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _READ_BYTES)
        self._loop.add_reader(self._output, self._read)

    def send(self, line: bytes) -> None:
        """Send a line, given without its newline. Never waits. Lines arrive in the order of the
        calls."""
        if self._ended.is_set():
            return
        idle = not self._unsent
        self._unsent += line
        self._unsent += b"\n"
        if idle:
            self._write()

    async def drained(self) -> None:
        """Wait until at most a few megabytes are unsent, or the process has ended."""
        await self._drained.wait()

    def _write(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(self._input, self._unsent)]
        except BlockingIOError:
            self._loop.add_writer(self._input, self._write)
            if len(self._unsent) > _HIGH_WATER_BYTES:
                self._drained.clear()
        except OSError:  # the process has died; the end of its output is handled
            self._unsent.clear()
        if len(self._unsent) <= _HIGH_WATER_BYTES:
            self._drained.set()
        if not self._unsent:
            self._loop.remove_writer(self._input)

    def _read(self) -> None:
        try:
            data = os.read(self._output, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._end()
            return
        if lines := self._splitter.feed(data):
            self._on_lines(lines)

    def _end(self) -> None:
        self._let_go()
        if self._on_end is not None:
            self._on_end()

    def _let_go(self) -> None:
        if not self._ended.is_set():
            self._ended.set()
            self._drained.set()
            self._close_input()
            self._loop.remove_reader(self._output)
            os.close(self._output)
            _unreaped.add(self.pid)
            reap()

    def _close_input(self) -> None:
        if self._input >= 0:
            self._loop.remove_writer(self._input)
            os.close(self._input)
            self._input = -1

    async def close(self, *, patience_s: float) -> None:
        """Close the process's standard input, wait up to ``patience_s`` seconds for its end, then
        release it. A process that has not ended goes on."""
        self._on_end = None
        self._on_lines = _ignore
        self._unsent.clear()
        self._close_input()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._ended.wait(), patience_s)
        self._let_go()
        for _ in range(20 if patience_s else 0):  # its output is closed shortly before its end
            if self.pid not in _unreaped:
                break
            await asyncio.sleep(0.005)
            reap()


def _ignore(lines: list[bytes]) -> None:
    """Drop lines received after ``close``."""
