"""The head node by plain commands, for clusters without a Python that the agent can run on.

Every question is one POSIX sh at the far end, which ends with its answer. It costs the head node
more than the agent does, and differs in this: files that may not be seen count as absent; exit
records are looked for less often, and stay where they are when there is no ``flock`` command;
what a command writes to its stderr is kept in its last 4 kB; a command that takes too long is
killed by ``timeout`` (GNU, busybox), without which it just loses its connection. Beyond POSIX
``head -c`` is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import posixpath
import re
import secrets
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.sites.remote.agent import LINGER_S, PARALLEL
from wfrun.sites.remote.callers import Answer, Listener
from wfrun.sites.remote.host import Counts, Facts, NewFile, Result, Stat
from wfrun.sites.remote.plain_watch import PlainWatch
from wfrun.sites.remote.transport import Process, Transport
from wfrun.sites.tasks import end_tasks

_LOGGER = logging.getLogger(__name__)
ANSWER_S = 60.0
MARGIN_S = 20.0
"""Beyond the time that a command is given, for the login shell and the way."""
QUICK_S = 2.0
SLOW_S = 10.0
"""Between looks for exit records: while some come, and when none have come for a while."""
ARGUMENT_BYTES = 12_000
"""Of arguments in one command line; Linux takes 128 kB, and quoting may make each byte five."""
SMALL_BYTES = 16_000
"""A longer file is the last one in its command; those before it are read byte by byte, which is
how several files can share a stdin."""
_READ_BYTES = 1 << 18
_PASSING = ("Stale file handle", "Input/output error", "Resource temporarily unavailable")

_FACTS = 'uname -n; id -un; date +%s; printf "%s\\000" "$HOME"'
_MKDIR = 'umask "$1"; shift; mkdir -p -- "$@"'
_WRITE = """
umask 077
n=0
while [ $# -gt 0 ]; do
  t=${1%/*}/.wfrun-NONCE-$n
  n=$((n + 1))
  e=
  if [ -d "$1" ]; then echo "$1: is a directory" >&2; exit 1; fi
  if [ $# -eq 3 ]; then cat > "$t"
  elif [ "$2" -eq 0 ]; then true > "$t"
  else e=$(dd bs=1 count="$2" 2>&1 > "$t")
  fi && [ "$(($(wc -c < "$t")))" -eq "$2" ] && chmod "$3" "$t" && mv -f -- "$t" "$1" || {
    rm -f -- "$t"
    echo "$1 could not be written as a whole $e" >&2
    exit 1
  }
  shift 3
done
"""
_READ = """
limit=$1
shift
for p; do
  if [ -f "$p" ] && [ -r "$p" ] && s=$(wc -c < "$p"); then
    n=$((s < limit ? s : limit))
    echo "$n"
    tail -c "$n" < "$p" | head -c "$n"
  else
    echo -
  fi
done
"""
_STAT = """
for p; do
  if [ -d "$p" ]; then k=d; elif [ -e "$p" ]; then k=f; else echo -; continue; fi
  ls -dnL -- "$p" | { read -r mode links user group size rest; echo "$k $mode $size"; }
done
"""
_CLAIM = """
umask 077
set -C
for p; do
  if { true > "$p"; } 2> /dev/null; then echo 1
  elif [ -e "$p" ] || [ -L "$p" ]; then echo 0
  else true > "$p" || exit 1; echo 1
  fi
done
"""
_RENAME = """
umask 077
while [ $# -gt 0 ]; do
  if [ ! -e "$1" ] && [ ! -L "$1" ]; then echo "$1: No such file or directory" >&2; exit 1; fi
  [ -d "${2%/*}/" ] || mkdir -p -- "${2%/*}/" || exit 1
  if [ -L "$2" ]; then rm -f -- "$2"
  elif [ -d "$2" ]; then
    if [ -d "$1" ] && [ ! -L "$1" ]; then rmdir -- "$2" || exit 1
    else echo "$2: Is a directory" >&2; exit 1
    fi
  fi
  mv -f -- "$1" "$2" || exit 1
  shift 2
done
"""
_REMOVE = """
home=$(cd -P -- "$HOME" && pwd -P) || exit 1
for p; do
  if [ -d "$p" ] && [ ! -L "$p" ]; then
    here=$(cd -P -- "$p" 2> /dev/null && pwd -P)
    case ${here:+$home/} in
      "${here%/}"/*) echo "$p is not removed: it holds the home directory" >&2; exit 1 ;;
    esac
  fi
  rm -rf -- "$p" 2> /dev/null || { chmod -R u+rwX -- "$p"; rm -rf -- "$p"; } || exit 1
done
"""
_POLL = """
offset=$2
most=$3
cd -- "$1" 2> /dev/null || { echo kept; echo 0 0; exit 0; }
shift 3
if [ $# -eq 0 ]; then echo kept
elif command -v flock > /dev/null 2>&1; then
  (
    flock -n 9 || { echo kept; exit 0; }
    if [ -s records.jsonl ] && [ -n "$(tail -c 1 records.jsonl)" ]; then echo >&9; fi
    if cat >&9; then rm -f -- "$@"; echo moved; else echo full; fi
  ) 9>> records.jsonl || echo full
else echo never
fi
s=0
if [ -f records.jsonl ]; then s=$(($(wc -c < records.jsonl))); fi
n=$((s > offset ? s - offset : 0))
n=$((n < most ? n : most))
echo "$s $n"
if [ "$n" -gt 0 ]; then tail -c "+$((offset + 1))" records.jsonl | head -c "$n"; fi
for p in *.json; do if [ -e "$p" ]; then printf "%s\\000" "$p"; fi; done
"""
_RUN = """
unset WFRUN_COMMAND
command -v "$1" > /dev/null 2>&1 || { printf "\\000wfrun-NONCE absent\\n"; exit 0; }
printf "\\000wfrun-NONCE begins\\n"
if command -v timeout > /dev/null 2>&1; then exec timeout -s KILL SECONDS "$@"; fi
exec "$@"
"""
_LOGIN = """
export WFRUN_COMMAND
line='exec /bin/sh -c "$WFRUN_COMMAND"'
shell=${SHELL:-/bin/sh}
case ${shell##*/} in csh | tcsh) exec "$shell" -c "$line" ;; esac
exec "$shell" -l -c "$line"
"""
"""The command comes through the environment, for no two shells quote alike."""


class PlainHost:
    """Implements ``Host`` over a transport that is connected: ``start``, use, ``close``."""

    def __init__(self, transport: Transport) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done, with the reason, when there is no use in this object any more."""
        self._transport = transport
        self._nonce = secrets.token_hex(8)
        self._places = asyncio.Semaphore(PARALLEL)
        self._counts: Counter[str] = Counter()
        self._tasks: list[asyncio.Task[None]] = []
        self._facts: Facts | None = None

    async def start(self) -> None:
        """Raises TransientError, or InfeasibleError where there is no POSIX shell."""
        asked_s, began_s = time.time(), time.monotonic()
        answer = await self._ask(_FACTS)
        round_trip_s = time.monotonic() - began_s
        host, user, clock, home = answer.split(b"\n", 3)
        # Its clock shows whole seconds: half of one is the better guess.
        offset_s = int(clock) + 0.5 - asked_s - round_trip_s / 2
        self._facts = Facts(
            host=host.decode(errors="replace"),
            user=user.decode(errors="replace"),
            python="",
            clock_offset_s=0.0 if abs(offset_s) <= 0.5 + round_trip_s else offset_s,
            home=home.rstrip(b"\0").decode("utf-8", "surrogateescape"),
            round_trip_s=round_trip_s,
        )
        self._tasks.append(asyncio.create_task(self._wait_for_end()))

    async def _wait_for_end(self) -> None:
        await self._transport.lost()
        self._die("the connection was lost")

    def _die(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)

    async def close(self) -> None:
        """Stop watching."""
        self._die("the host was closed")
        await end_tasks(self._tasks)

    # ------------------------------------------------------------------------ questions

    async def _ask(self, script: str, words: Sequence[str] = (), stdin: bytes = b"") -> bytes:
        """The output of a script with these arguments."""
        self._counts["sh"] += 1
        command = (
            f"LC_ALL=C; export LC_ALL; set -- {shlex.join(words)}\n"
            f'printf "\\000wfrun-{self._nonce}\\n"\n' + script.replace("NONCE", self._nonce)
        )
        code, output, errors = await self._carry_out(command, stdin, ANSWER_S)
        _, begun, answer = output.partition(f"\0wfrun-{self._nonce}\n".encode())
        if code == 0 and begun:
            return answer
        said = _reason(errors or output[-500:].decode(errors="replace"))
        passing = not begun or any(word in errors for word in _PASSING)
        kind = TransientError if passing else InfeasibleError
        raise kind(f"{self._transport.host}: {said or f'sh ended with exit code {code}'}")

    async def _carry_out(
        self, command: str, stdin: bytes, timeout_s: float
    ) -> tuple[int, bytes, str]:
        if self.ended.done():
            raise TransientError(f"{self._transport.host}: {self.ended.result()}")
        if "\0" in command:
            raise InfeasibleError(f"{self._transport.host}: a NUL byte in {command!r}")
        try:
            async with self._places:
                return await asyncio.wait_for(self._talk(command, stdin), timeout_s)
        except asyncio.TimeoutError:
            raise TransientError(
                f"{self._transport.host}: no answer within {timeout_s:g} s"
            ) from None
        except UnicodeEncodeError as error:
            raise InfeasibleError(f"{self._transport.host}: can't be a name: {error}") from error

    async def _talk(self, command: str, stdin: bytes) -> tuple[int, bytes, str]:
        process = await self._transport.start(command)
        try:
            pieces: list[bytes] = []
            feeder = asyncio.create_task(_feed(process, stdin))
            reader = asyncio.create_task(_drain(process, pieces))
            waiter = asyncio.create_task(process.wait())
            try:
                await asyncio.wait([reader, waiter], return_when=asyncio.FIRST_COMPLETED)
                if not reader.done():  # A child of it may keep its output open.
                    await asyncio.wait([reader], timeout=LINGER_S)
                if reader.done():
                    reader.result()
                code = await waiter
            finally:
                for task in (feeder, reader, waiter):
                    task.cancel()
                await asyncio.gather(feeder, reader, waiter, return_exceptions=True)
            if code is None:
                raise TransientError(f"{self._transport.host}: the connection was lost")
            return code, b"".join(pieces), process.errors()
        finally:
            with contextlib.suppress(TransientError):
                await process.close()

    async def facts(self) -> Facts:
        if self._facts is None or self.ended.done():
            raise TransientError(f"{self._transport.host}: there is no connection")
        return self._facts

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> Result:
        env = env or {}
        odd = [name for name in env if not re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name)]
        if not argv or not argv[0] or argv[0].startswith("-") or odd:
            raise InfeasibleError(
                f"{self._transport.host}: can't be run by plain commands: {list(argv)!r} {odd}"
            )
        self._counts[posixpath.basename(argv[0])] += 1
        inner = "".join(f"export {name}={shlex.quote(env[name])}\n" for name in env)
        inner += f"set -- {shlex.join(argv)}\n" + _RUN.replace("NONCE", self._nonce).replace(
            "SECONDS", str(max(1, math.ceil(timeout_s)))
        )
        began_s = time.monotonic()
        command = f"WFRUN_COMMAND={shlex.quote(inner)}\n{_LOGIN}"
        code, output, errors = await self._carry_out(command, stdin, timeout_s + MARGIN_S)
        _, mark, answer = output.partition(f"\0wfrun-{self._nonce} ".encode())
        verdict, _, answer = answer.partition(b"\n")
        if not mark:
            said = errors.strip() or output[-500:].decode(errors="replace")
            raise TransientError(f"{self._transport.host}: the login shell failed: {said}")
        if verdict == b"absent":
            raise InfeasibleError(f"{self._transport.host}: {argv[0]}: command not found")
        killed = code in (137, -9) and time.monotonic() - began_s >= timeout_s
        return Result(None if killed else code, answer, errors.encode())

    async def make_directories(self, paths: Sequence[str], mode: int = 0o700) -> None:
        for some in self._portions([(path,) for path in paths]):
            await self._ask(_MKDIR, [f"{0o777 & ~mode:o}", *some])

    async def write(self, files: Sequence[NewFile]) -> None:
        some: list[NewFile] = []
        size = 0
        for file in files:
            some.append(file)
            size += len(file.path) + len(file.content)
            if len(file.content) > SMALL_BYTES or size > ARGUMENT_BYTES:
                await self._write(some)
                some, size = [], 0
        if some:
            await self._write(some)

    async def _write(self, files: list[NewFile]) -> None:
        words: list[str] = []
        for file in files:
            words += self._path(file.path), str(len(file.content)), f"{file.mode:o}"
        await self._ask(_WRITE, words, b"".join(file.content for file in files))

    async def read(self, paths: Sequence[str], limit: int = 1 << 20) -> list[bytes | None]:
        contents: list[bytes | None] = []
        for some in self._portions([(path,) for path in paths]):
            answer = await self._ask(_READ, [str(limit), *some])
            for _ in some:
                size, _, answer = answer.partition(b"\n")
                count = 0 if size == b"-" else self._number(size)
                if len(answer) < count:
                    raise TransientError(f"{self._transport.host}: a file shrank while it was read")
                contents.append(None if size == b"-" else answer[:count])
                answer = answer[count:]
        return contents

    def _number(self, text: bytes) -> int:
        try:
            return int(text)
        except ValueError:
            raise TransientError(f"{self._transport.host}: answered {text[:80]!r}") from None

    async def stat(self, paths: Sequence[str]) -> list[Stat | None]:
        stats: list[Stat | None] = []
        for some in self._portions([(path,) for path in paths]):
            for line in (await self._ask(_STAT, some)).splitlines():
                if line == b"-":
                    stats.append(None)
                    continue
                kind, mode, size = (*line.split(b" "), b"", b"")[:3]
                stats.append(
                    Stat(
                        size_bytes=self._number(size) if kind == b"f" and mode[:1] == b"-" else 0,
                        is_executable=mode[3:4] in (b"x", b"s"),
                        is_directory=kind == b"d",
                    )
                )
        return stats

    async def claim(self, paths: Sequence[str]) -> list[bool]:
        taken: list[bool] = []
        for some in self._portions([(path,) for path in paths]):
            taken += [line == b"1" for line in (await self._ask(_CLAIM, some)).splitlines()]
        return taken

    async def rename(self, pairs: Sequence[tuple[str, str]]) -> None:
        for some in self._portions(pairs):
            await self._ask(_RENAME, some)

    async def remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            if ".." in path.split("/"):
                raise InfeasibleError(f"{path} is not removed: write it without '..'")
        # A link with a slash behind it would be what it points to.
        for some in self._portions([(path.rstrip("/") or path[:1],) for path in paths]):
            await self._ask(_REMOVE, some)

    def _path(self, path: str) -> str:
        if not path.startswith("/"):
            raise InfeasibleError(f"the path {path!r} is not absolute")
        return path

    def _portions(self, groups: Sequence[Sequence[str]]) -> Iterator[list[str]]:
        """Paths, some for each command; those of a group stay together."""
        some: list[str] = []
        size = 0
        for group in groups:
            if some and size > ARGUMENT_BYTES:
                yield some
                some, size = [], 0
            some += map(self._path, group)
            size += sum(map(len, group))
        if some:
            yield some

    async def watch(self, directory: str, told: Callable[[list[bytes]], None]) -> None:
        watch = PlainWatch(self.poll, self.read, self._path(directory), told)
        while await watch.look():
            pass
        self._tasks.append(asyncio.create_task(self._watch(watch)))

    async def _watch(self, watch: PlainWatch) -> None:
        pause_s = QUICK_S
        while not self.ended.done():
            await asyncio.sleep(pause_s)
            busy = False
            try:
                busy = await watch.look()
            except (TransientError, InfeasibleError) as error:
                _LOGGER.info("%s", error.message)
            pause_s = QUICK_S if busy else min(1.5 * pause_s, SLOW_S)

    async def poll(self, words: Sequence[str], lines: bytes) -> tuple[bytes, int, bytes, list[str]]:
        """What became of the records that were to be moved, the size of ``records.jsonl``, what
        is new in it, and the names of other records."""
        answer = await self._ask(_POLL, words, lines)
        verdict, _, answer = answer.partition(b"\n")
        numbers, _, answer = answer.partition(b"\n")
        size, count = map(self._number, (*numbers.split(b" "), b"")[:2])
        names = answer[count:].split(b"\0")[:-1]
        return verdict, size, answer[:count], [n.decode("utf-8", "surrogateescape") for n in names]

    async def addresses(self, name: str | None) -> list[str]:
        asked = name or (await self.facts()).host
        result = await self.run(["getent", "ahosts", asked])
        found = [line.split()[0] for line in result.output.decode().splitlines() if line.strip()]
        if name is None:
            found.append("127.0.0.1")
        elif not found:
            raise InfeasibleError(f"{self._transport.host}: the address of {name} is not known")
        return list(dict.fromkeys(found))

    async def listen(self, address: str | None, answer: Answer) -> Listener:
        """Raises InfeasibleError."""
        raise InfeasibleError(f"{self._transport.host}: without an agent nobody listens there")

    async def spool(
        self, directory: str, session: int, told: Callable[[str, bytes], None]
    ) -> Listener:
        """Raises InfeasibleError."""
        raise InfeasibleError(f"{self._transport.host}: without an agent nobody looks for files")

    async def counts(self) -> Counts:
        """The shells count as commands. Their CPU time is not known: 0."""
        return Counts(commands=dict(self._counts), cpu_s=0.0, agents=0)


async def _feed(process: Process, stdin: bytes) -> None:
    with contextlib.suppress(TransientError):  # It reads no more; its exit code says why.
        if stdin:
            await process.write(stdin)
        process.end_input()


async def _drain(process: Process, pieces: list[bytes]) -> None:
    while data := await process.read(_READ_BYTES):
        pieces.append(data)


def _reason(errors: str) -> str:
    """Without what dd says of its success."""
    lines = errors.strip().splitlines()
    return " ".join(line for line in lines if not re.search(r"records (in|out)$|copied,", line))
