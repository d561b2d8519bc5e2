"""The agent: our one process on a head node, at the far end of the one connection to a site.

A single file of the standard library for Python >= 3.6 on POSIX systems, which imports nothing of
wfrun. It is never written to the head node's disk: the client streams it to the stdin of

    python -I -S -c BOOTSTRAP '{"nonce": "5f...", "silence_s": 300}'

(see ``agent_client.py``). It runs commands that are asked for, reads and writes small files and
watches for exit records. It never runs tasks.

The protocol, version 1
-----------------------
What a login prints first is passed over: the agent's output begins after the line
``\\0wfrun-<nonce> agent``. From there on both directions are frames:

    4 bytes   length of the header, big-endian
    4 bytes   length of the payload, big-endian
    header    a JSON object in UTF-8; undecodable bytes of names are surrogate escapes (PEP 383)
    payload   bytes, of which the header says what they are

The agent's first frame is ``{"hello": 1, "pid", "host", "user", "home", "python", "clock"}``; the
clock is in seconds since 1970. Each request has a number and gets one answer with that number,
in any order. Paths are absolute. ``sizes`` cuts the payload into pieces.

    request, with "id": n                     answer, with "id": n
    {"ask": "run", "argv", "env",             {"exit_code", "sizes": [output, errors]} + them;
     "timeout_s"} + stdin                     exit_code null: it took too long and was killed
    {"ask": "mkdir", "paths", "mode"}         {}
    {"ask": "write", "paths", "sizes",        {}
     "modes"} + contents
    {"ask": "read", "paths", "limit"}         {"sizes": [bytes or null, ...]} + contents; may be
                                              of the first paths only, then ask for the rest
    {"ask": "stat", "paths"}                  {"values": [[bytes, executable, directory] or null,
                                              ...]}
    {"ask": "claim", "paths"}                 {"values": [true or false, ...]}
    {"ask": "rename", "pairs"}                {}
    {"ask": "remove", "paths"}                {}
    {"ask": "watch", "path"}                  {}, after all that is there was told of; before
                                              that and from then on also frames
                                              {"told": n, "sizes"} + exit records
    {"ask": "addresses", "address"}           {"values": [address, ...]} of this machine, or of
                                              the given name, as numbers, the likeliest first
    {"ask": "listen", "address"}              {"port"} of TCP, at that address or all (null);
                                              from then on also frames
                                              {"caller": c, "of": n, "address"}   somebody called
                                              {"caller": c} + bytes   that it said
                                              {"caller": c, "ended": reason}
    {"ask": "pass", "caller": c} + bytes      {} when all of it is on its way to the caller
    {"ask": "hang_up", "caller": c}           {}
    {"ask": "spool", "path", "session": s}    {}, and then frames {"told": n, "names", "sizes"} +
                                              contents of spool files of this session, in order
    {"ask": "unlisten", "of": n}              {}; no new callers, or spool files, are told of
    {"ask": "counts"}                         {"commands": {program: n}, "cpu_s"}
    {"ask": "ping"}                           {"clock"}

A request that fails is answered by {"error": "infeasible" | "transient", "message": text}. A frame
that is no request is answered with "id": null; after one of an impossible length the agent ends.

It ends when its stdin ends, on SIGTERM or SIGHUP, and after ``silence_s`` without a frame, and then
kills the commands that it runs. Commands run four at a time, and so do the file operations.
What callers say is passed on as it is: the agent does not know who they are, nor any secret. A
caller whose words the client does not take yet has to wait, and so have the others.

Spool files are named <name>.<session>.<connection>.<n> (see ``channels.py``). Those of a connection
are told of in the order n = 1, 2, 3, ..., however they appear, as <name>.<session>.<connection>,
and removed. Those of earlier sessions and connections are removed.
"""

import collections
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pwd
import queue
import select
import shlex
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple

    Header = Dict[str, Any]
    Answer = Tuple[Header, List[bytes]]
    Signature = Tuple[int, int, int]

PROTOCOL = 1
LENGTHS = struct.Struct(">II")
MAX_HEADER_BYTES = 1 << 26
MAX_PAYLOAD_BYTES = 1 << 28
ANSWER_BYTES = 1 << 24
"""A frame with contents of files is not made longer than this, unless one file is."""
PARALLEL = 4
OUTPUT_BYTES = 1 << 26
"""A command that prints more is killed."""
LOGIN_S = 10.0
"""A login shell that takes longer is killed, and the agent's own environment is used."""
LINGER_S = 1.0
"""For the end of a command's output after the command's own end; a child may keep it open."""
QUICK_S = 0.5
SLOW_S = 2.0
"""Between looks for exit records: while some come, and when none have come for a while."""
SCAN_SHARE = 1 / 30.0
"""Of a core, at most, for looks that find nothing."""
GARBAGE_S = 10.0
"""A record that is not JSON by then is told of as it is."""
UNREADABLE_S = 60.0
"""Between tries to read a record that can't be read."""
RETRY_S = 5.0
"""Between tries to write to a full disk."""
RECORD_BYTES = 1 << 20
GROUP = 500
"""Records that are told of, and then moved, together."""
CHUNK_BYTES = 4 << 20
CALLERS = 500
"""At once; further ones are turned away. A process may often have 1024 open files."""
CALL_BYTES = 1 << 18
"""Of one caller in one frame."""
SPOOL_QUICK_S = 0.01
SPOOL_SLOW_S = 1.0
"""Between looks for spool files: while some come, and when none have come for a while."""
SPOOL_SHARE = 0.1
"""Of a core, at most, for these looks."""
TRANSIENT = (
    errno.EIO, errno.EAGAIN, errno.EINTR, errno.EBUSY, errno.ENOMEM, errno.EMFILE, errno.ENFILE,
    errno.ESTALE, errno.ETIMEDOUT, errno.ETXTBSY,
)  # fmt: skip
CONSOLIDATED = b"records.jsonl"


