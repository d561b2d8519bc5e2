"""Files between sites of any kind: local ones, clusters, and the machine that wfrun runs on.

Between clusters a file is streamed through this machine, in memory, without a copy here. Each
file goes to a site once, under a temporary name in its store, and is renamed when its size is
right.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path
from stat import S_ISDIR
from typing import Protocol

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.exchange import Receipt
from wfrun.engine.model import ORIGIN
from wfrun.sites.remote import cat
from wfrun.sites.remote.connection import Connection
from wfrun.sites.remote.host import NewFile, Stat
from wfrun.sites.transfers.gather import Gather
from wfrun.sites.transfers.local import LocalTransfer, explain, remove, replace
from wfrun.sites.transfers.tree_size import TreeSize

STREAMS = 4
"""Large files that are on their way to or from one cluster at once."""
SMALL_BYTES = 64 * 1024
"""Files up to this size go many in one message."""
CHUNK_BYTES = 1024 * 1024
PART = ".wfrun-part-"


class Cluster(Protocol):
    """A site whose files are behind a connection."""

    connection: Connection

    def store_path(self, name: str) -> str: ...


class Routes:
    """Implements ``Transfer``. ``clusters`` are in the order of the sites, None where a site is
    local; between those, and the origin, files go as ``local`` carries them."""

    def __init__(self, local: LocalTransfer, clusters: Sequence[Cluster | None]) -> None:
        self._local = local
        self._far = {
            index: _Far(cluster) for index, cluster in enumerate(clusters) if cluster is not None
        }
        self._serial = itertools.count()

    async def copy(
        self, source: int, source_path: str, destination: int, destination_path: str
    ) -> Receipt:
        """Copy one file or directory; what was there under its name is replaced at the end.

        Raises InfeasibleError when the source is absent or the destination can't take it,
        TransientError for any other failure.
        """
        origin, target = self._far.get(source), self._far.get(destination)
        if origin is None and target is None:
            return await self._local.copy(source, source_path, destination, destination_path)
        begun_s = asyncio.get_running_loop().time()
        near: _Near | _Far = origin or _Near(self._local, source)
        onto: _Near | _Far = target or _Near(self._local, destination)
        stat = await near.stat(source_path)
        if stat is None:
            raise InfeasibleError(
                f"{near.path(source_path)} can't be copied: it is absent",
                hint="Was it removed?",
            )
        part = f"{PART}{os.getpid()}-{next(self._serial)}"
        mode = _mode(stat) | (0o200 if destination == ORIGIN else 0)
        if stat.size_bytes <= SMALL_BYTES and not stat.is_directory:
            content = await near.read_small(source_path)
            _check_size(near.path(source_path), len(content), stat.size_bytes)
            await onto.write_small(destination_path, content, mode, part)
            return Receipt(len(content), asyncio.get_running_loop().time() - begun_s)
        async with contextlib.AsyncExitStack() as stack:
            # In one order for all, so that no two wait for what the other has.
            for site in sorted({source, destination} & self._far.keys()):
                await stack.enter_async_context(self._far[site].streams)
            if stat.is_directory:
                tree = await stack.enter_async_context(aclosing(near.read_tree(source_path)))
                size_bytes = await onto.write_tree(destination_path, tree, part)
            else:
                file = await stack.enter_async_context(aclosing(near.read(source_path)))
                size_bytes = await onto.write(destination_path, file, mode, part, stat.size_bytes)
        return Receipt(size_bytes, asyncio.get_running_loop().time() - begun_s)

    def close(self) -> None:
        """Abort what local copies are under way."""
        self._local.close()


class _Near:
    """Files of this machine."""

    def __init__(self, local: LocalTransfer, site: int) -> None:
        self._local = local
        self._site = site

    def path(self, name: str) -> str:
        return str(self._local.path(self._site, name))

    async def stat(self, name: str) -> Stat | None:
        def look() -> Stat | None:
            try:
                found = os.stat(self.path(name))
            except OSError:
                return None
            return Stat(found.st_size, bool(found.st_mode & 0o111), S_ISDIR(found.st_mode))

        return await asyncio.to_thread(look)

    async def read(self, name: str) -> AsyncGenerator[bytes, None]:
        try:
            with open(self.path(name), "rb") as file:
                while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
                    yield chunk
        except OSError as error:
            raise InfeasibleError(f"{self.path(name)} can't be read: {error.strerror}") from error

    async def read_small(self, name: str) -> bytes:
        return b"".join([chunk async for chunk in self.read(name)])

    async def write_small(self, name: str, content: bytes, mode: int, part: str) -> None:
        await self.write(name, _one(content), mode, part, len(content))

    async def write(
        self, name: str, content: AsyncIterator[bytes], mode: int, part: str, size_bytes: int
    ) -> int:
        final = Path(self.path(name))
        temporary = final.with_name(part)
        written = 0
        try:
            await asyncio.to_thread(os.makedirs, final.parent, exist_ok=True)
            with open(temporary, "xb") as file:
                async for chunk in content:
                    await asyncio.to_thread(file.write, chunk)
                    written += len(chunk)
            _check_size(str(final), written, size_bytes)
            os.chmod(temporary, mode)
            replace(temporary, final)
        except OSError as error:
            raise explain(error, Path(), final) from error
        finally:
            remove(temporary)
        return written

    async def read_tree(self, name: str) -> AsyncGenerator[bytes, None]:
        process = await asyncio.create_subprocess_exec(
            *("tar", "-cf", "-", "-C", self.path(name), "."),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            while chunk := await process.stdout.read(CHUNK_BYTES):
                yield chunk
            if await process.wait():
                raise InfeasibleError(f"{self.path(name)} can't be read")
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    async def write_tree(self, name: str, content: AsyncIterator[bytes], part: str) -> int:
        final = Path(self.path(name))
        temporary = final.with_name(part)
        try:
            await asyncio.to_thread(os.makedirs, temporary)
            process = await asyncio.create_subprocess_exec(
                *("tar", "-xf", "-", "-C", str(temporary)), stdin=asyncio.subprocess.PIPE
            )
            assert process.stdin is not None
            size = TreeSize()
            try:
                async for chunk in content:
                    process.stdin.write(chunk)
                    await process.stdin.drain()
                    size.feed(chunk)
                process.stdin.close()
                if await process.wait():
                    raise InfeasibleError(f"{final} can't be written; is the disk full?")
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()
            replace(temporary, final)
        except OSError as error:
            raise explain(error, Path(), final) from error
        finally:
            remove(temporary)
        return size.size_bytes


class _Far:
    """Files of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.streams = asyncio.Semaphore(STREAMS)
        self._stat = Gather(self._stat_all)
        self._read_small = Gather(self._read_all)
        self._write_small = Gather(self._write_all)

    def path(self, name: str) -> str:
        return self._cluster.store_path(name)

    async def stat(self, name: str) -> Stat | None:
        return await self._stat(self.path(name))

    async def _stat_all(self, paths: list[str]) -> list[Stat | None]:
        return await (await self._cluster.connection.host()).stat(paths)

    async def _read_all(self, paths: list[str]) -> list[bytes]:
        host = await self._cluster.connection.host()
        contents = await host.read(paths, limit=SMALL_BYTES + 1)
        for path, content in zip(paths, contents, strict=True):
            if content is None:
                raise InfeasibleError(f"{path} can't be read", hint="Was it removed?")
        return [content or b"" for content in contents]

    async def _write_all(self, files: list[NewFile]) -> list[None]:
        await (await self._cluster.connection.host()).write(files)
        return [None] * len(files)

    async def read(self, name: str) -> AsyncGenerator[bytes, None]:
        transport = await self._cluster.connection.transport()
        async with aclosing(transport.read_file(self.path(name))) as content:
            async for chunk in content:
                yield chunk

    async def write(
        self, name: str, content: AsyncIterator[bytes], mode: int, part: str, size_bytes: int
    ) -> int:
        final = self.path(name)
        temporary = f"{os.path.dirname(final)}/{part}"
        transport = await self._cluster.connection.transport()
        try:
            written = await transport.write_file(temporary, content, mode)
            _check_size(final, written, size_bytes)
            host = await self._cluster.connection.host()
            await host.rename([(temporary, final)])
        except BaseException:
            await self._remove(temporary)
            raise
        return written

    async def _remove(self, path: str) -> None:
        with contextlib.suppress(WfrunError):
            host = await self._cluster.connection.host()
            await host.remove([path])

    async def read_small(self, name: str) -> bytes:
        return await self._read_small(self.path(name))

    async def write_small(self, name: str, content: bytes, mode: int, part: str) -> None:
        await self._write_small(NewFile(self.path(name), content, mode))

    async def read_tree(self, name: str) -> AsyncGenerator[bytes, None]:
        path = self.path(name)
        transport = await self._cluster.connection.transport()
        command = f"{cat.SAY_BEGIN}; exec tar -cf - -C {shlex.quote(path)} ."
        process = await transport.start(command)
        try:
            process.end_input()
            chunk = await cat.begun(process, f"{path} can't be read")
            while chunk:
                yield chunk
                chunk = await process.read(CHUNK_BYTES)
            _check_exit(await process.wait(), f"{path} can't be read: {process.errors()}")
        finally:
            await process.close()

    async def write_tree(self, name: str, content: AsyncIterator[bytes], part: str) -> int:
        final = self.path(name)
        temporary = f"{os.path.dirname(final)}/{part}"
        quoted = shlex.quote(temporary)
        size = TreeSize()
        transport = await self._cluster.connection.transport()
        process = await transport.start(f"mkdir {quoted} && exec tar -xf - -C {quoted}")
        try:
            async for chunk in content:
                try:
                    await process.write(chunk)
                except TransientError:  # it has ended, and its exit code says more
                    process.end_input()
                    code = await process.wait()
                    _check_exit(code, f"{final} can't be written: {process.errors()}")
                    raise
                size.feed(chunk)
            process.end_input()
            code = await process.wait()
            _check_exit(code, f"{final} can't be written: {process.errors()}")
            await self._replace_tree(temporary, final)
        except BaseException:
            await self._remove(temporary)
            raise
        finally:
            await process.close()
        return size.size_bytes

    async def _replace_tree(self, temporary: str, final: str) -> None:
        host = await self._cluster.connection.host()
        try:
            await host.rename([(temporary, final)])
        except InfeasibleError:  # no rename replaces a directory that has something in it
            old = f"{temporary}-old"
            await host.rename([(final, old), (temporary, final)])
            await host.remove([old])


async def _one(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _mode(stat: Stat) -> int:
    return 0o555 if stat.is_executable else 0o444


def _check_size(path: str, written: int, size_bytes: int) -> None:
    if written != size_bytes:
        raise TransientError(f"{path}: {written} bytes came of {size_bytes}")


def _check_exit(code: int | None, failure: str) -> None:
    if code is None:
        raise TransientError(failure)
    if code:
        raise InfeasibleError(failure)
