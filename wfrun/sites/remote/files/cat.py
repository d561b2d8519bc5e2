"""Files through ``cat``, for transports without SFTP."""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator, AsyncIterator

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.sites.remote.transports.transport import Process, Transport

_CHUNK_BYTES = 1 << 20
BLOCK_BYTES = 1 << 20
"""Block size in bytes: dd can begin to write a file only at multiples of it."""
_BEGIN = b"\x02wfrun: the file begins\x03"
"""Separates the output of a login profile from the content of a file."""
IN_ENGLISH = "LC_ALL=C; export LC_ALL"
"""Shell command after which programs report errors in words that `wfrun.sites.transfers.causes`
knows, whatever the user's language is."""
PRINT_BEGIN = f"printf '\\002{_BEGIN[1:-1].decode()}\\003'"
"""Shell command that prints the separator."""
_ANSWER_BYTES = 1000
"""Number of bytes that are kept of the output of a copy; its last word is the file's size."""
_NOISE_BYTES = 1 << 20
"""Maximum output of a login profile."""
_TRANSIENT = ("Stale file handle", "Input/output error", "Resource temporarily unavailable")
"""Error messages, mostly of network file systems, after which a retry may succeed."""


def _operand(path: str) -> str:
    """Quote a path so that no command takes it for an option."""
    return shlex.quote(path if path.startswith("/") else f"./{path}")


async def read_file(transport: Transport, path: str, start: int = 0) -> AsyncGenerator[bytes, None]:
    """Implements ``Transport.read_file`` by a command."""
    program = f"tail -c +{start + 1}" if start else "cat"
    process = await transport.start(
        f"{IN_ENGLISH}; {PRINT_BEGIN}; exec {program} < {_operand(path)}"
    )
    failure = f"{transport.host}:{path} cannot be read"
    try:
        process.end_input()
        data = await begun(process, failure)
        while data:
            yield data
            data = await process.read(_CHUNK_BYTES)
        await _succeeded(process, failure)
    finally:
        await process.close()


async def answer(transport: Transport, script: str, failure: str) -> bytes:
    """Run a short script and return its output. Raises an error whose message begins with
    ``failure`` if the script fails, or prints more than _NOISE_BYTES."""
    try:
        process = await transport.start(f"{IN_ENGLISH}; {PRINT_BEGIN}; {script}")
    except TransientError as error:
        error.message = f"{failure}: {error.message}"
        raise
    try:
        process.end_input()
        said = data = await begun(process, failure)
        while data and len(said) < _NOISE_BYTES:
            data = await process.read(_CHUNK_BYTES)
            said += data
        if data:
            raise TransientError(f"{failure}: the host answered more than {_NOISE_BYTES} bytes")
        await _succeeded(process, failure)
        return said
    finally:
        await process.close()


async def begun(process: Process, failure: str) -> bytes:
    """Skip what the login shell prints before the separator of ``PRINT_BEGIN``. Returns the first
    bytes after it; empty if the output ends there.

    Raises an error whose message begins with ``failure`` if the command fails or ends before the
    separator, or if there are more than `_NOISE_BYTES` before it.
    """
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
    transport: Transport, path: str, content: AsyncIterator[bytes], mode: int, start: int = 0
) -> int:
    """Implements ``Transport.write_file`` by a command. Replaces an existing file unless ``start``
    is given."""
    name = _operand(path)
    write = f"rm -f {name} && cat > {name}"
    if start:
        # Never appended to: an earlier writer that is still alive writes the same at its place.
        blocks = f"bs={BLOCK_BYTES} seek={start // BLOCK_BYTES}"
        write = f"dd of={name} {blocks} conv=notrunc"
    process = await transport.start(
        f"{IN_ENGLISH}; umask 077; {write} && chmod {mode:o} {name} && wc -c < {name}"
    )
    failure = f"{transport.host}:{path} cannot be written"
    size_bytes = start
    try:
        try:
            async for data in content:
                await process.write(data)
                size_bytes += len(data)
        except TransientError:
            # Either the command ended early, and its exit code says why; or reading the source
            # failed, and the command ends with its input.
            process.end_input()
            await _succeeded(process, failure)
            raise
        process.end_input()
        answer = b""
        while data := await process.read(_CHUNK_BYTES):
            answer = (answer + data)[-_ANSWER_BYTES:]
        await _succeeded(process, failure)
    finally:
        await process.close()
    words = answer.split()  # the last word, since a profile may print others before
    if not words or words[-1] != b"%d" % size_bytes:
        there = words[-1].decode(errors="replace") if words else "0"
        raise TransientError(f"{failure}: {there} of {size_bytes} bytes were copied")
    return size_bytes


async def _succeeded(process: Process, failure: str) -> None:
    code = await process.wait()
    if code == 0:
        return
    if code is None:
        raise TransientError(f"{failure}: the connection was lost")
    raise _kind(said := process.errors().strip())(f"{failure}: {said or f'exit code {code}'}")


def _kind(said: str) -> type[WfrunError]:
    passing = any(reason in said for reason in _TRANSIENT)
    return TransientError if passing else InfeasibleError