class RefusedError(Exception):
    """A request that can't be carried out, now or ever, in words."""


def encoded(text: str) -> bytes:
    """A name as the bytes that it is, whatever this machine's locale is.

    Raises RefusedError for what can't be a name.
    """
    try:
        name = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise RefusedError("%r can't be a name" % text)
    if b"\0" in name:
        raise RefusedError("%r has a NUL byte" % text)
    return name


def path_of(text: str) -> bytes:
    """Raises RefusedError for a path that is not absolute."""
    if not text.startswith("/"):
        raise RefusedError("the path %r is not absolute" % text)
    return encoded(text)


def shown(path: bytes) -> str:
    return path.decode("utf-8", "replace")


def close_quietly(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)


# --------------------------------------------------------------------------------------- files


def make_directories(path: bytes, mode: int) -> None:
    """``path`` and its parents; those that are there keep their mode."""
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        return
    except FileNotFoundError:
        parent = os.path.dirname(path.rstrip(b"/"))
        if parent == path:
            raise
        make_directories(parent, mode)
        make_directories(path, mode)
        return
    os.chmod(path, mode)  # Whatever the umask is.


def write_all(fd: int, data: "bytes | memoryview") -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_file(path: bytes, content: "bytes | memoryview", mode: int, temporary: bytes) -> None:
    """Under a temporary name in the same directory, then renamed."""
    beside = os.path.join(os.path.dirname(path), temporary)
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            os.fchmod(fd, mode)
            write_all(fd, content)
        finally:
            os.close(fd)
        os.rename(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def read_at_most(fd: int, limit: int) -> bytes:
    pieces = []
    while limit > 0:
        data = os.read(fd, min(limit, CHUNK_BYTES))
        if not data:
            break
        pieces.append(data)
        limit -= len(data)
    return b"".join(pieces)


def open_regular(path: bytes) -> "Tuple[int, os.stat_result]":
    """For reading. Raises OSError for what is not a regular file; a pipe is not waited for."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
    except OSError:
        os.close(fd)
        raise
    return fd, status


def read_tail(path: bytes, limit: int) -> "Optional[bytes]":
    """The last bytes of a file; None where there is none that can be read."""
    try:
        fd, status = open_regular(path)
    except OSError:
        return None
    try:
        os.lseek(fd, max(0, status.st_size - limit), os.SEEK_SET)
        return read_at_most(fd, limit)
    except OSError:
        return None
    finally:
        os.close(fd)


def stat_of(path: bytes) -> "Optional[List[int]]":
    """Bytes, whether it is executable and a directory; None where nothing is there.

    An error is not an absence, and raised.
    """
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    directory = stat.S_ISDIR(status.st_mode)
    return [0 if directory else status.st_size, bool(status.st_mode & 0o100), directory]


def claim(path: bytes) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    return True


def rename(source: bytes, target: bytes) -> None:
    try:
        os.rename(source, target)
    except FileNotFoundError:
        os.lstat(source)
        make_directories(os.path.dirname(target), 0o700)
        os.rename(source, target)


def refuse_precious(path: bytes, home: bytes) -> None:
    """Raises RefusedError for the root, the home directory and all that contains it, by whatever
    name."""
    if b".." in path.split(b"/"):
        raise RefusedError("%s is not removed: write it without '..'" % shown(path))
    try:
        status = os.lstat(path)
    except OSError:
        return
    if not stat.S_ISDIR(status.st_mode):
        return  # A link to the home directory is just a link.
    here = os.path.realpath(home)
    while True:
        with contextlib.suppress(OSError):
            if os.path.samestat(status, os.stat(here)):
                raise RefusedError("%s is not removed: it holds the home directory" % shown(path))
        if here == b"/":
            return
        here = os.path.dirname(here)


def remove(path: bytes, home: bytes) -> None:
    """A file, a link itself, or a tree; it may be gone already."""
    path = path.rstrip(b"/") or b"/"
    refuse_precious(path, home)
    try:
        parent = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        remove_at(parent, os.path.basename(path))
    finally:
        os.close(parent)


def remove_at(parent: int, name: "bytes | str") -> None:
    """By descriptors all the way: nobody can put a link into the path meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=parent)
            return
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        try:
            fd = os.open(name, flags, dir_fd=parent)
        except PermissionError:
            os.chmod(name, 0o700, dir_fd=parent)
            fd = os.open(name, flags, dir_fd=parent)
        try:
            members = os.listdir(fd)
            if members:
                with contextlib.suppress(OSError):  # Not ours; perhaps it works anyway.
                    os.fchmod(fd, 0o700)
            for member in members:
                remove_at(fd, member)
        finally:
            os.close(fd)
        os.rmdir(name, dir_fd=parent)


# ------------------------------------------------------------------------------------ commands


