"""The program ``globus-url-copy`` on this machine."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from collections.abc import Awaitable, Callable, Sequence

from wfrun.engine.errors import TransientError
from wfrun.sites.remote.transports.local_transport import LocalProcess

PROGRAM = "globus-url-copy"
STALL_S = 600.0
"""Maximum time without progress of a copy, in seconds. It replaces the client's ``-stall-timeout``,
which is switched off because it depends on reports that not all servers send."""
_LOOKS = 8
"""Number of checks of the progress within STALL_S."""
_ANSWERS_S = 10.0
"""Timeout of the question for the client's version."""
_MAX_LINES_BYTES = 1 << 16


class GridFtpClient:
    """Runs the client. The installed version is determined once."""

    def __init__(self) -> None:
        self._finding: asyncio.Task[str | None] | None = None

    async def version(self) -> str | None:
        """The version of the client; None if it is not installed or does not work."""
        if self._finding is None:
            self._finding = asyncio.create_task(_version())
        return await asyncio.shield(self._finding)

    async def run(
        self,
        argv: Sequence[str],
        progress: Callable[[], Awaitable[int | None]],
        max_bytes: int | None = None,
    ) -> str | None:
        """Run the client to its end. Returns None after success, else what the client printed to
        stderr.

        ``progress`` is called repeatedly and returns the number of bytes that have arrived; None if
        unknown. Raises TransientError if neither this number nor the client's output changes for
        STALL_S, or if the client writes more than ``max_bytes`` into a file here (None: no limit).
        At the end of the call, also by an error or a cancellation, the client and its children,
        such as ssh, have ended.
        """
        process = await start_client(argv)
        try:
            if max_bytes is not None:
                # A server may send without end. The client has not connected yet.
                process.limit_files(max_bytes)
            process.end_input()
            await _watch(process, progress)
            code = await process.wait()
            if code == -signal.SIGXFSZ:
                raise TransientError(f"{PROGRAM} was sent a file longer than {max_bytes} bytes")
            return process.errors() if code else None
        finally:
            await process.close()


async def start_client(argv: Sequence[str]) -> LocalProcess:
    """Start the client, without a terminal. Raises TransientError if that fails."""
    # Without a terminal ssh cannot ask for a password; it must not open a window for it either.
    variables = {**os.environ, "LC_ALL": "C", "SSH_ASKPASS_REQUIRE": "never"}
    try:
        return LocalProcess(
            await asyncio.create_subprocess_exec(
                *(PROGRAM, *argv),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                env=variables,
            )
        )
    except OSError as error:
        raise TransientError(f"{PROGRAM} could not be started: {error}") from error


async def _watch(process: LocalProcess, progress: Callable[[], Awaitable[int | None]]) -> None:
    """Wait for the end of the client's output. Raises TransientError after STALL_S without
    progress."""
    loop = asyncio.get_running_loop()
    changed_s = loop.time()
    arrived: int | None = 0
    while True:
        reading = asyncio.ensure_future(process.read(_MAX_LINES_BYTES))
        try:
            await asyncio.wait([reading], timeout=STALL_S / _LOOKS)
        finally:
            if not reading.done():
                reading.cancel()
                await asyncio.wait([reading])
        if not reading.cancelled():
            if not reading.result():
                return
            changed_s = loop.time()
            continue
        now = await progress()
        if now not in (None, arrived):
            changed_s, arrived = loop.time(), now
        elif loop.time() - changed_s >= STALL_S:
            raise TransientError(f"{PROGRAM} made no progress for {STALL_S:g} s")


async def _version() -> str | None:
    if shutil.which(PROGRAM) is None:
        return None
    try:
        process = await start_client(["-version"])
    except TransientError:
        return None
    try:
        process.end_input()
        # It prints the version to stderr and exits with 1.
        await asyncio.wait_for(process.wait(), _ANSWERS_S)
        found = re.match(rf"{PROGRAM}: (\S+)", process.errors())
        return found[1] if found else None
    except asyncio.TimeoutError:
        return None
    finally:
        await process.close()
