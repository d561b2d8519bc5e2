"""Reads the output of attempts from files at the sites, in chunks, whatever the size of the
files."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from wfrun.engine.core.state import RunState
from wfrun.engine.errors import InfeasibleError, WfrunError
from wfrun.engine.exchange import PackedLog
from wfrun.engine.model import Access, SiteSpec
from wfrun.parsers.catalog.access import DEFAULT_DIRECTORY
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.sites.make_sites import terminal_prompter
from wfrun.sites.remote.connection import Connection, connection_of
from wfrun.sites.remote.files.directory import find_directory

CHUNK_BYTES = 1 << 20
"""Number of bytes read at a time."""


class SiteFiles(Protocol):
    """The run's directory at a site. Paths are relative to it."""

    async def sizes(self, paths: Sequence[str]) -> list[int]:
        """Sizes in bytes; 0 for a file that is absent."""

    async def read(self, path: str, start: int, limit: int) -> bytes:
        """At most ``limit`` bytes from position ``start``. Empty at the end of the file, and if the
        file is absent. A file may become absent because the output of an attempt moves into a pack
        when the attempt ends."""


class LogPart(NamedTuple):
    """Stdout or stderr of an attempt: a file, or a part of one."""

    path: str
    start: int = 0
    length: int | None = None
    """Length in bytes; None: to the end of the file, which may grow."""


async def part_sizes(files: SiteFiles, parts: Sequence[LogPart]) -> list[int]:
    """Return the present sizes of the parts in bytes: of a file its size at the site, of a part of
    a pack the recorded length."""
    sizes = await files.sizes([part.path for part in parts])
    return [
        size if part.length is None else part.length
        for size, part in zip(sizes, parts, strict=True)
    ]


async def read_part(files: SiteFiles, part: LogPart, start: int, limit: int) -> bytes:
    """At most ``limit`` bytes, and at most `CHUNK_BYTES`, from this position of a part."""
    if part.length is not None:
        limit = min(limit, part.length - start)
    return await files.read(part.path, part.start + start, min(limit, CHUNK_BYTES))


async def tail_start(files: SiteFiles, part: LogPart, size: int, lines: int) -> int:
    """The position at which the last ``lines`` lines of the first ``size`` bytes begin."""
    if lines == 0:
        return size
    end = size
    while end > 0:
        begin = max(0, end - CHUNK_BYTES)
        data = await read_part(files, part, begin, end - begin)
        if not data:
            raise InfeasibleError(f"{part.path} ends before byte {end:,} of {size:,}")
        # The line end at the very end does not begin a line.
        stop = len(data) - (end == size and data.endswith(b"\n"))
        found = data.count(b"\n", 0, stop)
        if found >= lines:
            for _ in range(lines):
                stop = data.rfind(b"\n", 0, stop)
            return begin + stop + 1
        lines -= found
        end = begin
    return 0


def parts_of(key: str, packed: PackedLog | None) -> tuple[LogPart, LogPart]:
    """The parts that hold stdout and stderr of an attempt. Raises InfeasibleError if the exit
    record names a pack that is not a file of the run's logs. No honest site writes such a
    record."""
    if packed is None:
        return LogPart(f"attempts/{key}.out"), LogPart(f"attempts/{key}.err")
    numbers = packed.offset_bytes, packed.stdout_bytes, packed.stderr_bytes
    if "/" in packed.file or packed.file in ("", ".", "..") or min(numbers) < 0:
        raise InfeasibleError(f"the record of {key} names no log: {packed.file!r}")
    path, start = f"logs/{packed.file}", packed.offset_bytes
    return (
        LogPart(path, start, packed.stdout_bytes),
        LogPart(path, start + packed.stdout_bytes, packed.stderr_bytes),
    )


class LocalFiles:
    """Implements ``SiteFiles``: a directory of this machine."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def sizes(self, paths: Sequence[str]) -> list[int]:
        return [self._size(path) for path in paths]

    def _size(self, path: str) -> int:
        try:
            return os.stat(self._directory / path).st_size
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise InfeasibleError(f"{self._directory / path}: {error.strerror}") from error

    async def read(self, path: str, start: int, limit: int) -> bytes:
        def read() -> bytes:
            # Not blocking on a pipe that a task made in place of its log.
            fd = os.open(self._directory / path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise InfeasibleError(f"{self._directory / path} is not a file")
                return os.pread(fd, limit, start)
            finally:
                os.close(fd)

        try:
            return await asyncio.to_thread(read)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise InfeasibleError(f"{self._directory / path}: {error.strerror}") from error


class RemoteFiles:
    """Implements ``SiteFiles`` by the agent of a connection. Reconnects if the connection is lost.
    Raises TransientError while the site is out of reach."""

    def __init__(self, connection: Connection, directory: str) -> None:
        self._connection = connection
        self._directory = directory

    async def sizes(self, paths: Sequence[str]) -> list[int]:
        host = await self._connection.host()
        stats = await host.stat([f"{self._directory}/{path}" for path in paths])
        return [0 if stat is None else stat.size_bytes for stat in stats]

    async def read(self, path: str, start: int, limit: int) -> bytes:
        host = await self._connection.host()
        content = await host.read_part(f"{self._directory}/{path}", start, limit)
        if content is None:
            if (await self.sizes([path])) == [0]:
                return b""
            raise InfeasibleError(f"{self._directory}/{path} cannot be read; was it removed?")
        return content


class SiteLogs:
    """The directories of a run at its sites, over one connection per cluster, made when needed."""

    def __init__(self, state: RunState, run: RunDir) -> None:
        self._state = state
        self._run = run
        self._files: dict[int, SiteFiles | WfrunError] = {}
        self._connections: list[Connection] = []

    async def files(self, site: int) -> SiteFiles:
        """The directory at a site. If the site could not be reached, raises the same WfrunError at
        each later call, because each attempt to connect may take long or ask the user."""
        if site not in self._files:
            spec = self._state.sites[site].spec
            try:
                self._files[site] = await self._open(spec)
            except WfrunError as error:
                self._files[site] = error
        found = self._files[site]
        if isinstance(found, WfrunError):
            raise found
        return found

    async def _open(self, spec: SiteSpec) -> SiteFiles:
        name = self._state.site_directory
        if spec.access is None:
            return LocalFiles(self._run.site_directory(spec, name))
        connection = connection_of(spec.access, terminal_prompter())
        self._connections.append(connection)
        await connection.open(lambda reason: None)
        host = await connection.host()
        written = spec.directory or DEFAULT_DIRECTORY
        return RemoteFiles(connection, await find_directory(host, spec.name, written, name))

    def where(self, site: int, key: str, packed: PackedLog | None) -> str:
        """Where the user finds the output of an attempt."""
        spec = self._state.sites[site].spec
        names = f"attempts/{key}.out and .err" if packed is None else f"logs/{packed.file}"
        if spec.access is None:
            return f"{self._run.site_directory(spec, self._state.site_directory)}/{names}"
        written = spec.directory or DEFAULT_DIRECTORY
        return f"{_host(spec.access)}:{written}/{self._state.site_directory}/{names}"

    async def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            await connection.close()


def _host(access: Access) -> str:
    return access.hosts[0] if access.hosts else "localhost"
