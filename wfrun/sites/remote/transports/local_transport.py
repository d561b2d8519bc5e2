"""Transport for a wfrun that runs on the head node itself."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import resource
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator

from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.sites.remote.files import cat
from wfrun.sites.remote.files.shell_files import ShellFiles
from wfrun.sites.remote.incoming import Listener, OnConnection
from wfrun.sites.remote.transports.ssh_agent import check_agent
from wfrun.sites.remote.transports.transport import Address

_ERRORS_BYTES = 4096
"""Number of bytes of stderr that are kept."""
PIPE_BYTES = 1 << 18
"""Maximum number of bytes of a command's output that wait to be read: what asyncio reads at
once."""
_LINGER_S = 0.1
_GRACE_S = 2.0
"""Time between SIGHUP and SIGKILL."""


class LocalProcess:
    """Implements ``Process`` by a process in a session of its own, which Ctrl-C does not reach."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.pid = process.pid
        self._process = process
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._errors = bytearray()
        self.is_closed = False
        self._widen()
        self._listener = asyncio.create_task(self._listen())

    def _widen(self) -> None:
        """Enlarge the pipe of stdout, as far as the system allows: with a pipe of 64 KiB the
        command waits for each read."""
        pipe = self._process._transport.get_pipe_transport(1)  # type: ignore[attr-defined]
        # The command may have ended; macOS has no such call.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            fcntl.fcntl(pipe.get_extra_info("pipe"), fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    async def _listen(self) -> None:
        while data := await self._stderr.read(_ERRORS_BYTES):
            self._errors += data
            del self._errors[:-_ERRORS_BYTES]

    async def write(self, data: bytes) -> None:
        try:
            self._stdin.write(data)
            await self._stdin.drain()
        except (OSError, RuntimeError) as error:
            raise TransientError("the command ended before its input did") from error

    def end_input(self) -> None:
        self._stdin.close()

    async def read(self, limit: int) -> bytes:
        return await self._stdout.read(limit)

    def limit_files(self, most_bytes: int) -> None:
        """Let the kernel kill the process by SIGXFSZ when a file that it writes exceeds
        ``most_bytes``. Does nothing where the system has no such call."""
        if sys.platform == "linux":
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    def errors(self) -> str:
        return self._errors.decode(errors="replace")

    async def wait(self) -> int | None:
        await self._exit()
        await asyncio.wait([self._listener], timeout=_LINGER_S)
        return self._process.returncode

    async def _exit(self) -> None:
        """Wait for the process alone: asyncio's ``wait`` also waits for streams, which a child may
        keep open."""
        ended = asyncio.create_task(self._process.wait())
        try:
            while self._process.returncode is None:
                await asyncio.wait([ended], timeout=_LINGER_S)
        finally:
            ended.cancel()

    async def close(self) -> None:
        try:
            await self._end()
        finally:  # also if the end is not waited for
            self._listener.cancel()
            # A child that left the process group may keep its streams open; this end is closed.
            self._process._transport.close()  # type: ignore[attr-defined]
            self.is_closed = True

    async def _end(self) -> None:
        self._stdin.close()
        for number in (signal.SIGHUP, signal.SIGKILL):
            self._signal(number)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._exit(), _GRACE_S)
                break
        self._signal(signal.SIGKILL)  # children that ignored SIGHUP and outlived the shell
        with contextlib.suppress(OSError, RuntimeError):
            await self._stdin.wait_closed()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(OSError):  # the whole group has ended
            os.killpg(self.pid, number)


class LocalTransport:
    """Implements ``Transport`` by ``/bin/sh`` on this machine. It is never lost."""

    def __init__(self) -> None:
        self.host = "localhost"
        self._processes: set[LocalProcess] = set()
        self._closed = asyncio.Event()

    async def connect(self) -> None:
        """Do nothing: there is no connection to make."""

    async def start(self, command: str) -> LocalProcess:
        if self._closed.is_set():
            raise TransientError(f"{self.host}: the connection is closed")
        try:
            process = LocalProcess(
                await asyncio.create_subprocess_exec(
                    "/bin/sh",
                    "-c",
                    os.fsencode(command),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    start_new_session=True,
                    limit=PIPE_BYTES,
                )
            )
        except OSError as error:
            raise TransientError(f"{self.host}: no process could be started: {error}") from error
        if self._closed.is_set():  # meanwhile
            await process.close()
            raise TransientError(f"{self.host}: the connection is closed")
        self._processes = {each for each in self._processes if not each.is_closed}
        self._processes.add(process)
        return process

    async def start_with_agent(self, command: str) -> LocalProcess:
        """Call ``start``: commands on this machine have wfrun's environment with its SSH agent."""
        check_agent(self.host, None)
        return await self.start(command)

    async def address(self) -> Address | None:
        return None

    def read_file(self, path: str, start: int = 0) -> AsyncGenerator[bytes, None]:
        return cat.read_file(self, path, start)

    async def write_file(
        self, path: str, content: AsyncIterator[bytes], mode: int, start: int = 0
    ) -> int:
        return await cat.write_file(self, path, content, mode, start)

    async def plain_files(self) -> ShellFiles:
        return ShellFiles(self)

    async def forward(self, address: str | None, on_connection: OnConnection) -> Listener:
        """Raise InfeasibleError: there is no SSH connection."""
        raise InfeasibleError(f"{self.host}: there is no SSH connection that could forward")

    async def lost(self) -> None:
        await self._closed.wait()

    async def close(self) -> None:
        self._closed.set()
        await asyncio.gather(*(process.close() for process in self._processes))
        self._processes.clear()
