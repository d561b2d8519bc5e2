"""A host without a batch system, reached over SSH: a launcher there runs the tasks."""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wfrun.engine.errors import TransientError
from wfrun.engine.exchange import Content
from wfrun.engine.model import SiteSpec
from wfrun.parsers.catalog.access import DEFAULT_DIRECTORY
from wfrun.sites.local.direct_launcher import DirectLauncherSite
from wfrun.sites.local.launcher_host import LauncherPipe
from wfrun.sites.local.lines import StreamLines
from wfrun.sites.node import LAUNCHER_PROGRAMS
from wfrun.sites.remote.connection import Connection
from wfrun.sites.remote.files.directory import make_directory, put_programs
from wfrun.sites.remote.host import NewFile
from wfrun.sites.remote.transports.transport import Process
from wfrun.sites.stored import absent_at, remove_at

_READ_BYTES = 1 << 18
_HIGH_WATER_BYTES = 4 << 20


class SshSite(DirectLauncherSite):
    """A site at the other end of an SSH connection. ``directory`` is the name of the run's
    directory there.

    When the connection is lost, the launcher drops its queue; running tasks go on. The next
    launcher finds them, as after a crash of the engine.
    """

    patience_s = None
    """Requests wait for a launcher without a limit: the connection may come back after hours."""

    def __init__(
        self,
        spec: SiteSpec,
        index: int,
        directory: str,
        connection: Connection,
        *,
        pack_logs: bool = False,
        dead_hosts: Sequence[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._remote = _RemoteHost(spec, directory, connection)
        super().__init__(
            spec, index, self._remote, pack_logs=pack_logs, dead_hosts=dead_hosts, clock=clock
        )
        self.connection = connection

    def store_path(self, name: str) -> str:
        """Path of a file in the site's store. Raises TransientError until the site has been
        reached for the first time."""
        if not self._remote.directory:
            raise TransientError(f"site {self.spec.name} was not reached yet")
        return f"{self._remote.directory}/files/{name}"


class _RemoteHost:
    """Implements ``LauncherHost``: a host behind a connection."""

    def __init__(self, spec: SiteSpec, name: str, connection: Connection) -> None:
        self._spec = spec
        self._name = name
        self._connection = connection
        self.directory = ""
        self._is_open = False
        self.launcher_log = f"launcher.log of site {spec.name}"

    async def prepare(self) -> None:
        """Implements `LauncherHost.prepare`. Also raises TransientError if the host cannot be
        reached."""
        if not self._is_open:
            self._is_open = True
            await self._connection.open(_ignore)
        host = await self._connection.host()
        written = self._spec.directory or DEFAULT_DIRECTORY
        self.directory = await make_directory(host, self._spec.name, written, self._name)
        self.launcher_log = f"{self.directory}/launcher.log at site {self._spec.name}"
        await put_programs(host, self.directory, LAUNCHER_PROGRAMS)
        probe = f"{self.directory}/exits/.probe"
        try:
            await host.write([NewFile(probe, bytes(4096))])
        finally:
            await host.remove([probe])

    async def is_removed(self) -> bool:
        host = await self._connection.host()
        return bool(self.directory) and await host.stat([f"{self.directory}/files"]) == [None]

    async def launch(
        self,
        config: Mapping[str, Any],
        on_lines: Callable[[list[bytes]], None],
        on_end: Callable[[], None],
    ) -> LauncherPipe:
        transport = await self._connection.transport()
        words = json.dumps({"directory": self.directory, **config})
        argv = ("sh", f"{self.directory}/bin/launch.sh", self.directory, words)
        log = shlex.quote(f"{self.directory}/launcher.log")
        # What the login shell prints, for instance from ~/.bashrc, comes before this line.
        mark = secrets.token_hex(8)
        command = f"printf '\\n%s\\n' {mark}; exec {shlex.join(argv)} 2>>{log}"
        process = await transport.start(command)
        return _RemotePipe(process, on_lines, on_end, mark.encode())

    async def stderr_tail(self) -> str:
        """Implements `LauncherHost.stderr_tail`. Raises TransientError if the host cannot be
        reached, since this is then the reason why the launcher failed."""
        host = await self._connection.host()
        said = (await host.read([f"{self.directory}/launcher.log"], limit=2000))[0]
        return (said or b"").decode("utf-8", "replace").strip()

    async def log(self, key: str) -> tuple[bytes, bytes]:
        host = await self._connection.host()
        base = f"{self.directory}/attempts/{key}"
        out, err = await host.read([f"{base}.out", f"{base}.err"], limit=1 << 30)
        return out or b"", err or b""

    async def absent(self, files: Mapping[str, Content]) -> list[str]:
        if not self.directory:
            raise TransientError(f"site {self._spec.name} was not reached yet")
        return await absent_at(await self._connection.host(), self.directory, files)

    async def remove(self, names: Sequence[str]) -> None:
        if not self.directory:
            raise TransientError(f"site {self._spec.name} was not reached yet")
        await remove_at(await self._connection.host(), self.directory, names)

    async def close(self) -> None:
        await self._connection.close()


def _ignore(reason: str | None) -> None:
    """Do nothing when the connection is lost: the end of the launcher's pipe reports it."""


class _RemotePipe:
    """Implements ``LauncherPipe`` over a process of a transport."""

    def __init__(
        self,
        process: Process,
        on_lines: Callable[[list[bytes]], None],
        on_end: Callable[[], None],
        mark: bytes,
    ) -> None:
        self._process = process
        self._mark: bytes | None = mark
        """The line after which the launcher's own lines begin; None: it has been received."""
        self._on_lines = on_lines
        self._on_end: Callable[[], None] | None = on_end
        self._unsent = bytearray()
        self._news = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._reader = asyncio.create_task(self._read())
        self._writer = asyncio.create_task(self._write())

    def send(self, line: bytes) -> None:
        self._unsent += line
        self._unsent += b"\n"
        self._news.set()
        if len(self._unsent) > _HIGH_WATER_BYTES:
            self._drained.clear()

    async def drained(self) -> None:
        await self._drained.wait()

    async def _write(self) -> None:
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                data, self._unsent = bytes(self._unsent), bytearray()
                self._drained.set()
                await self._process.write(data)
        except TransientError:
            return  # the end of its output is handled
        finally:
            self._drained.set()

    async def _read(self) -> None:
        splitter = StreamLines()
        while data := await self._process.read(_READ_BYTES):
            lines = splitter.feed(data)
            if self._mark is not None and self._mark in lines:
                lines = lines[lines.index(self._mark) + 1 :]
                self._mark = None
            if lines and self._mark is None:
                self._on_lines(lines)
        self._writer.cancel()
        await self._process.close()
        if self._on_end is not None:
            self._on_end()

    async def close(self, *, patience_s: float) -> None:
        self._on_end = None
        self._writer.cancel()
        self._process.end_input()
        try:
            await asyncio.wait_for(asyncio.shield(self._reader), max(patience_s, 0.01))
        except asyncio.TimeoutError:
            self._reader.cancel()
        await asyncio.gather(self._reader, self._writer, return_exceptions=True)
        await self._process.close()
