"""The client of the agent. ``agent.py`` describes their protocol."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wfrun.engine.errors import InfeasibleError, NoSpaceError, TransientError, WfrunError
from wfrun.sites.remote.agent import (
    LENGTHS,
    MAX_HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    OUTPUT_BYTES,
    PARALLEL,
    SERIES_S,
)
from wfrun.sites.remote.agent_channels import AgentChannels
from wfrun.sites.remote.frames import (
    Frame,
    FrameError,
    Header,
    Number,
    Short,
    next_frame,
    values_of,
)
from wfrun.sites.remote.host import AgentCounts, CommandResult, Facts, NewFile, Stat
from wfrun.sites.remote.incoming import Listener, OnConnection
from wfrun.sites.remote.transports.transport import Process, Transport
from wfrun.sites.tasks import end_tasks

_LOGGER = logging.getLogger(__name__)
_SOURCE = Path(__file__).with_name("agent.py")
PROTOCOL = 1
"""Version of the agent's protocol; both files come from the same release."""
HELLO_S = 30.0
"""Timeout of the agent's start, equal to that of a connection. From a slow network file system
Python takes seconds to start."""
ANSWER_S = 60.0
"""Timeout of file operations. A busy file server takes seconds."""
REMOVE_S = 1800.0
"""Timeout of removals. A directory of 100,000 files takes minutes on a busy file server."""
WATCH_S = 300.0
"""Timeout of the first look at a directory, which may hold all records of a run."""
MARGIN_S = 20.0
"""Added to the timeout of a command, for the login shell and the network."""
PING_S = 15.0
"""Interval between pings."""
SILENCE_S = 300.0
"""The agent ends when it receives nothing for this long."""
WRITE_BYTES = 4 << 20
"""Maximum size of the contents in one message, unless one file is larger."""
NAMES = 2000
"""Maximum number of paths in one message, so that no message blocks others for long."""
MAX_OUTPUT_BYTES = OUTPUT_BYTES + (1 << 20)
"""Maximum output of a command, in bytes. The agent kills a command soon after OUTPUT_BYTES."""
_READ_BYTES = 1 << 18
_NOISE_BYTES = 1 << 20
"""Maximum output, in bytes, of the login shell before the output of the agent."""

_MODULES = "fcntl,grp,hashlib,json,queue,select,socket,struct,subprocess,sys,threading"
PYTHONS = (
    "python3",
    *(f"python3.{minor}" for minor in range(14, 5, -1)),
    "/usr/libexec/platform-python",
    "/usr/bin/python3",
    "/usr/local/bin/python3",
    "python",
)
"""Names and paths of the interpreters that are tried, in this order."""
_FIND_PYTHON = f"""
found=
for name in PYTHONS; do
  path=$(command -v "$name") || continue
  if "$path" -I -S -c "import {_MODULES}; sys.exit(sys.version_info < (3, 6))" \
    < /dev/null > /dev/null 2>&1
  then exec "$path" -I -S -c "$1" "$2"
  fi
  found="$found; $path is $("$path" -V < /dev/null 2>&1)"
done
"""
"""Script that replaces itself by the agent, or lists in ``found`` the interpreters that are too old
or incomplete. Its arguments are the bootstrap and the configuration."""
_FIND_IN_LOGIN_SHELL = r"""
WFRUN_START="unset WFRUN_START
$WFRUN_START
printf '\000wfrun-NONCE none%s\n' \"\$found\""
export WFRUN_START
line="exec /bin/sh -c 'eval \"\$WFRUN_START\"'"
shell=${SHELL:-/bin/sh}
case ${shell##*/} in csh | tcsh) exec "$shell" -c "$line" ;; esac
exec "$shell" -l -c "$line"
"""
"""Runs ``WFRUN_START`` in the login environment, and reports if there is no Python there either.
The script passes through the environment, because no two shells quote alike. csh does not take -l
together with -c, and reads ~/.cshrc in any case."""
_BOOTSTRAP = (
    r'exec("import os\nb=b\"\"\nwhile len(b)<SIZE:\n c=os.read(0,SIZE-len(b))\n'
    r' if not c: raise SystemExit(1)\n b+=c\n"); exec(compile(b,"agent.py","exec"))'
)

