"""Files of this machine: those of a local site, or those that the user names."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.exchange import Content
from wfrun.engine.model import ORIGIN, SiteSpec
from wfrun.sites.remote.host import Stat
from wfrun.sites.remote.transports.local_transport import LocalProcess
from wfrun.sites.stored import measure_here
from wfrun.sites.transfers.endpoints.endpoint import (
    CHUNK_BYTES,
    check_digest,
    check_size,
    compare_digests,
    digest_to_have,
    file_mode,
    missing_part,
    part_name,
)
from wfrun.sites.transfers.endpoints.request_batcher import RequestBatcher
from wfrun.sites.transfers.local.disk import (
    explain_read,
    explain_write,
    left_part,
    make_folders,
    open_regular,
    remove,
    replace,
    sync_folder,
    sync_tree,
)
from wfrun.sites.transfers.local.local_small import SmallFile, read_all, stat_all, write_all
from wfrun.sites.transfers.relay.following import Following, follow_here
from wfrun.sites.transfers.relay.hashed import HashedStream
from wfrun.sites.transfers.resume import keeps_part

_FLUSH_BYTES = 32 << 20
"""Number of bytes of a file after which the written part is flushed to the disk."""
_Q = TypeVar("_Q")
_T = TypeVar("_T")


class LocalEndpoint:
    """Implements ``Endpoint`` on a directory, or, as ``LocalEndpoint()``, on all of this machine.

    Files are read-only in a store, and writable for their owner at ORIGIN.
    """

    def __init__(
        self, index: int = ORIGIN, spec: SiteSpec | None = None, store: Path | None = None
    ) -> None:
        self.index = index
        self.spec = spec
        # Local disks need no bound: the other end of a copy has one.
        self.slot: AbstractAsyncContextManager[Any] = nullcontext()
        self._store = store
        self._stat = in_batches(stat_all)
        self._read_small = in_batches(read_all)
        # The copies of a final output at sites may be removed next.
        self._write_small = in_batches(partial(write_all, sync_names=spec is None))

    def path(self, name: str) -> str:
        return name if self._store is None or name.startswith("/") else f"{self._store}/{name}"

    async def stat(self, name: str) -> Stat | None:
        return _unless_error(await self._stat(self.path(name)))

    async def read_small(self, name: str, size_bytes: int) -> bytes:
        return _unless_error(await self._read_small(self.path(name)))

    async def write_small(
        self, name: str, content: bytes, expected: Content, is_executable: bool, key: str
    ) -> None:
        final = self.path(name)
        temporary = os.path.join(os.path.dirname(final), part_name(key))
        mode = file_mode(is_executable, self.spec is None)
        file = SmallFile(final, temporary, content, mode, expected.size_bytes, expected.digest)
        _unless_error(await self._write_small(file))

    async def measure(self, path: str, size_bytes: int | None) -> Content | None:
        return await asyncio.to_thread(measure_here, path, digest=True)

    async def read(self, name: str, start: int = 0) -> AsyncGenerator[bytes, None]:
        try:
            with open(self.path(name), "rb", opener=open_regular) as file:
                file.seek(start)
                while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
                    yield chunk
        except OSError as error:
            raise explain_read(error, Path(self.path(name))) from error

    async def write(
        self,
        name: str,
        content: AsyncIterator[bytes],
        expected: Content,
        is_executable: bool,
        key: str,
        sent: HashedStream | None = None,
        start: int = 0,
    ) -> None:
        final = Path(self.path(name))
        temporary = final.with_name(part_name(key))
        written = start
        try:
            await asyncio.to_thread(make_folders, final.parent)
            with open(temporary, "r+b" if start else "xb") as file:
                file.seek(start)
                flushing = _Flushing(file)
                async for chunk in content:
                    await asyncio.to_thread(file.write, chunk)
                    written += len(chunk)
                    await flushing.add(len(chunk))
                await flushing.finish()
            check_size(str(final), written, expected.size_bytes)
            if sent is None:
                await check_digest(self, str(temporary), expected)
            else:
                compare_digests(str(final), sent.digest, digest_to_have(expected, sent))
            os.chmod(temporary, file_mode(is_executable, self.spec is None))
            await self._put_in_place(temporary, final)
        except OSError as error:
            remove(temporary)
            raise explain_write(error, final) from error
        except BaseException as error:
            if not keeps_part(key, error):
                remove(temporary)
            raise

    def part(self, name: str, key: str) -> str:
        return str(Path(self.path(name)).with_name(part_name(key)))

    async def prepare(self, name: str) -> None:
        final = Path(self.path(name))
        try:
            await asyncio.to_thread(make_folders, final.parent)
        except OSError as error:
            raise explain_write(error, final) from error

    async def follow(self, path: str, size_bytes: int) -> str | None:
        return await follow_here(path, size_bytes)

    async def complete(
        self,
        name: str,
        key: str,
        expected: Content,
        is_executable: bool,
        followed: Following | None = None,
    ) -> None:
        final, temporary = Path(self.path(name)), Path(self.part(name, key))

        def finish() -> None:
            with open(temporary, "rb+") as file:
                check_size(str(final), os.fstat(file.fileno()).st_size, expected.size_bytes)
                _sync(file)
            os.chmod(temporary, file_mode(is_executable, self.spec is None))

        try:
            await asyncio.to_thread(finish)
            await check_digest(self, str(temporary), expected, followed=followed)
            await self._put_in_place(temporary, final)
        except FileNotFoundError as error:
            raise missing_part(str(final), str(temporary)) from error
        except OSError as error:
            raise explain_write(error, final) from error

    async def left(self, name: str, key: str) -> int | None:
        return await asyncio.to_thread(left_part, Path(self.part(name, key)))

    async def discard(self, name: str, key: str) -> None:
        await asyncio.to_thread(remove, Path(self.part(name, key)))

    async def _put_in_place(self, temporary: Path, final: Path) -> None:
        replace(temporary, final)
        if self.spec is None:  # a final output, whose copies at sites may be removed next
            await asyncio.to_thread(sync_folder, final.parent)

    async def read_tree(self, name: str) -> AsyncGenerator[bytes, None]:
        process = LocalProcess(
            await asyncio.create_subprocess_exec(
                *("tar", "-cf", "-", "-C", self.path(name), "."),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C"},  # `causes` reads its messages
            )
        )
        try:
            process.end_input()
            while chunk := await process.read(CHUNK_BYTES):
                yield chunk
            if await process.wait():
                said = process.errors().strip()
                raise InfeasibleError(f"{self.path(name)} cannot be read: {said}")
        finally:
            await process.close()

    async def write_tree(
        self, name: str, content: AsyncIterator[bytes], expected: Content, key: str
    ) -> None:
        final = Path(self.path(name))
        temporary = final.with_name(part_name(key))
        try:
            await asyncio.to_thread(make_folders, temporary)
            await _extract(content, temporary, final)
            await asyncio.to_thread(sync_tree, temporary)
            await check_digest(self, str(temporary), expected)
            await self._put_in_place(temporary, final)
        except OSError as error:
            raise explain_write(error, final) from error
        finally:
            remove(temporary)


class _Flushing:
    """Flushes a file to the disk while it is written, so that little is left to flush at its
    end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._added_bytes = 0
        self._flush: asyncio.Task[OSError | None] | None = None

    async def add(self, size_bytes: int) -> None:
        """Count further written bytes, and start a flush after each _FLUSH_BYTES. Raises OSError if
        an earlier flush failed."""
        self._added_bytes += size_bytes
        if self._added_bytes < _FLUSH_BYTES or not (self._flush is None or self._flush.done()):
            return
        await self._flushed()
        self._added_bytes = 0
        # A cancelled copy closes the file and does not wait for the thread.
        own = os.dup(self._file.fileno())
        self._flush = asyncio.create_task(asyncio.to_thread(_flush, own))

    async def finish(self) -> None:
        """Make all of the file durable. Raises OSError."""
        await self._flushed()
        await asyncio.to_thread(_sync, self._file)

    async def _flushed(self) -> None:
        if self._flush is not None and (error := await self._flush):
            raise error


