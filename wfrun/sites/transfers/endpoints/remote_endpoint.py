"""Files of a site that is reached over a connection."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, Protocol

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.exchange import Content
from wfrun.engine.files.copies import SHARED_BYTES
from wfrun.engine.model import SiteSpec
from wfrun.parsers.catalog.read import DEFAULT_MAX_TRANSFERS
from wfrun.sites.remote.connection import Connection
from wfrun.sites.remote.files import cat
from wfrun.sites.remote.host import NewFile, Stat
from wfrun.sites.remote.transports.transport import Process
from wfrun.sites.stored import measure_at
from wfrun.sites.transfers.direct.direct_clients import Clients, Program, ask_clients
from wfrun.sites.transfers.endpoints.endpoint import (
    CHUNK_BYTES,
    check_digest,
    check_size,
    file_mode,
    missing_part,
    part_name,
)
from wfrun.sites.transfers.endpoints.request_batcher import PARALLEL_FILES, RequestBatcher
from wfrun.sites.transfers.local.full_disk import name_full_disk
from wfrun.sites.transfers.relay.following import Following, following
from wfrun.sites.transfers.relay.hashed import HashedStream
from wfrun.sites.transfers.resume import keeps_part

LARGE_BYTES = 64 << 20
"""Size from which a file is measured by a message of its own, so that other files do not wait."""


class ConnectedSite(Protocol):
    """A site whose files are at the far end of a connection."""

    spec: SiteSpec
    connection: Connection

    def store_path(self, name: str) -> str:
        """Absolute path of a file at the site. Raises TransientError before the site was
        reached."""


class RemoteEndpoint:
    """Implements ``Endpoint`` over a site's connection, which is made again when it is lost."""

    def __init__(self, index: int, site: ConnectedSite) -> None:
        self.index = index
        self.spec: SiteSpec | None = site.spec
        self.connection = site.connection
        self.slot: AbstractAsyncContextManager[Any] = asyncio.Semaphore(
            site.spec.max_transfers or DEFAULT_MAX_TRANSFERS
        )
        self._versions: dict[Program, tuple[int, int] | None] = {}
        self._clients_lock = asyncio.Lock()
        self._site = site
        self._stat = RequestBatcher(self._stat_all)
        self._read_small = RequestBatcher(
            self._read_all, size_of=lambda asked: asked[1], parallel=PARALLEL_FILES
        )
        self._write_small = RequestBatcher(
            self._write_all, size_of=lambda file: len(file.content), parallel=PARALLEL_FILES
        )
        self._measure = RequestBatcher(self._measure_all)

    def path(self, name: str) -> str:
        return name if name.startswith("/") else self._site.store_path(name)

    async def clients(self, programs: Collection[Program]) -> Clients:
        """Return the versions of those ``programs`` that the site has, by name. The site is asked
        once for each program."""
        async with self._clients_lock:
            new = [program for program in programs if program not in self._versions]
            if new:
                found = await ask_clients(self.connection, new)
                self._versions |= {program: found.get(program.name) for program in new}
            known = {program.name: self._versions[program] for program in programs}
            return {name: version for name, version in known.items() if version is not None}

    # -- small requests, in batches

    async def stat(self, name: str) -> Stat | None:
        return await self._stat(self.path(name))

    async def _stat_all(self, paths: list[str]) -> list[Stat | None]:
        return await (await self.connection.host()).stat(paths)

    async def read_small(self, name: str, size_bytes: int) -> bytes:
        return await self._read_small((self.path(name), size_bytes))

    async def _read_all(self, asked: list[tuple[str, int]]) -> list[bytes]:
        host = await self.connection.host()
        paths = [path for path, _ in asked]
        contents = await host.read(paths, limit=SHARED_BYTES + 1)
        for path, content in zip(paths, contents, strict=True):
            if content is None:
                raise InfeasibleError(f"{path} cannot be read", hint="Was it removed?")
        return [content or b"" for content in contents]

    async def write_small(
        self, name: str, content: bytes, expected: Content, is_executable: bool, key: str
    ) -> None:
        mode = file_mode(is_executable)
        path = self.path(name)
        try:
            await self._write_small(NewFile(path, content, mode, expected.digest))
        except InfeasibleError as error:  # It has the temporary name that the agent has given it.
            reason = error.message.rpartition(": ")[2]
            error.message = f"{path} cannot be written: {reason}"
            raise

    async def _write_all(self, files: list[NewFile]) -> list[None]:
        await (await self.connection.host()).write(files)
        return [None] * len(files)

    async def measure(self, path: str, size_bytes: int | None) -> Content | None:
        asked = path, size_bytes or 0
        if asked[1] <= LARGE_BYTES:
            return await self._measure(asked)
        (found,) = await self._measure_all([asked])
        return found

    async def _measure_all(self, asked: list[tuple[str, int]]) -> list[Content | None]:
        host = await self.connection.host()
        size_bytes = sum(size for _, size in asked)
        paths = [path for path, _ in asked]
        return await measure_at(host, paths, size_bytes, digest=True)

    # -- large files and directories, streamed

    async def read(self, name: str, start: int = 0) -> AsyncGenerator[bytes, None]:
        transport = await self.connection.transport()
        async with aclosing(transport.read_file(self.path(name), start)) as content:
            async for chunk in content:
                yield chunk

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
        final, temporary = self.path(name), self.part(name, key)
        transport = await self.connection.transport()
        size_bytes = None if sent is None else expected.size_bytes
        try:
            mode = file_mode(is_executable)
            async with following(self.follow, temporary, size_bytes) as followed:
                written = await transport.write_file(temporary, content, mode, start)
                check_size(final, written, expected.size_bytes)
                await check_digest(self, temporary, expected, sent, followed)
            await self.commit(name, key)
        except InfeasibleError as error:
            await name_full_disk(error, transport, os.path.dirname(final))
            await self.discard(name, key)
            raise
        except BaseException as error:
            if not keeps_part(key, error):
                await self.discard(name, key)
            raise

    async def follow(self, path: str, size_bytes: int) -> str | None:
        with contextlib.suppress(WfrunError):
            host = await self.connection.host()
            return await host.digest_of_growing(path, size_bytes)
        return None

    async def read_tree(self, name: str) -> AsyncGenerator[bytes, None]:
        path = self.path(name)
        transport = await self.connection.transport()
        command = f"{cat.IN_ENGLISH}; {cat.PRINT_BEGIN}; exec tar -cf - -C {shlex.quote(path)} ."
        process = await transport.start(command)
        try:
            process.end_input()
            chunk = await cat.begun(process, f"{path} cannot be read")
            while chunk:
                yield chunk
                chunk = await process.read(CHUNK_BYTES)
            await _succeeded(process, f"{path} cannot be read")
        finally:
            await process.close()

    async def write_tree(
        self, name: str, content: AsyncIterator[bytes], expected: Content, key: str
    ) -> None:
        failure = f"{self.path(name)} cannot be written"
        quoted = shlex.quote(self.part(name, key))
        transport = await self.connection.transport()
        command = f"{cat.IN_ENGLISH}; mkdir {quoted} && exec tar -xf - -C {quoted}"
        process = await transport.start(command)
        try:
            async for chunk in content:
                try:
                    await process.write(chunk)
                except TransientError:  # tar has ended; its exit code and stderr say why
                    process.end_input()
                    await _succeeded(process, failure)
                    raise
            process.end_input()
            await _succeeded(process, failure)
            await check_digest(self, self.part(name, key), expected)
            await self.commit(name, key)
        except BaseException:
            await self.discard(name, key)
            raise
        finally:
            await process.close()

    # -- parts

    def part(self, name: str, key: str) -> str:
        """Absolute path of the incomplete copy, beside its final name."""
        return f"{os.path.dirname(self.path(name))}/{part_name(key)}"

    async def prepare(self, name: str) -> None:
        await (await self.connection.host()).make_directories([os.path.dirname(self.path(name))])

    async def complete(
        self,
        name: str,
        key: str,
        expected: Content,
        is_executable: bool,
        followed: Following | None = None,
    ) -> None:
        final, temporary = self.path(name), self.part(name, key)
        host = await self.connection.host()
        (stat,) = await host.stat([temporary])
        if stat is None:
            raise missing_part(final, temporary)
        check_size(final, stat.size_bytes, expected.size_bytes)
        await check_digest(self, temporary, expected, followed=followed)
        mode = f"{file_mode(is_executable):o}"
        result = await host.run(["chmod", mode, "--", temporary], env={"LC_ALL": "C"})
        if result.exit_code != 0:
            said = result.errors[-500:].decode("utf-8", "replace").strip()
            _check_exit(result.exit_code, f"{final} cannot be written", said)
        await self.commit(name, key)

    async def commit(self, name: str, key: str) -> None:
        """Rename a complete part to its final name, replacing what is there."""
        final, temporary = self.path(name), self.part(name, key)
        host = await self.connection.host()
        try:
            await host.rename([(temporary, final)])
        except InfeasibleError as error:
            # rename(2) does not replace a directory that is not empty: move it aside first.
            old = f"{temporary}-old"
            try:
                await host.rename([(final, old), (temporary, final)])
            except InfeasibleError:
                raise error from None
            await host.remove([old])

    async def left(self, name: str, key: str) -> int | None:
        host, path = await self.connection.host(), self.part(name, key)
        (found,) = await host.stat([path])
        if found is not None:  # A client of another site has given it the mode of its source.
            await host.run(["chmod", "600", "--", path])
        return None if found is None else found.size_bytes

    async def discard(self, name: str, key: str) -> None:
        """Remove a part, if the site can be reached."""
        with contextlib.suppress(WfrunError):
            await (await self.connection.host()).remove([self.part(name, key)])


async def _succeeded(process: Process, failure: str) -> None:
    """Wait for the end of a command. Raises an error that begins with ``failure`` if the command
    failed."""
    code = await process.wait()
    _check_exit(code, failure, process.errors().strip())


def _check_exit(code: int | None, failure: str, said: str) -> None:
    if code is None:
        raise TransientError(f"{failure}: the connection was lost")
    if code:
        raise InfeasibleError(f"{failure}: {said or f'exit code {code}'}")
