"""Transport by asyncssh, which needs nothing but Python on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
)
from functools import partial
from pathlib import Path

import asyncssh

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.sites.remote.files import cat
from wfrun.sites.remote.files.plain_files import PlainFiles
from wfrun.sites.remote.files.sftp_files import SftpFiles, encode, open_to_write
from wfrun.sites.remote.files.shell_files import ShellFiles
from wfrun.sites.remote.incoming import Listener, OnConnection, StreamConnection
from wfrun.sites.remote.transports.asyncssh_login import (
    Client,
    Prompter,
    Target,
    log_in,
    parse_jump,
)
from wfrun.sites.remote.transports.login_shell import portable
from wfrun.sites.remote.transports.send_gate import SendGate
from wfrun.sites.remote.transports.ssh_agent import check_agent
from wfrun.sites.remote.transports.transport import UNNAMED, Address

_READ_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 18
"""Size of a file request, unless the host takes less."""
_MIN_CHUNK_BYTES = 1 << 14
"""Minimum size of a file request, whatever the host says, to bound the number of requests under
way."""
_UNDER_WAY_BYTES = 4 << 20
"""Maximum number of bytes of a file in unanswered requests: the window that hides the latency."""
_FORWARD_WINDOW_BYTES = 1 << 16
"""Maximum number of received bytes of a forwarded connection that wait to be read. It bounds the
memory that a stranger can use, and what a launcher can send in a round trip."""
_ERROR_BYTES = 4096
_LIMIT_S = 30.0
"""Timeout of requests that a live connection answers at once."""
_MAX_JUMPS = 8
_LOST = (
    asyncssh.DisconnectError,
    asyncssh.SFTPConnectionLost,
    asyncssh.SFTPNoConnection,
    ConnectionError,
)


class _Process:
    """Implements ``Process`` by a channel without a terminal."""

    def __init__(self, process: asyncssh.SSHClientProcess[bytes], host: str) -> None:
        self._process = process
        self._host = host
        self._said = b""
        self._listener = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        with contextlib.suppress(asyncssh.Error, OSError):
            while data := await self._process.stderr.read(_READ_BYTES):
                self._said = (self._said + data)[-_ERROR_BYTES:]

    async def write(self, data: bytes) -> None:
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except (asyncssh.Error, OSError) as error:
            raise TransientError(
                f"{self._host}: the command takes no more input: {error}"
            ) from error

    def end_input(self) -> None:
        with contextlib.suppress(asyncssh.Error, OSError):
            self._process.stdin.write_eof()

    async def read(self, limit: int) -> bytes:
        try:
            return await self._process.stdout.read(limit)
        except (asyncssh.Error, OSError):  # ``wait`` reports that the connection was lost
            return b""

    def errors(self) -> str:
        return self._said.decode(errors="replace")

    async def wait(self) -> int | None:
        with contextlib.suppress(asyncssh.Error, OSError):
            await self._process.wait_closed()
        await asyncio.wait([self._listener])
        code = self._process.returncode
        return code if code is None or code >= 0 else 128 - code  # the convention of shells

    async def close(self) -> None:
        if not self._process.is_closing():
            with contextlib.suppress(asyncssh.Error, OSError):
                self._process.send_signal("HUP")
            self._process.close()
        self._listener.cancel()
        await asyncio.wait([self._listener])


class _OwnConnection(_Process):
    """A process with a connection of its own, which is closed with the process."""

    def __init__(
        self,
        process: asyncssh.SSHClientProcess[bytes],
        host: str,
        connection: asyncssh.SSHClientConnection,
    ) -> None:
        super().__init__(process, host)
        self._connection = connection

    async def close(self) -> None:
        await super().close()
        await _end(self._connection)


class _Forward:
    """Implements ``Listener``."""

    def __init__(self, listener: asyncssh.SSHListener) -> None:
        self.port = listener.get_port()
        self._listener = listener

    async def close(self) -> None:
        with contextlib.suppress(asyncssh.Error, OSError, asyncio.TimeoutError):
            self._listener.close()
            await asyncio.wait_for(self._listener.wait_closed(), _LIMIT_S)


class AsyncsshTransport:
    """Implements ``Transport`` by one connection of asyncssh.

    ``host`` is a name of ``~/.ssh/config`` or of a machine; ``user`` and ``port`` override the
    configuration. ``config`` replaces the user's and the system's file, ``known_hosts`` the files
    of known host keys, and host keys must be known. ``prompter`` asks the user for passwords and
    codes, each once; without it a host that needs them raises NeedsLoginError. The connection
    counts as lost when the host is silent for three times ``keep_alive_s``. Files go by SFTP, or
    through ``cat`` where the host has none.
    """

    def __init__(
        self,
        host: str,
        user: str | None = None,
        port: int | None = None,
        *,
        config: Path | None = None,
        known_hosts: Path | None = None,
        prompter: Prompter | None = None,
        keep_alive_s: float = 30.0,
        limit_s: float = _LIMIT_S,
    ) -> None:
        self.host = host
        self._user = user
        self._port = port
        self._config = config
        self._known_hosts = known_hosts
        self._prompter = prompter
        self._keep_alive_s = keep_alive_s
        self._limit_s = limit_s
        self._chain: list[asyncssh.SSHClientConnection] = []
        """Connections to the jump hosts, and last the one to the host itself."""
        self._client: Client | None = None
        self._target: Target | None = None
        self._files: asyncssh.SFTPClient | None = None
        self._has_sftp = True
        self._files_lock = asyncio.Lock()
        self._gate = SendGate()
        self._closing: set[asyncio.Task[None]] = set()
        """Tasks that close the files of failed transfers. The event loop itself keeps only weak
        references to tasks."""

    async def connect(self) -> None:
        # asyncssh sends up to a window of requests before it notices that a connection was reset,
        # and asyncio warns of each.
        logging.getLogger("asyncio").addFilter(_is_no_late_send)
        try:
            await self._extend(self.host, self._user, self._port)
        except BaseException:
            await self.close()
            raise

    async def _extend(self, name: str, user: str | None, port: int | None, depth: int = 0) -> None:
        """Connect to the jump hosts of ``name``, then to ``name``, each through the last connection
        of the chain."""
        if depth > _MAX_JUMPS:
            raise InfeasibleError(
                f"{self.host} has jump hosts that lead in a circle, by way of {name}",
                hint="Write 'ProxyJump none' for the jump hosts in ~/.ssh/config.",
            )
        target = await asyncio.to_thread(Target, name, user, port, self._config, self._known_hosts)
        for jump in target.jumps:
            jump_user, jump_host, jump_port = parse_jump(jump.strip())
            if jump_host in (name, target.host) and jump_port in (None, target.port):
                continue  # ``Host *`` applies to the jump host too; OpenSSH skips it as well
            await self._extend(jump_host, jump_user, jump_port, depth + 1)
        connection, client = await log_in(
            target,
            self._prompter,
            self._chain[-1] if self._chain else None,
            keep_alive_s=self._keep_alive_s,
            limit_s=self._limit_s,
        )
        self._chain.append(connection)
        self._gate.watch(connection)
        self._client = client
        self._target = target

    def _connection(self) -> asyncssh.SSHClientConnection:
        if not self._chain or self._chain[-1].is_closed():
            raise TransientError(f"{self.host}: {self._why_lost()}")
        return self._chain[-1]

    def _why_lost(self) -> str:
        reason = self._client.reason if self._client else "it was closed"
        return f"the connection was lost: {reason or 'it does not answer'}"

    async def start(self, command: str) -> _Process:
        return _Process(await self._start(self._connection(), command), self.host)

    async def start_with_agent(self, command: str) -> _Process:
        self._connection()  # raises if the connection was lost
        assert self._target is not None
        connection, _ = await log_in(
            self._target,
            None,
            self._chain[-2] if len(self._chain) > 1 else None,
            keep_alive_s=self._keep_alive_s,
            limit_s=self._limit_s,
            agent=check_agent(self.host, self._target.agent),
        )
        try:
            process = await self._start(connection, command)
        except BaseException:
            await _end(connection)
            raise
        return _OwnConnection(process, self.host, connection)

    async def address(self) -> Address | None:
        key = self._connection().get_server_host_key()
        assert self._target is not None
        # The third word of a line is a comment.
        line = " ".join(key.export_public_key().decode().split()[:2]) if key else ""
        target = self._target
        return Address(target.host, target.port, target.user, (line,) if line else ())

    async def _start(
        self, connection: asyncssh.SSHClientConnection, command: str
    ) -> asyncssh.SSHClientProcess[bytes]:
        try:
            return await asyncio.wait_for(
                connection.create_process(portable(command), encoding=None, request_pty=False),
                self._limit_s,
            )
        except asyncio.TimeoutError as error:
            raise TransientError(
                f"{self.host} did not start a command in {self._limit_s:.0f} s"
            ) from error
        except (asyncssh.Error, OSError) as error:
            reason = str(error) or "it refuses a further session"
            raise TransientError(f"{self.host} cannot start a command now: {reason}") from error

    async def sftp(self) -> asyncssh.SFTPClient | None:
        """The SFTP client of this connection, shared by all files; None where the host has no
        SFTP."""
        async with self._files_lock:
            connection = self._connection()
            if self._files is None and self._has_sftp:
                try:
                    self._files = await asyncio.wait_for(
                        connection.start_sftp_client(path_encoding=None), self._limit_s
                    )
                except (asyncssh.Error, OSError, asyncio.TimeoutError):
                    self._connection()  # raises if the connection was lost
                    self._has_sftp = False
            return self._files

    @contextlib.asynccontextmanager
    async def _opened(
        self, sftp: asyncssh.SFTPClient, opening: Awaitable[asyncssh.SFTPClientFile]
    ) -> AsyncGenerator[asyncssh.SFTPClientFile, None]:
        """Open a file and close it at the end. A cancelled caller does not wait for the close,
        which may get no answer while the session is stuck in another request."""
        file = await opening
        try:
            yield file
        except Exception:
            await self._close_failed(sftp, file)
            raise
        except BaseException:
            closing = asyncio.create_task(self._close_failed(sftp, file))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            raise
        await file.close()

    async def _close_failed(self, sftp: asyncssh.SFTPClient, file: asyncssh.SFTPClientFile) -> None:
        try:
            await asyncio.wait_for(file.close(), self._limit_s)
        except asyncio.TimeoutError:
            if self._files is sftp:  # The next file gets a session that is not stuck.
                self._files = None
            sftp.exit()
        except (asyncssh.Error, OSError):
            pass  # The connection was lost, which the transfer has reported.

    @contextlib.contextmanager
    def _explained(self, path: str, verb: str) -> Iterator[None]:
        try:
            yield
        except _LOST as error:
            raise TransientError(
                f"{self.host}:{path} cannot be {verb}: {self._why_lost()}"
            ) from error
        except asyncssh.SFTPError as error:
            raise _refusal(f"{self.host}:{path} cannot be {verb}", error) from error
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            # asyncssh checks the packets of a server where it needs their parts.
            raise TransientError(
                f"{self.host}:{path} cannot be {verb}: the answer is not of SFTP: {error}"
            ) from error

    async def read_file(self, path: str, start: int = 0) -> AsyncGenerator[bytes, None]:
        sftp = await self.sftp()
        source = self._read(sftp, path, start) if sftp else cat.read_file(self, path, start)
        with self._explained(path, "read"):
            async with contextlib.aclosing(source) as pieces:
                async for data in pieces:
                    yield data

    async def write_file(
        self, path: str, content: AsyncIterator[bytes], mode: int, start: int = 0
    ) -> int:
        sftp = await self.sftp()
        if sftp is None:
            return await cat.write_file(self, path, content, mode, start)
        with self._explained(path, "written"):
            return await self._write(sftp, path, content, mode, start)

    async def _read(
        self, sftp: asyncssh.SFTPClient, path: str, start: int
    ) -> AsyncGenerator[bytes, None]:
        """Read a file with many requests under way, and yield its data in order."""
        chunk = max(_MIN_CHUNK_BYTES, min(sftp.limits.max_read_len, _CHUNK_BYTES))
        opening = sftp.open(encode(path), "rb", encoding=None, block_size=0)
        async with self._opened(sftp, opening) as file:
            size = (await file.stat()).size or 0
            # The answer comes with the first data. A server may state a wrong size.
            ahead = deque([asyncio.create_task(_check_end(file, path, size))])
            asked = start
            try:
                while ahead:
                    while asked < size and len(ahead) * chunk < _UNDER_WAY_BYTES:
                        count = min(chunk, size - asked)
                        ahead.append(asyncio.create_task(_read_chunk(file, path, asked, count)))
                        asked += count
                    data = await ahead[0]
                    ahead.popleft()
                    if data:
                        yield data
            finally:
                await _drop(ahead)

    async def _write(
        self,
        sftp: asyncssh.SFTPClient,
        path: str,
        content: AsyncIterator[bytes],
        mode: int,
        start: int,
    ) -> int:
        chunk = max(_MIN_CHUNK_BYTES, min(sftp.limits.max_write_len, _CHUNK_BYTES))
        async with self._opened(sftp, open_to_write(sftp, encode(path), start)) as file:
            under_way: deque[asyncio.Task[int]] = deque()
            position = start
            try:
                async for piece in content:
                    for offset in range(0, len(piece), chunk):
                        data = piece[offset : offset + chunk]
                        request = partial(file.write, data, position)
                        under_way.append(await self._gate.start(request, len(data)))
                        position += len(data)
                        while len(under_way) * chunk > _UNDER_WAY_BYTES:
                            await under_way[0]
                            under_way.popleft()
                while under_way:
                    await under_way[0]
                    under_way.popleft()
            finally:
                await _drop(under_way)
            await file.chmod(mode)
            size = (await file.stat()).size
        # The file is closed now, which reports a full network file system at the latest.
        if size != position:
            raise TransientError(f"{path}: {size} of {position} bytes were copied")
        return position

    async def plain_files(self) -> PlainFiles:
        sftp = await self.sftp()
        return SftpFiles(sftp, self._explained) if sftp else ShellFiles(self)

    async def forward(self, address: str | None, on_connection: OnConnection) -> Listener:
        def accept(host: str, port: int) -> Callable[..., Coroutine[None, None, None]]:
            async def serve(
                reader: asyncssh.SSHReader[bytes], writer: asyncssh.SSHWriter[bytes]
            ) -> None:
                connection = StreamConnection(f"{host}:{port}", reader.read, writer)
                await connection.serve(on_connection)

            return serve

        try:
            listener = await asyncio.wait_for(
                self._connection().start_server(
                    accept, address or "", 0, encoding=None, window=_FORWARD_WINDOW_BYTES
                ),
                self._limit_s,
            )
        except asyncio.TimeoutError as error:
            raise TransientError(
                f"{self.host} did not forward a port in {self._limit_s:.0f} s"
            ) from error
        except (asyncssh.ChannelListenError, ValueError) as error:
            raise InfeasibleError(f"{self.host} does not forward ports: {error}") from error
        except (asyncssh.Error, OSError) as error:
            raise TransientError(f"{self.host} cannot forward a port now: {error}") from error
        return _Forward(listener)

    async def lost(self) -> None:
        if self._chain:
            await self._chain[-1].wait_closed()

    async def close(self) -> None:
        for connection in reversed(self._chain):
            await _end(connection)


def _is_no_late_send(record: logging.LogRecord) -> bool:
    return record.msg != "socket.send() raised exception."


async def _end(connection: asyncssh.SSHClientConnection) -> None:
    connection.close()
    try:
        await asyncio.wait_for(connection.wait_closed(), 2)
    except asyncio.TimeoutError:
        connection.abort()
        await connection.wait_closed()


def _refusal(failure: str, error: asyncssh.SFTPError) -> WfrunError:
    reason = error.reason or type(error).__name__
    # OpenSSH reports it for all errors without a code of SFTP.
    if type(error) is asyncssh.SFTPFailure:
        reason += UNNAMED
    return InfeasibleError(f"{failure}: {reason}")


async def _read_chunk(file: asyncssh.SFTPClientFile, path: str, start: int, count: int) -> bytes:
    """Read exactly ``count`` bytes: a host may answer with fewer."""
    data: bytes = await file.read(count, start)
    while len(data) < count:
        more: bytes = await file.read(count - len(data), start + len(data))
        if not more:
            raise TransientError(
                f"{path} became shorter while it was read: {start + len(data)} bytes"
            )
        data += more
    return data


async def _check_end(file: asyncssh.SFTPClientFile, path: str, size: int) -> bytes:
    """Check that a file has no bytes beyond ``size``; returns no data. Raises TransientError if it
    has."""
    more: bytes = await file.read(1, size)
    if more:
        raise TransientError(f"{path} cannot be read: it has more than its {size} bytes")
    return b""


async def _drop(tasks: deque[asyncio.Task[bytes]] | deque[asyncio.Task[int]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