class Commands:
    """Runs commands in the user's login environment, and counts them."""

    def __init__(self, nonce: str) -> None:
        self.counts = {}  # type: Dict[str, int]
        self._mark = b"\0wfrun-" + nonce.encode() + b"\0"
        self._lock = threading.Lock()
        self._running = set()  # type: set[int]
        self._environment = dict(os.environb)
        self._known = threading.Event()

    def run(
        self, argv: "List[bytes]", stdin: bytes, env: "Dict[bytes, bytes]", timeout_s: float
    ) -> "Tuple[Optional[int], bytes, bytes]":
        """Its exit code (negative: the signal it died of; None: it was killed by us), its output
        and errors."""
        self._known.wait()
        environment = dict(self._environment)
        environment.update(env)
        return self._run(argv, None, stdin, environment, timeout_s)

    def find_environment(self) -> None:
        """Ask the user's login shell, since that is where clusters set PATH.

        A dash before its name makes any shell a login shell (sh, bash, zsh, ksh, csh, tcsh, fish).
        """
        try:
            shell = pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
        except KeyError:
            shell = "/bin/sh"
        mark = repr(self._mark)
        code = (
            "import os,sys;sys.stdout.buffer.write(%s+b'\\0'.join(b'='.join(i) "
            "for i in os.environb.items())+%s)" % (mark, mark)
        )
        words = (sys.executable, "-I", "-S", "-c", code.replace("'", '"'))
        line = " ".join(shlex.quote(word) for word in words)
        name = b"-" + os.path.basename(encoded(shell))
        try:
            argv = [name, b"-c", encoded(line)]
            output = self._run(argv, encoded(shell), b"", dict(os.environb), LOGIN_S)[1]
            pieces = output.split(self._mark)
            if len(pieces) >= 3:
                found = dict(item.split(b"=", 1) for item in pieces[1].split(b"\0"))
                for name in (b"_", b"SHLVL", b"PWD", b"OLDPWD"):
                    found.pop(name, None)
                self._environment = found
        except (OSError, ValueError, RefusedError):
            pass
        finally:
            self._known.set()

    def kill_all(self) -> None:
        for pid in list(self._running):
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)

    def _run(
        self,
        argv: "List[bytes]",
        executable: "Optional[bytes]",
        stdin: bytes,
        environment: "Dict[bytes, bytes]",
        timeout_s: float,
    ) -> "Tuple[Optional[int], bytes, bytes]":
        program = shown(os.path.basename(executable or argv[0]))
        with self._lock:
            self.counts[program] = self.counts.get(program, 0) + 1
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            argv,
            executable=executable,
            env=environment,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            bufsize=0,
            start_new_session=True,
        )
        self._running.add(process.pid)
        try:
            return self._attend(process, stdin, time.monotonic() + timeout_s)
        finally:
            self._running.discard(process.pid)
            for stream in (process.stdin, process.stdout, process.stderr):
                with contextlib.suppress(OSError):
                    stream.close()  # type: ignore[union-attr]

    def _attend(
        self, process: "subprocess.Popen[bytes]", stdin: bytes, deadline_s: float
    ) -> "Tuple[Optional[int], bytes, bytes]":
        output, errors, in_time = exchange(process, stdin, deadline_s)
        excess = len(output) + len(errors) > OUTPUT_BYTES
        code = None  # type: Optional[int]
        if in_time and not excess:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(max(0.0, deadline_s - time.monotonic()))
        if code is None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # In the kernel, on a dead disk.
                process.wait(LINGER_S)
        if excess:
            raise RefusedError("the command printed more than %d bytes" % OUTPUT_BYTES)
        return code, bytes(output), bytes(errors)


