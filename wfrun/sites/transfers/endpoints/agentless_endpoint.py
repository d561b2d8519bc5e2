"""Files of a site, read and written without its agent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress

from wfrun.engine.errors import InfeasibleError, WfrunError
from wfrun.engine.exchange import Content
from wfrun.sites.node.tasks.digests import LARGE_BYTES, new_digest
from wfrun.sites.remote.files.plain_files import PlainFiles
from wfrun.sites.remote.files.shell_files import ShellFiles
from wfrun.sites.remote.host import Stat
from wfrun.sites.remote.transports.transport import Transport
from wfrun.sites.transfers.endpoints.endpoint import (
    at_most,
    check_size,
    compare_digests,
    digest_to_have,
    file_mode,
    missing_part,
)
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.local.full_disk import LOOK_S, name_full_disk
from wfrun.sites.transfers.relay.hashed import HashedStream


class AgentlessEndpoint:
    """The files of a site over the transport of its connection, for one copy.

    It has the methods of ``Endpoint`` that such a copy needs. If the agent runs, it computes the
    digests of written files; otherwise written files are read back.
    """

    def __init__(self, site: RemoteEndpoint, transport: Transport, files: PlainFiles) -> None:
        self.transport = transport
        self._site = site
        self._files = files

    async def stat(self, name: str) -> Stat | None:
        return await self._files.stat(self._site.path(name))

    async def read(self, name: str, start: int = 0) -> AsyncGenerator[bytes, None]:
        async with aclosing(self.transport.read_file(self._site.path(name), start)) as content:
            async for piece in content:
                yield piece

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
        part = self._site.part(name, key)
        try:
            await self.prepare(name)
            await self.transport.write_file(part, content, 0o600, start)
            whole = Content(expected.size_bytes, digest_to_have(expected, sent))
            await self.complete(name, key, whole, is_executable)
        except InfeasibleError as error:
            await name_full_disk(error, self.transport, os.path.dirname(part))
            await self.discard(name, key)
            raise
        except BaseException:
            await self.discard(name, key)
            raise

    def part(self, name: str, key: str) -> str:
        return self._site.part(name, key)

    async def prepare(self, name: str) -> None:
        await self._files.make_directory(os.path.dirname(self._site.path(name)))

    async def complete(self, name: str, key: str, expected: Content, is_executable: bool) -> None:
        final, part = self._site.path(name), self._site.part(name, key)
        stat = await self._files.stat(part)
        if stat is None:
            raise missing_part(final, part)
        check_size(final, stat.size_bytes, expected.size_bytes)
        if expected.digest is not None:
            found = await self.measure(part, expected.size_bytes)
            compare_digests(final, None if found is None else found.digest, expected.digest)
        await self._files.rename(part, final, file_mode(is_executable))

    async def measure(self, path: str, size_bytes: int | None) -> Content | None:
        if self._site.connection.has_agent:
            return await self._site.measure(path, size_bytes)
        digest, read_bytes = new_digest(size_bytes or LARGE_BYTES), 0
        async with aclosing(self.transport.read_file(path)) as content:
            known = content if size_bytes is None else at_most(content, size_bytes, path)
            async for piece in known:
                digest.update(piece)
                read_bytes += len(piece)
        return Content(read_bytes, str(digest.hexdigest()))

    async def discard(self, name: str, key: str) -> None:
        connection = self._site.connection
        if connection.has_agent:
            await self._site.discard(name, key)
            return
        with suppress(WfrunError, asyncio.TimeoutError):
            # The connection may have been made again since the copy began. Not by SFTP: a session
            # that is stuck in a request does not answer another one.
            files = ShellFiles(await connection.plain_transport())
            await asyncio.wait_for(files.remove(self._site.part(name, key)), LOOK_S)