_ERRORS: Mapping[str, type[WfrunError]] = {"transient": TransientError, "full": NoSpaceError}
"""Error classes by the kind that the agent reports; any other kind is an InfeasibleError."""


_StatValue = tuple[Number, bool, bool] | None


class NoPythonError(InfeasibleError):
    """The host has no Python that the agent can run on."""


def start_command(
    nonce: str,
    size: int,
    silence_s: float,
    pythons: Sequence[str],
    variables: Sequence[str] | None = None,
) -> str:
    """The shell script that finds a Python and starts the agent. The agent then reads its own
    source, ``size`` bytes, from stdin.

    The script first searches the session's own PATH, since login profiles take time and may fail.
    If there is no Python, it runs the profiles, which may load a module that has it.
    """
    bootstrap = _BOOTSTRAP.replace("SIZE", str(size))
    config = json.dumps({"nonce": nonce, "silence_s": silence_s, "variables": variables})
    find = _FIND_PYTHON.replace("PYTHONS", shlex.join(pythons))
    start = f"set -- {shlex.join((bootstrap, config))}\n{find}"
    return (
        f'WFRUN_START={shlex.quote(start)}\neval "$WFRUN_START"\n'
        + _FIND_IN_LOGIN_SHELL.replace("NONCE", nonce)
    )