def _flush(fd: int) -> OSError | None:
    try:
        os.fsync(fd)
    except OSError as error:  # nobody asks for that of a copy that was cancelled
        return error
    finally:
        os.close(fd)
    return None


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


async def _extract(archive: AsyncIterator[bytes], directory: Path, final: Path) -> None:
    """Unpack a tar archive into ``directory``. Raises InfeasibleError about ``final`` if tar
    fails."""
    process = LocalProcess(
        await asyncio.create_subprocess_exec(
            # As root it would give the files to the users that the archive names.
            *("tar", "--no-same-owner", "-xf", "-", "-C", str(directory)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C"},
        )
    )
    try:
        async for chunk in archive:
            try:
                await process.write(chunk)
            except TransientError:  # tar has ended; its exit code and stderr say why
                break
        process.end_input()
        if await process.wait():
            # The last line of several says only that tar has failed.
            reason = process.errors().strip().splitlines()[:1] or ["is the disk full?"]
            raise InfeasibleError(f"{final} cannot be written: {reason[0]}")
    finally:
        await process.close()


def in_batches(work: Callable[[list[_Q]], Sequence[_T]]) -> RequestBatcher[_Q, _T]:
    """Return a batcher: concurrent requests share one call of ``work``, which runs in a thread."""

    async def send(requests: list[_Q]) -> Sequence[_T]:
        return await asyncio.to_thread(work, requests)

    return RequestBatcher(send, delay_s=0)


def _unless_error(answer: _T | WfrunError) -> _T:
    if isinstance(answer, WfrunError):
        raise answer
    return answer