def exchange(
    process: "subprocess.Popen[bytes]", stdin: bytes, deadline_s: float
) -> "Tuple[bytearray, bytearray, bool]":
    """Give a command its input and take its output until both are at their end; last of all
    whether that was in time. What a child of it still holds open is let go soon after its end."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    output, errors = bytearray(), bytearray()
    into = {process.stdout.fileno(): output, process.stderr.fileno(): errors}
    source = process.stdin.fileno()
    unsent = memoryview(stdin)
    poller = select.poll()
    for fd in into:
        poller.register(fd, select.POLLIN)
    os.set_blocking(source, False)
    poller.register(source, select.POLLOUT)
    ended = False
    while into and len(output) + len(errors) <= OUTPUT_BYTES:
        if not ended and process.poll() is not None:
            ended = True
            deadline_s = min(deadline_s, time.monotonic() + LINGER_S)
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            break
        for fd, _ in poller.poll(min(left_s, QUICK_S) * 1000 + 1):
            if fd in into:
                data = os.read(fd, 1 << 18)
                into[fd] += data
                if not data:
                    poller.unregister(fd)
                    del into[fd]
                continue
            try:
                unsent = unsent[os.write(fd, unsent) :]
            except BlockingIOError:
                continue
            except OSError:  # It reads no more.
                unsent = unsent[:0]
            if not unsent:
                poller.unregister(fd)
                process.stdin.close()
    return output, errors, ended or not into


# ---------------------------------------------------------------------------------------- watch


def as_line(content: bytes) -> "Optional[bytes]":
    """A record as one line, without its end; None: it is no JSON object.

    JSON has line ends between its tokens only, so that they may become spaces.
    """
    try:
        if not isinstance(json.loads(content.decode("utf-8", "surrogateescape")), dict):
            return None
    except (ValueError, RecursionError):
        return None
    return content.strip().replace(b"\r", b" ").replace(b"\n", b" ")


def digest(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()


def signature_of(status: os.stat_result) -> "Signature":
    return status.st_ino, status.st_mtime_ns, status.st_size


class Watch:
    """Tells of all exit records in one directory, each once, and moves them into one file.

    A record is told of first, then appended to ``records.jsonl`` under a lock (flock), and then
    its own file is removed: whatever is interrupted, it is in at least one of the two places.
    Where files can't be locked, or the disk is full, the records stay as they are. What another
    agent appends is told of too. Equal records are one.
    """

    def __init__(self, directory: bytes, tell: "Callable[[List[bytes]], None]") -> None:
        self._directory = directory
        self._together = os.path.join(directory, CONSOLIDATED)
        self._tell = tell
        self._told = set()  # type: set[bytes]
        """Digests of what was told of."""
        self._seen = set()  # type: set[bytes]
        """Files that were told of and are still there."""
        self._doubtful = {}  # type: Dict[bytes, Tuple[Signature, float, float]]
        """Files that are no records: as they were, when that was found, when to look again."""
        self._garbage = {}  # type: Dict[bytes, Signature]
        """Those that were told of as they are."""
        self._pending = {}  # type: Dict[bytes, Tuple[bytes, Signature]]
        """Told of, and still to be moved: the line, and how the file was."""
        self._offset = 0
        self._lockable = True
        self._retry_s = 0.0

    def run(self) -> None:
        """Never returns."""
        pause_s = QUICK_S
        while True:
            time.sleep(pause_s)
            began_s = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)
            busy = self.look()
            spent_s = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID) - began_s
            pause_s = QUICK_S if busy else max(min(pause_s * 1.25, SLOW_S), spent_s / SCAN_SHARE)

    def look(self) -> bool:
        """Whether there was something to tell of."""
        try:
            return self.scan(time.monotonic()) > 0
        except OSError:  # The directory is not there yet, or its disk is not well.
            return False

    def scan(self, now_s: float) -> int:
        """Look once; returns how many records were told of. Raises OSError."""
        count = 0
        with contextlib.suppress(OSError):  # Whatever is wrong with it, there are the others.
            count = self._follow()
        names = os.listdir(self._directory)
        present = {n for n in names if n.endswith(b".json") and not n.startswith(b".")}
        self._seen &= present
        for known in (self._doubtful, self._garbage):  # type: Dict[bytes, Any]
            for name in [name for name in known if name not in present]:
                del known[name]
        for name, before in list(self._garbage.items()):
            with contextlib.suppress(OSError):
                if signature_of(os.stat(os.path.join(self._directory, name))) != before:
                    del self._garbage[name]
        fresh = sorted(present.difference(self._seen, self._garbage))
        for start in range(0, len(fresh), GROUP):
            records = []  # type: List[bytes]
            for name in fresh[start : start + GROUP]:
                self._take(name, now_s, records)
            if records:
                self._tell(records)
                count += len(records)
            self._consolidate(now_s)
        if not fresh:
            self._consolidate(now_s)
        return count

    def _follow(self) -> int:
        """Tell of what is new in the file of all records."""
        try:
            fd = os.open(self._together, os.O_RDONLY)
        except FileNotFoundError:
            self._offset = 0
            return 0
        count = 0
        try:
            size = os.fstat(fd).st_size
            if size < self._offset:
                self._offset = 0
            while self._offset < size:
                data = os.pread(fd, CHUNK_BYTES, self._offset)
                end = data.rfind(b"\n") + 1
                if not end and len(data) < CHUNK_BYTES:
                    break  # Torn, or being written.
                self._offset += end or len(data)
                records = [line for line in data[:end].split(b"\n") if self._is_news(line)]
                if records:
                    self._tell(records)
                count += len(records)
        finally:
            os.close(fd)
        return count

    def _is_news(self, line: bytes) -> bool:
        if not line or as_line(line) is None:  # A torn line; its record has its file still.
            return False
        key = digest(line)
        if key in self._told:
            return False
        self._told.add(key)
        return True

    def _take(self, name: bytes, now_s: float, records: "List[bytes]") -> None:
        path = os.path.join(self._directory, name)
        doubt = self._doubtful.get(name)
        if doubt is not None and now_s < doubt[2]:
            return
        content = None  # type: Optional[bytes]
        try:
            fd, status = open_regular(path)
            try:
                content = read_at_most(fd, RECORD_BYTES)
            finally:
                os.close(fd)
        except FileNotFoundError:
            return
        except OSError:
            try:
                status = os.lstat(path)
            except OSError:
                return
        signature = signature_of(status)
        line = None if content is None else as_line(content)
        if line is not None:
            self._doubtful.pop(name, None)
            self._seen.add(name)
            if self._is_news(line):
                records.append(line)
            if self._lockable:
                self._pending[name] = (line, signature)
        elif doubt is None or doubt[0] != signature:
            self._doubtful[name] = (signature, now_s, now_s)
        elif now_s - doubt[1] >= GARBAGE_S:
            if content is None:
                self._doubtful[name] = (signature, doubt[1], now_s + UNREADABLE_S)
            else:
                del self._doubtful[name]
                self._garbage[name] = signature
                records.append(content)

    def _consolidate(self, now_s: float) -> None:
        if not self._pending or now_s < self._retry_s:
            return
        try:
            moved = self._append()
        except OSError:
            self._retry_s = now_s + RETRY_S
            return
        for name in moved:
            del self._pending[name]
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._directory, name))
                self._seen.discard(name)

    def _append(self) -> "List[bytes]":
        """Append the lines of what is still there; returns the names of the files that may go.

        Raises OSError when the lines may not all have reached the disk.
        """
        fd = os.open(self._together, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return []
            except OSError:
                self._lockable = False
                self._pending.clear()
                return []
            names = [name for name in list(self._pending) if self._is_unchanged(name)]
            if not names:
                return []
            size = os.fstat(fd).st_size
            torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            lines = b"".join(self._pending[name][0] + b"\n" for name in names)
            write_all(fd, b"\n" + lines if torn else lines)
            os.fsync(fd)
            if self._offset == size and not torn:  # No need to read it again.
                self._offset += len(lines)
            return names
        finally:
            os.close(fd)

    def _is_unchanged(self, name: bytes) -> bool:
        """Otherwise another agent has moved it, or somebody has replaced it: forget it."""
        with contextlib.suppress(OSError):
            status = os.stat(os.path.join(self._directory, name))
            if signature_of(status) == self._pending[name][1]:
                return True
        del self._pending[name]
        self._seen.discard(name)
        return False


# -------------------------------------------------------------------------------------- callers


def addresses_of(name: "Optional[str]") -> "List[str]":
    """Numeric addresses of a machine; None: this one, private networks first, loopback last.

    Raises OSError where nobody knows the name.
    """
    kind = socket.SOCK_STREAM
    if name is not None:
        return list(dict.fromkeys(str(a[4][0]) for a in socket.getaddrinfo(name, 0, type=kind)))
    found = []  # type: List[str]
    with contextlib.suppress(OSError):
        probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with probe:
            for _, interface in socket.if_nameindex():
                with contextlib.suppress(OSError):  # It has no address, or none of version 4.
                    asked = struct.pack("256s", interface.encode()[:15])
                    answer = fcntl.ioctl(probe.fileno(), 0x8915, asked)  # SIOCGIFADDR
                    found.append(socket.inet_ntoa(answer[20:24]))
    with contextlib.suppress(OSError):
        found += [str(a[4][0]) for a in socket.getaddrinfo(os.uname().nodename, 0, type=kind)]
    found = [address for address in found if not address.startswith(("127.", "fe80:", "::1"))]
    found.sort(key=lambda address: not address.startswith(("10.", "172.", "192.168.")))
    return [*dict.fromkeys(found), "127.0.0.1"]


def listen_at(address: "Optional[str]") -> socket.socket:
    """At a port that is free; None: on all interfaces. Raises OSError."""
    if address is not None:
        found = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
        return listen_on(found[0], found[4])
    try:
        return listen_on(socket.AF_INET6, ("", 0))
    except OSError:  # A machine without version 6.
        return listen_on(socket.AF_INET, ("", 0))


def listen_on(family: int, target: "Any") -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:  # And version 4.
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(target)
        listener.listen(128)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


class Caller:
    """A connection that somebody has made to us."""

    def __init__(self, number: int, line: socket.socket) -> None:
        self.number = number
        self.line = line
        self.fd = line.fileno()
        self.unsent = collections.deque()  # type: collections.deque[Tuple[int, memoryview]]
        """What is to be passed, with the numbers of the requests."""


class Relay:
    """Passes bytes between callers and frames. All of it is done by one thread, ``run``; what it
    shall do is given by ``put``."""

    def __init__(self, send: "Callable[[Header, List[bytes]], None]") -> None:
        self._send = send
        self._jobs = collections.deque()  # type: collections.deque[Callable[[], None]]
        self._listeners = {}  # type: Dict[int, Tuple[int, socket.socket]]
        self._by_fd = {}  # type: Dict[int, Caller]
        self._callers = {}  # type: Dict[int, Caller]
        self._count = 0
        self._poller = select.poll()
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._poller.register(self._woken, select.POLLIN)

    def put(self, job: "Callable[[], None]") -> None:
        self._jobs.append(job)
        with contextlib.suppress(BlockingIOError):  # It will wake up anyway.
            os.write(self._waker, b"\0")

    def run(self) -> None:
        """Never returns."""
        while True:
            for fd, event in self._poller.poll():
                if fd == self._woken:
                    os.read(fd, 4096)
                elif fd in self._listeners:
                    self._accept(*self._listeners[fd])
                elif fd in self._by_fd:
                    caller = self._by_fd[fd]
                    if event & select.POLLOUT:
                        self._write(caller)
                    if event & ~select.POLLOUT and caller.fd in self._by_fd:
                        self._read(caller)
            while self._jobs:
                self._jobs.popleft()()

    # -- jobs

    def listen(self, number: int, listener: socket.socket) -> None:
        self._listeners[listener.fileno()] = (number, listener)
        self._poller.register(listener.fileno(), select.POLLIN)

    def unlisten(self, number: int) -> None:
        for fd, (other, listener) in list(self._listeners.items()):
            if other == number:
                self._poller.unregister(fd)
                del self._listeners[fd]
                listener.close()

    def pass_on(self, number: int, request: int, payload: bytes) -> None:
        caller = self._callers.get(number)
        if caller is None:
            self._refuse(request)
            return
        caller.unsent.append((request, memoryview(payload)))
        self._write(caller)

    def hang_up(self, number: int, request: int) -> None:
        if number in self._callers:
            self._drop(self._callers[number])
        self._send({"id": request}, [])

    # -- what happens

    def _accept(self, listener_number: int, listener: socket.socket) -> None:
        try:
            line, address = listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError:  # Too many open files. It goes on waiting.
            time.sleep(0.1)
            return
        if len(self._callers) >= CALLERS:
            line.close()
            return
        line.setblocking(False)
        with contextlib.suppress(OSError):
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._count += 1
        caller = Caller(self._count, line)
        self._callers[caller.number] = self._by_fd[caller.fd] = caller
        self._poller.register(caller.fd, select.POLLIN)
        where = "%s:%d" % (address[0], address[1])
        self._send({"caller": caller.number, "of": listener_number, "address": where}, [])

    def _read(self, caller: Caller) -> None:
        try:
            data = caller.line.recv(CALL_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(caller, str(error.strerror))
            return
        if data:
            self._send({"caller": caller.number}, [data])
        else:
            self._end(caller, "it was closed by the other side")

    def _write(self, caller: Caller) -> None:
        while caller.unsent:
            request, view = caller.unsent[0]
            try:
                sent = caller.line.send(view)
            except BlockingIOError:
                break
            except OSError as error:
                self._end(caller, str(error.strerror))
                return
            if sent == len(view):
                caller.unsent.popleft()
                self._send({"id": request}, [])
            else:
                caller.unsent[0] = (request, view[sent:])
        mask = select.POLLIN | select.POLLOUT if caller.unsent else select.POLLIN
        self._poller.register(caller.fd, mask)

    def _end(self, caller: Caller, reason: str) -> None:
        self._drop(caller)
        self._send({"caller": caller.number, "ended": reason}, [])

    def _drop(self, caller: Caller) -> None:
        self._poller.unregister(caller.fd)
        del self._callers[caller.number], self._by_fd[caller.fd]
        caller.line.close()
        for request, _ in caller.unsent:
            self._refuse(request)

    def _refuse(self, request: int) -> None:
        text = "the caller has gone"
        self._send({"id": request, "error": "transient", "message": text}, [])


class SpoolReader:
    """Tells of the spool files of one session, those of each connection in order, and removes
    them."""

    def __init__(
        self, directory: bytes, session: int, tell: "Callable[[List[bytes], List[bytes]], None]"
    ) -> None:
        self._directory = directory
        self._session = session
        self._tell = tell
        self._next = {}  # type: Dict[bytes, Tuple[int, int]]
        """By name: the connection, and its next file."""
        self._stirred = threading.Event()
        self.ended = False

    def stir(self) -> None:
        """Something will come soon, or it has ended."""
        self._stirred.set()

    def run(self) -> None:
        """Returns when it has ended."""
        pause_s = SPOOL_QUICK_S
        while not self.ended:
            began_s = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)
            busy = False
            with contextlib.suppress(OSError):  # The directory's disk is not well now.
                busy = self.look(pause_s >= SPOOL_SLOW_S)
            spent_s = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID) - began_s
            pause_s = SPOOL_QUICK_S if busy else min(pause_s * 1.25, SPOOL_SLOW_S)
            if self._stirred.wait(max(pause_s, spent_s / SPOOL_SHARE)):
                self._stirred.clear()
                pause_s = SPOOL_QUICK_S

    def look(self, anew: bool) -> bool:
        """Whether there was something to tell of. Raises OSError."""
        if anew:
            # Whoever changes a directory is shown it anew by NFS, which may else show it as it was
            # half a minute ago.
            os.utime(self._directory)
        there = set(os.listdir(self._directory))
        known = {}  # type: Dict[bytes, Tuple[bytes, int, int]]
        for name in there:
            with contextlib.suppress(ValueError):
                words = name.lstrip(b".").rsplit(b".", 3)
                if len(words) == 4:
                    known[name] = (words[0], int(words[1]), int(words[2]))
        for name, (source, session, connection) in known.items():
            is_ours = session == self._session and not name.startswith(b".")
            if is_ours and connection > self._next.get(source, (0, 1))[0]:
                self._next[source] = (connection, 1)
        for name, (source, session, connection) in known.items():
            current = self._next.get(source, (0, 1))[0]
            if session < self._session or (session == self._session and connection < current):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self._directory, name))
        busy = False
        for source in {entry[0] for entry in known.values()}:
            busy = self._follow(source, there) or busy
        return busy

    def _follow(self, source: bytes, there: "set[bytes]") -> bool:
        """Tell of one connection's files as far as they are there."""
        connection, number = self._next.get(source, (0, 1))
        stem = b"%s.%d.%d" % (source, self._session, connection)
        contents = []  # type: List[bytes]
        paths = []  # type: List[bytes]
        size = 0
        while size < CHUNK_BYTES:
            name = b"%s.%d" % (stem, number + len(paths))
            if name not in there:
                break
            path = os.path.join(self._directory, name)
            try:
                fd, status = open_regular(path)
            except OSError:  # It can be seen, but not yet be opened.
                break
            try:
                contents.append(read_at_most(fd, status.st_size))
            finally:
                os.close(fd)
            paths.append(path)
            size += len(contents[-1])
        if not paths:
            return False
        self._next[source] = (connection, number + len(paths))
        self._tell([stem] * len(paths), contents)
        for path in paths:
            with contextlib.suppress(OSError):
                os.unlink(path)
        return True