class AgentHost:
    """Implements ``Host`` by one agent, over a connected transport: ``start``, use, ``close``.

    ``variables`` are the names of the agent's environment variables that the login shell inherits;
    None: all. A name that ends in ``*`` is a prefix. An agent that ends, is silent or breaks the
    protocol is not replaced: ``ended`` has the reason, and pending and further requests raise
    TransientError.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        silence_s: float = SILENCE_S,
        ping_s: float = PING_S,
        pythons: Sequence[str] = PYTHONS,
        variables: Sequence[str] | None = None,
    ) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done when the agent has ended; its result is the reason."""
        self.pid = 0
        self._transport = transport
        self._silence_s = silence_s
        self._ping_s = ping_s
        self._pythons = pythons
        self._variables = variables
        self._process: Process | None = None
        self._pending: dict[int, asyncio.Future[Frame]] = {}
        self._requests = 0
        self._channels = AgentChannels(self._request)
        self._watches: dict[int, Callable[[list[bytes]], None]] = {}
        self._sending = asyncio.Lock()
        self._commands = asyncio.Semaphore(PARALLEL)
        self._tasks: list[asyncio.Task[None]] = []
        self._buffer = bytearray()
        self._facts: Facts | None = None

    # -- start and end

    async def start(self) -> None:
        """Start the agent, and wait for its first answer. Raises NoPythonError if the host has no
        Python that the agent can run on. Raises TransientError if the agent does not answer in
        time, or speaks another version of the protocol."""
        source = _SOURCE.read_bytes()
        nonce = secrets.token_hex(8)
        self._process = await self._transport.start(
            start_command(nonce, len(source), self._silence_s, self._pythons, self._variables)
        )
        try:
            hello = await asyncio.wait_for(self._greet(source, nonce), HELLO_S)
        except asyncio.TimeoutError:
            await self._fail(
                f"the login works, but the agent did not start within {HELLO_S:g} s (does "
                f"`ssh {self._transport.host} true` end?)"
            )
        except BaseException:
            await self.close()
            raise
        if hello.hello != PROTOCOL:
            await self._fail(f"the agent speaks version {hello.hello}, not {PROTOCOL}")
        if not hello.home.startswith("/"):
            await self._fail("the agent knows no home directory")
        self.pid = hello.pid
        self._tasks.append(asyncio.create_task(self._receive()))
        try:
            asked_s = time.time()
            began_s = time.monotonic()
            answer, _ = await self._request("ping", patience_s=HELLO_S)
            round_trip_s = time.monotonic() - began_s
        except BaseException:
            await self.close()
            raise
        self._facts = Facts(
            host=hello.host,
            user=hello.user,
            python=hello.python,
            clock_offset_s=answer.clock - asked_s - round_trip_s / 2,
            home=hello.home,
            shell=hello.shell,
            round_trip_s=round_trip_s,
        )
        self._tasks.append(asyncio.create_task(self._ping()))

    async def _fail(self, reason: str) -> None:
        said = self._process.errors().strip() if self._process is not None else ""
        await self.close()
        raise TransientError(f"{self._transport.host}: {reason}" + (f": {said}" if said else ""))

    async def _greet(self, source: bytes, nonce: str) -> Header:
        """Send the agent's source, skip the login's output, and return the agent's hello."""
        assert self._process is not None
        with contextlib.suppress(TransientError):  # its output, read below, says why
            await self._process.write(source)
        mark = f"\0wfrun-{nonce} ".encode()
        data = b""
        while True:
            _, found, rest = data.partition(mark)
            if found and b"\n" in rest:
                break
            if len(data) > _NOISE_BYTES:
                await self._fail("the login prints without end")
            more = await self._process.read(_READ_BYTES)
            if not more:
                await self._process.wait()
                said = data[-500:].decode(errors="replace").strip()
                printed = f"; it said: {said}" if said else ""
                await self._fail(f"the login shell ended before it ran the agent{printed}")
            data += more
        line, _, rest = rest.partition(b"\n")
        if line != b"agent":
            there = line.removeprefix(b"none").decode(errors="replace").strip("; ")
            raise NoPythonError(
                f"{self._transport.host} has no Python 3.6 or later"
                + (f" ({there})" if there else ""),
                hint="Load or install one there, and put it into the PATH that ~/.profile sets "
                "(~/.cshrc for csh); or name another login host of the cluster in the catalog.",
            )
        self._buffer += rest
        try:
            while (frame := next_frame(self._buffer)) is None:
                if not (more := await self._process.read(_READ_BYTES)):
                    await self._fail("the agent ended before its hello")
                self._buffer += more
        except FrameError as error:
            await self._fail(f"the agent broke its protocol: {error}")
        assert frame is not None
        return frame[0]

    async def _receive(self) -> None:
        assert self._process is not None
        reason = "the agent was ended"
        try:
            while True:
                while (frame := next_frame(self._buffer)) is not None:
                    self._take(*frame)
                data = await self._process.read(_READ_BYTES)
                if not data:
                    break
                self._buffer += data
            code = await self._process.wait()
            end = "the connection was lost" if code is None else f"the agent ended (exit {code})"
            reason = f"{end} {self._process.errors().strip()}".strip()
        except TransientError as error:
            reason = error.message
        except FrameError as error:
            reason = f"the agent broke its protocol: {error}"
        finally:
            self._end(reason)

    def _take(self, header: Header, pieces: list[bytes | None]) -> None:
        if header.connection is not None:
            self._channels.take(header.connection, header, pieces[0] or b"")
        elif header.spool is not None:
            self._channels.take_files(header.spool, header.names, pieces)
        elif header.watch is not None:
            on_records = self._watches.get(header.watch)
            records = [piece or b"" for piece in pieces]
            try:
                if on_records is not None:
                    on_records(records)
            except Exception:  # a defect of the receiver must not end the agent
                _LOGGER.exception("%d records could not be handled", len(records))
        elif header.id is None:
            raise FrameError(header.message or "a frame of no kind")
        else:
            answer = self._pending.pop(header.id, None)
            if answer is not None and not answer.done():
                answer.set_result((header, pieces))

    async def _ping(self) -> None:
        while not self.ended.done():
            await asyncio.sleep(self._ping_s)
            try:
                await self._request("ping", patience_s=3 * self._ping_s)
            except TransientError as error:
                self._end(error.message)

    def _end(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(TransientError(f"{self._transport.host}: {reason}"))
                answer.exception()  # marks it as retrieved: its caller may have been cancelled
        self._pending.clear()
        self._channels.end(reason)

    async def close(self) -> None:
        """End the agent, which kills its running commands."""
        self._end("the agent was ended")
        await end_tasks(self._tasks)
        if self._process is not None:
            with contextlib.suppress(TransientError):
                await self._process.close()

    # -- requests

    def _next_number(self) -> int:
        """Number of the next request. Receivers of records and connections are registered under
        this number before the request is sent, since both may arrive before its answer."""
        return self._requests + 1

    async def _request(
        self,
        verb: str,
        content: bytes = b"",
        patience_s: float | None = ANSWER_S,
        **request: Any,
    ) -> Frame:
        """Send a request; returns the answer. Raises TransientError if there is no answer within
        ``patience_s`` (None: no limit) or the agent ends, InfeasibleError if the request is too
        long, and the errors that the agent reports."""
        if self.ended.done():
            raise TransientError(f"{self._transport.host}: {self.ended.result()}")
        self._requests += 1
        number = self._requests
        answer = asyncio.get_running_loop().create_future()
        self._pending[number] = answer
        text = json.dumps({"id": number, "ask": verb, **request}).encode()
        if len(text) > MAX_HEADER_BYTES or len(content) > MAX_PAYLOAD_BYTES:
            del self._pending[number]
            raise InfeasibleError(f"{self._transport.host}: {verb}: too long for one message")
        frame = LENGTHS.pack(len(text), len(content)) + text + content
        try:
            header, pieces = await asyncio.wait_for(self._exchange(frame, answer), patience_s)
        except asyncio.TimeoutError:
            raise TransientError(
                f"{self._transport.host}: no answer to {verb!r} within {patience_s:g} s"
            ) from None
        finally:
            self._pending.pop(number, None)
        if header.error is not None:
            kind = _ERRORS.get(header.error, InfeasibleError)
            raise kind(f"{self._transport.host}: {header.message}")
        return header, pieces

    def _broken(self, what: str) -> TransientError:
        """End the agent after an answer that breaks the protocol. Returns the error for the
        request."""
        reason = f"the agent broke its protocol: {what}"
        self._end(reason)
        return TransientError(f"{self._transport.host}: {reason}")

    async def _exchange(self, frame: bytes, answer: asyncio.Future[Frame]) -> Frame:
        assert self._process is not None
        async with self._sending:
            await self._process.write(frame)
        return await answer

    async def facts(self) -> Facts:
        if self._facts is None or self.ended.done():
            raise TransientError(f"{self._transport.host}: there is no agent")
        return self._facts

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> CommandResult:
        async with self._commands:  # a command that waits at the agent would use up its timeout
            header, pieces = await self._request(
                "run",
                stdin,
                timeout_s + MARGIN_S,
                argv=list(argv),
                env=dict(env or {}),
                timeout_s=timeout_s,
            )
        (result,) = self._results([header.exit_code], pieces)
        return result

    async def run_series(
        self, commands: Sequence[Sequence[str]], *, timeout_s: float = 30.0
    ) -> list[CommandResult]:
        async with self._commands:
            header, pieces = await self._request(
                "series",
                patience_s=SERIES_S + timeout_s + MARGIN_S,
                commands=[list(argv) for argv in commands],
                timeout_s=timeout_s,
            )
        if not 0 < len(header.exit_codes) <= len(commands):
            raise self._broken("no results, or more than asked for")
        return self._results(header.exit_codes, pieces)

    def _results(
        self, exit_codes: Sequence[int | None], pieces: Sequence[bytes | None]
    ) -> list[CommandResult]:
        if len(pieces) != 2 * len(exit_codes):
            raise self._broken("no output, or more than asked for")
        results = []
        for code, output, errors in zip(exit_codes, pieces[::2], pieces[1::2], strict=True):
            result = CommandResult(code, output or b"", errors or b"")
            if len(result.output) + len(result.errors) > MAX_OUTPUT_BYTES:
                raise self._broken("more output than asked for")
            results.append(result)
        return results

    async def make_directories(self, paths: Sequence[str], mode: int = 0o700) -> None:
        for portion in _portions(paths):
            await self._request("mkdir", paths=portion, mode=mode)

    async def make_private(self, path: str) -> None:
        await self._request("own", path=path)

    async def write(self, files: Sequence[NewFile]) -> None:
        start = 0
        while start < len(files):
            end, size = start, 0
            while end < len(files) and end - start < NAMES and (end == start or size < WRITE_BYTES):
                size += len(files[end].content)
                end += 1
            portion = files[start:end]
            await self._request(
                "write",
                b"".join(file.content for file in portion),
                paths=[file.path for file in portion],
                sizes=[len(file.content) for file in portion],
                modes=[file.mode for file in portion],
                digests=[file.digest for file in portion],
            )
            start = end

    async def read(self, paths: Sequence[str], limit: int = 1 << 20) -> list[bytes | None]:
        contents: list[bytes | None] = []
        while len(contents) < len(paths):
            portion = list(paths[len(contents) : len(contents) + NAMES])
            header, pieces = await self._request("read", paths=portion, limit=limit)
            longest = max((size or 0 for size in header.sizes), default=0)
            if not 0 < len(header.sizes) <= len(portion) or longest > limit:
                raise self._broken("no files, or more than asked for")
            contents += pieces
        return contents

    async def read_part(self, path: str, start: int, limit: int) -> bytes | None:
        _, pieces = await self._request("read", paths=[path], limit=limit, start=start)
        if len(pieces) != 1 or len(pieces[0] or b"") > limit:
            raise self._broken("no file, or more than asked for")
        return pieces[0]

    async def digest_of_growing(self, path: str, size_bytes: int) -> str | None:
        header, _ = await self._request("digest", patience_s=None, path=path, size=size_bytes)
        try:
            (digest,) = values_of(header, Short | None, 1)  # type: ignore[arg-type]
        except FrameError as error:
            raise self._broken(str(error)) from None
        return digest

    async def stat(self, paths: Sequence[str]) -> list[Stat | None]:
        values = await self._values("stat", paths, _StatValue)
        return [None if value is None else Stat(*value) for value in values]

    async def claim(self, paths: Sequence[str]) -> list[bool]:
        return await self._values("claim", paths, bool)

    async def _values(self, verb: str, paths: Sequence[str], kind: Any) -> list[Any]:
        values: list[Any] = []
        for portion in _portions(paths):
            header, _ = await self._request(verb, paths=portion)
            try:
                values += values_of(header, kind, len(portion))
            except FrameError as error:
                raise self._broken(str(error)) from None
        return values

    async def rename(self, pairs: Sequence[tuple[str, str]]) -> None:
        for portion in _portions(pairs):
            await self._request("rename", pairs=portion)

    async def remove(self, paths: Sequence[str]) -> None:
        for portion in _portions(paths):
            await self._request("remove", patience_s=REMOVE_S, paths=portion)

    async def watch(self, directory: str, on_records: Callable[[list[bytes]], None]) -> None:
        self._watches[self._next_number()] = on_records
        await self._request("watch", patience_s=WATCH_S, path=directory)

    async def addresses(self, name: str | None) -> list[str]:
        header, _ = await self._request("addresses", address=name)
        try:
            return values_of(header, Short)
        except FrameError as error:
            raise self._broken(str(error)) from None

    async def listen(self, address: str | None, on_connection: OnConnection) -> Listener:
        return await self._channels.listen(self._next_number(), address, on_connection)

    async def spool(
        self, directory: str, session: int, on_file: Callable[[str, bytes], None]
    ) -> Listener:
        return await self._channels.spool(self._next_number(), directory, session, on_file)

    async def counts(self) -> AgentCounts:
        header, _ = await self._request("counts")
        return AgentCounts(commands=header.commands, cpu_s=header.cpu_s, agents=1)


def _portions(items: Sequence[Any]) -> list[list[Any]]:
    return [list(items[start : start + NAMES]) for start in range(0, len(items), NAMES)]
