"""Files through ``cat``, for transports that can only run commands."""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator, AsyncIterator

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.sites.remote.transport import Process, Transport

_CHUNK_BYTES = 1 << 20
_BEGIN = b"\x02wfrun: the file begins\x03"
"""Comes before a file: what a profile prints is not part of it."""
SAY_BEGIN = f"printf '\\002{_BEGIN[1:-1].decode()}\\003'"
"""The command that says so."""
_NOISE_BYTES = 1 << 20
_PASSING = ("Stale file handle", "Input/output error", "Resource temporarily unavailable")
"""Of a network file system, mostly: trying again may help."""


def _operand(path: str) -> str:
    """The path as one word of shell, that no command takes for an option."""
    return shlex.quote(path if path.startswith("/") else f"./{path}")


async def read_file(transport: Transport, path: str) -> AsyncGenerator[bytes, None]:
    """``Transport.read_file`` by its ``start``. Close the iterator if it isn't used up."""
    process = await transport.start(
        f"LC_ALL=C; export LC_ALL; {SAY_BEGIN}; exec cat < {_operand(path)}"
    )
    failure = f"{transport.host}:{path} can't be read"
    try:
        process.end_input()
        data = await begun(process, failure)
        while data:
            yield data
            data = await process.read(_CHUNK_BYTES)
        await _succeeded(process, failure)
    finally:
        await process.close()


async def begun(process: Process, failure: str) -> bytes:
    """The first bytes after what ``SAY_BEGIN`` printed; empty when there are none."""
    head = b""
    while _BEGIN not in head:
        data = await process.read(_CHUNK_BYTES)
        head += data
        if not data or len(head) > _NOISE_BYTES:
            if not data:
                await _succeeded(process, failure)
            raise TransientError(f"{failure}: the login shell answered something else")
    first = head.partition(_BEGIN)[2]
    return first or await process.read(_CHUNK_BYTES)


async def write_file(
    transport: Transport, path: str, content: AsyncIterator[bytes], mode: int
) -> int:
    """``Transport.write_file`` by its ``start``. A file of that name is replaced."""
    name = _operand(path)
    process = await transport.start(
        f"LC_ALL=C; export LC_ALL; umask 077; rm -f {name} && cat > {name}"
        f" && chmod {mode:o} {name} && wc -c < {name}"
    )
    failure = f"{transport.host}:{path} can't be written"
    size_bytes = 0
    try:
        try:
            async for data in content:
                await process.write(data)
                size_bytes += len(data)
        except TransientError:
            # It ended before its input did, and its exit code says more. Or the source failed:
            # then nothing waits here, for its input ends as well.
            process.end_input()
            await _succeeded(process, failure)
            raise
        process.end_input()
        answer = b""
        while data := await process.read(_CHUNK_BYTES):
            answer += data
        await _succeeded(process, failure)
    finally:
        await process.close()
    words = answer.split()  # the last one: a profile may have printed something before
    if not words or words[-1] != b"%d" % size_bytes:
        there = words[-1].decode(errors="replace") if words else "none"
        raise TransientError(f"{failure}: {size_bytes} bytes were sent, {there} are there")
    return size_bytes


async def _succeeded(process: Process, failure: str) -> None:
    code = await process.wait()
    if code == 0:
        return
    if code is None:
        raise TransientError(f"{failure}: the connection was lost")
    raise _kind(said := process.errors().strip())(f"{failure}: {said or f'exit code {code}'}")


def _kind(said: str) -> type[WfrunError]:
    passing = any(reason in said for reason in _PASSING)
    return TransientError if passing else InfeasibleError