# ---------------------------------------------------------------------------------------- agent


class Pool:
    """Threads for what may take long, started when they are needed."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._jobs = queue.Queue()  # type: queue.Queue[Callable[[], None]]
        self._threads = 0
        self._open = 0
        self._lock = threading.Lock()

    def put(self, job: "Callable[[], None]") -> None:
        with self._lock:
            self._open += 1
            short = self._open > self._threads and self._threads < self._size
            self._threads += short
        if short:
            start_thread(self._work)
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            self._jobs.get()()
            with self._lock:
                self._open -= 1


def start_thread(target: "Callable[[], None]") -> None:
    thread = threading.Thread(target=target)
    thread.daemon = True
    thread.start()


class Agent:
    def __init__(self, config: "Dict[str, Any]") -> None:
        self._silence_s = float(config["silence_s"])
        self._nonce = str(config["nonce"])
        self._home = os.environb.get(b"HOME") or encoded(pwd.getpwuid(os.getuid()).pw_dir)
        self._commands = Commands(self._nonce)
        self._pools = (Pool(PARALLEL), Pool(PARALLEL))
        self._sending = threading.Lock()
        self._relay = None  # type: Optional[Relay]
        self._spools = {}  # type: Dict[int, SpoolReader]
        self._output = os.dup(1)
        os.dup2(2, 1)  # Nothing but frames may get there.
        self._written = 0

    def serve(self) -> None:
        """Never returns."""
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
            signal.signal(number, lambda *_: self.end(0))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._be_patient()
        try:
            user = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            user = str(os.getuid())
        write_all(self._output, ("\n\0wfrun-%s agent\n" % self._nonce).encode())
        self._send(
            {
                "hello": PROTOCOL,
                "pid": os.getpid(),
                "host": os.uname().nodename,
                "user": user,
                "home": self._home.decode("utf-8", "surrogateescape"),
                "python": "%d.%d.%d" % sys.version_info[:3],
                "clock": time.time(),
            }
        )
        start_thread(self._commands.find_environment)
        while True:
            header_bytes, payload_bytes = LENGTHS.unpack(self._receive(LENGTHS.size))
            if header_bytes > MAX_HEADER_BYTES or payload_bytes > MAX_PAYLOAD_BYTES:
                text = "a frame of %d and %d bytes" % (header_bytes, payload_bytes)
                self._send({"id": None, "error": "infeasible", "message": text})
                self.end(2)
            header = self._receive(header_bytes)
            payload = self._receive(payload_bytes)
            self._be_patient()
            self._dispatch(header, payload)

    def end(self, code: int) -> None:
        self._commands.kill_all()
        os._exit(code)

    def _be_patient(self) -> None:
        """The alarm ends the agent even where it hangs in a write to a connection that is dead."""
        signal.setitimer(signal.ITIMER_REAL, self._silence_s)

    def _receive(self, size: int) -> bytes:
        data = read_at_most(0, size)
        if len(data) < size:
            self.end(0)
        return data

    def _send(self, header: "Header", pieces: "Tuple[bytes, ...] | List[bytes]" = ()) -> None:
        text = json.dumps(header, separators=(",", ":")).encode("ascii")
        payload = b"".join(pieces)
        frame = LENGTHS.pack(len(text), len(payload)) + text + payload
        try:
            with self._sending:
                write_all(self._output, frame)
        except OSError:
            self.end(0)

    def _dispatch(self, text: bytes, payload: bytes) -> None:
        try:
            request = json.loads(text.decode("utf-8"))
            number, verb = int(request["id"]), str(request["ask"])
        except (ValueError, TypeError, KeyError, RecursionError):
            self._send({"id": None, "error": "infeasible", "message": "not a request"})
            return
        if verb == "ping":
            self._send({"id": number, "clock": time.time()})
            return
        if verb in ("pass", "hang_up"):  # In the order in which they are asked.
            self._ask_relay(number, verb, request, payload)
            return
        self._pools[verb == "run"].put(lambda: self._answer(number, verb, request, payload))

    def _answer(self, number: int, verb: str, request: "Header", payload: bytes) -> None:
        kind = "infeasible"
        try:
            method = getattr(self, "ask_" + verb, None)
            if method is None:
                raise RefusedError("no such request: %s" % verb)
            header, pieces = method(request, payload)  # type: Header, List[bytes]
            header["id"] = number
            self._send(header, pieces)
            return
        except OSError as error:
            name = error.filename
            where = shown(name) if isinstance(name, bytes) else name
            text = "%s: %s" % (where, error.strerror) if where else str(error.strerror or error)
            if error.errno in TRANSIENT:
                kind = "transient"
        except RefusedError as error:
            text = str(error)
        except Exception as error:  # Whatever was wrong with it, it is answered.
            text = "%s: %s" % (type(error).__name__, error)
        self._send({"id": number, "error": kind, "message": text})

    def _ask_relay(self, number: int, verb: str, request: "Header", payload: bytes) -> None:
        relay, caller = self._relay, request.get("caller")
        if relay is None or not isinstance(caller, int):
            text = "there is no such caller"
            self._send({"id": number, "error": "transient", "message": text})
        elif verb == "pass":
            relay.put(lambda: relay.pass_on(caller, number, payload))
        else:
            relay.put(lambda: relay.hang_up(caller, number))

    def _start_vital(self, target: "Callable[[], None]") -> None:
        """In a thread. Better no agent than one that watches or listens no more."""

        def run() -> None:
            try:
                target()
            except BaseException:
                sys.excepthook(*sys.exc_info())
                self.end(3)

        start_thread(run)

    def _temporary(self) -> bytes:
        with self._sending:
            self._written += 1
            return (".wfrun-%s-%d" % (self._nonce, self._written)).encode()

    def ask_run(self, request: "Header", payload: bytes) -> "Answer":
        argv = [encoded(word) for word in request["argv"]]
        env = {encoded(k): encoded(v) for k, v in request["env"].items()}
        if not argv or not argv[0]:
            raise RefusedError("a command without a name")
        timeout_s = float(request["timeout_s"])
        code, output, errors = self._commands.run(argv, payload, env, timeout_s)
        return {"exit_code": code, "sizes": [len(output), len(errors)]}, [output, errors]

    def ask_mkdir(self, request: "Header", payload: bytes) -> "Answer":
        for path in request["paths"]:
            make_directories(path_of(path), request["mode"])
        return {}, []

    def ask_write(self, request: "Header", payload: bytes) -> "Answer":
        if sum(request["sizes"]) != len(payload):
            raise RefusedError("the sizes are not those of the payload")
        start = 0
        for path, size, mode in zip(request["paths"], request["sizes"], request["modes"]):
            content = memoryview(payload)[start : start + size]
            write_file(path_of(path), content, mode, self._temporary())
            start += size
        for reader in list(self._spools.values()):  # Perhaps these were spool files.
            reader.stir()
        return {}, []

    def ask_read(self, request: "Header", payload: bytes) -> "Answer":
        contents = []  # type: List[Optional[bytes]]
        total = 0
        limit = min(request["limit"], MAX_PAYLOAD_BYTES - ANSWER_BYTES)
        for path in request["paths"]:
            contents.append(read_tail(path_of(path), limit))
            total += len(contents[-1] or b"")
            if total >= ANSWER_BYTES:
                break
        sizes = [None if content is None else len(content) for content in contents]
        return {"sizes": sizes}, [content for content in contents if content]

    def ask_stat(self, request: "Header", payload: bytes) -> "Answer":
        return {"values": [stat_of(path_of(path)) for path in request["paths"]]}, []

    def ask_claim(self, request: "Header", payload: bytes) -> "Answer":
        return {"values": [claim(path_of(path)) for path in request["paths"]]}, []

    def ask_rename(self, request: "Header", payload: bytes) -> "Answer":
        for source, target in request["pairs"]:
            rename(path_of(source), path_of(target))
        return {}, []

    def ask_remove(self, request: "Header", payload: bytes) -> "Answer":
        for path in request["paths"]:
            remove(path_of(path), self._home)
        return {}, []

    def ask_watch(self, request: "Header", payload: bytes) -> "Answer":
        number = request["id"]

        def tell(records: "List[bytes]") -> None:
            while records:
                count, size = 0, 0
                while count < len(records) and (not count or size < CHUNK_BYTES):
                    size += len(records[count])
                    count += 1
                sizes = [len(record) for record in records[:count]]
                self._send({"told": number, "sizes": sizes}, records[:count])
                records = records[count:]

        watch = Watch(path_of(request["path"]), tell)
        watch.look()
        self._start_vital(watch.run)
        return {}, []

    def ask_addresses(self, request: "Header", payload: bytes) -> "Answer":
        return {"values": addresses_of(request["address"])}, []

    def ask_listen(self, request: "Header", payload: bytes) -> "Answer":
        listener = listen_at(request["address"])
        with self._sending:
            fresh = self._relay is None
            relay = self._relay = self._relay or Relay(self._send)
        relay.put(lambda: relay.listen(request["id"], listener))
        if fresh:
            self._start_vital(relay.run)
        return {"port": listener.getsockname()[1]}, []

    def ask_spool(self, request: "Header", payload: bytes) -> "Answer":
        number = request["id"]

        def tell(names: "List[bytes]", contents: "List[bytes]") -> None:
            texts = [name.decode("utf-8", "surrogateescape") for name in names]
            sizes = [len(content) for content in contents]
            self._send({"told": number, "names": texts, "sizes": sizes}, contents)

        reader = SpoolReader(path_of(request["path"]), int(request["session"]), tell)
        self._spools[number] = reader
        self._start_vital(reader.run)
        return {}, []

    def ask_unlisten(self, request: "Header", payload: bytes) -> "Answer":
        number, relay = request["of"], self._relay
        if relay is not None:
            relay.put(lambda: relay.unlisten(number))
        reader = self._spools.pop(number, None)
        if reader is not None:
            reader.ended = True
            reader.stir()
        return {}, []

    def ask_counts(self, request: "Header", payload: bytes) -> "Answer":
        return {"commands": dict(self._commands.counts), "cpu_s": sum(os.times()[:4])}, []


if __name__ == "__main__":
    Agent(json.loads(sys.argv[1])).serve()
