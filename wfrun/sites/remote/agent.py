"""The agent: the one wfrun process on a head node, at the end of the site's one connection.

One file that needs the standard library of Python >= 3.6 on a POSIX system, and imports nothing of
wfrun. It is not stored on the head node: the client streams it to the stdin of

    python -I -S -c BOOTSTRAP '{"nonce": "5f...", "silence_s": 300, "variables": null}'

(see ``agent_client.py``). It runs the client's commands, reads and writes small files, and watches
for exit records. It never runs tasks.

The protocol, version 1
-----------------------
The client skips the output of the login: the agent's begins after the line
``\\0wfrun-<nonce> agent``. From there on both directions are frames:

    4 bytes   length of the header, big-endian
    4 bytes   length of the payload, big-endian
    header    a JSON object in UTF-8; undecodable bytes of names are surrogate escapes (PEP 383)
    payload   bytes; the header says what they are

The agent's first frame is ``{"hello": 1, "pid", "host", "user", "home", "shell", "python",
"clock"}``; the clock is in seconds since 1970, the shell the path of the login shell. Each request
has a number and gets one answer with that number, in any order. Paths are absolute. ``sizes`` cuts
the payload into pieces.

    request, with "id": n                     answer, with "id": n
    {"ask": "run", "argv", "env",             {"exit_code", "sizes": [output, errors]} + them;
     "timeout_s"} + stdin                     exit_code null: killed at its timeout
    {"ask": "series", "commands",             {"exit_codes", "sizes": [output, errors, ...]} + them,
     "timeout_s"}                             of the commands that ran, each after the other, until
                                              one failed or SERIES_S were over
    {"ask": "mkdir", "paths", "mode"}         {}
    {"ask": "own", "path"}                    {}; infeasible if others can write in or replace it
    {"ask": "write", "paths", "sizes",        {}; transient if a digest that is not null differs
     "modes", "digests"} + contents
    {"ask": "read", "paths", "limit"}         {"sizes": [bytes or null, ...]} + contents: the last
                                              bytes of each file, or with "start" those from there;
                                              perhaps of the first paths only: ask for the rest
    {"ask": "digest", "path", "size"}         {"values": [SHA-256 or null]} when the growing file
                                              has this size; null: it stopped growing
    {"ask": "stat", "paths"}                  {"values": [[bytes, executable, directory] or null,
                                              ...]}
    {"ask": "claim", "paths"}                 {"values": [true or false, ...]}: whether this or an
                                              earlier agent created the file
    {"ask": "rename", "pairs"}                {}
    {"ask": "remove", "paths"}                {}
    {"ask": "watch", "path"}                  {} when all existing records have been reported;
                                              before and after that, frames
                                              {"watch": n, "sizes"} + exit records
    {"ask": "addresses", "address"}           {"values": [address, ...]}, numeric: of this name;
                                              null: of this machine, those that face the
                                              cluster, then loopback
    {"ask": "listen", "address"}              {"port"} of TCP, at this address; null: at those
                                              that face the cluster; from then on also frames
                                              {"connection": c, "of": n, "address"}   a new one
                                              {"connection": c} + bytes   received from it
                                              {"connection": c, "ended": reason}
    {"ask": "pass", "connection": c} + bytes  {} when all bytes have been sent to it
    {"ask": "admit", "connection": c}         {}; it may send more than UNADMITTED_BYTES
    {"ask": "disconnect", "connection": c}    {}
    {"ask": "spool", "path", "session": s}    {}, and then frames {"spool": n, "names", "sizes"}
                                              + contents of spool files of this session, in order
    {"ask": "unlisten", "of": n}              {}; no further connections or spool files
    {"ask": "counts"}                         {"commands": {program: n}, "cpu_s"}
    {"ask": "ping"}                           {"clock"}

A request that fails is answered by {"error": "infeasible" | "full" | "transient", "message": text};
"full": there is no space. A frame that is no request is answered with "id": null; after a frame of
an impossible length the agent ends.

The agent ends when its stdin ends, on SIGTERM or SIGHUP, and after ``silence_s`` without a frame;
it then kills its running commands. At most PARALLEL commands run at a time, PARALLEL file
operations, and FOLLOWED more that wait for a file to grow.
The agent passes on the bytes of connections unchanged. It does not authenticate them and knows no
secret. A connection that sends more than UNADMITTED_BYTES before the client has admitted it ends;
beyond MAX_CONNECTIONS, one that is not admitted ends (``index_to_close``). While the client does
not read, all connections wait.

Spool files are named <name>.<session>.<connection>.<n> (see ``channels.py``). The files of a
connection are reported as <name>.<session>.<connection> in the order n = 1, 2, 3, ..., and removed.
Files of earlier sessions and connections, and of other users, are removed unreported.
"""

import collections
import contextlib
import errno
import fcntl
import grp
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
"""Maximum size of a frame with file contents, unless one file is larger."""
PARALLEL = 4
"""Maximum number of commands, and of file operations, at a time."""
FOLLOWED = 64
"""Maximum number of growing files whose digests are computed at a time."""
GROWTH_S = 60.0
"""Time without growth after which the digest of a growing file is given up."""
GROWTH_QUICK_S = 0.01
GROWTH_SLOW_S = 0.1
"""Intervals between looks at a growing file: after growth, and the maximum without growth."""
GROWTH_LOOK = 1 << 24
"""Maximum number of bytes hashed at each look."""
HOLE_S = 1.0
"""Time after which a hole that stays in a file of full length is read as zeros."""
OUTPUT_BYTES = 1 << 26
"""Maximum output of a command; one that prints more is killed."""
SERIES_S = 10.0
"""Time after which no further command of a series is started."""
LOGIN_S = 10.0
"""Timeout of the login shell. After it the agent's own environment is used."""
START_S = 10.0
START_PAUSE_S = 0.2
"""Time for which the failed start of a login shell or a thread is retried, and pause between tries.
A head node may have too many processes for a moment."""
LINGER_S = 1.0
"""Maximum wait for the end of output after a command has ended: a child may keep the pipe open."""
QUICK_S = 0.5
SLOW_S = 2.0
"""Intervals between scans for exit records: while some appear, and while none do."""
SCAN_SHARE = 1 / 30.0
"""Maximum share of a core for scans that find nothing."""
GARBAGE_S = 10.0
"""Time after which a file that is still not JSON is reported unchanged."""
UNREADABLE_S = 60.0
"""Interval between attempts to read an unreadable file."""
RETRY_S = 5.0
"""Interval between attempts to write to a full disk."""
RECORD_BYTES = 1 << 20
"""Maximum number of bytes read of a record."""
GROUP = 500
"""Maximum number of records that are reported, and then merged, at once."""
CHUNK_BYTES = 4 << 20
"""Maximum number of bytes read or reported at once."""
MAX_CONNECTIONS = 500
"""Maximum number of open connections. Processes are often limited to 1024 open files."""
UNADMITTED_BYTES = 4096
"""Maximum number of bytes passed on from a connection that the client has not admitted."""
READ_BYTES = 1 << 18
"""Maximum number of bytes of a connection in one frame."""
SPOOL_QUICK_S = 0.01
SPOOL_SLOW_S = 1.0
"""Intervals between scans for spool files: while some appear, and while none do."""
SPOOL_SHARE = 0.1
"""Maximum share of a core for scans for spool files."""
TRANSIENT = (
    errno.EIO, errno.EAGAIN, errno.EINTR, errno.EBUSY, errno.ENOMEM, errno.EMFILE, errno.ENFILE,
    errno.ESTALE, errno.ETIMEDOUT, errno.ETXTBSY,
)  # fmt: skip
"""Values of errno after which a retry may succeed."""
MAX_LINKS = 40
"""Maximum number of symbolic links in a path, as Linux has it."""
CLAIM_MODE = 0o500
"""Mode of the files that agents create as claims. The claim of a job is its log, which the job can
write, so the mode of a claim shows whether an agent or a job made it."""
MERGED = b"records.jsonl"
"""Name of the file into which exit records are merged."""

FULL = (errno.ENOSPC, errno.EDQUOT)


class RefusedError(Exception):
    """A request that cannot be carried out; a retry does not help."""


def encoded(text: str) -> bytes:
    """Encode a name, independently of this machine's locale.

    Raises RefusedError for a text that cannot be encoded or has a NUL byte.
    """
    try:
        name = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise RefusedError("%r cannot be a name" % text)
    if b"\0" in name:
        raise RefusedError("%r has a NUL byte" % text)
    return name


def path_of(text: str) -> bytes:
    """Encode a path. Raises RefusedError if it is not absolute."""
    if not text.startswith("/"):
        raise RefusedError("the path %r is not absolute" % text)
    return encoded(text)


def shown(path: bytes) -> str:
    """Return a path for messages."""
    return path.decode("utf-8", "replace")


def close_quietly(fd: int) -> None:
    """Close a descriptor, ignoring errors."""
    with contextlib.suppress(OSError):
        os.close(fd)


# --------------------------------------------------------------------------------------- files


def make_directories(path: bytes, mode: int) -> None:
    """Make a directory and its parents; existing ones keep their mode."""
    try:
        try:
            os.mkdir(path, mode)
        except FileNotFoundError:
            parent = os.path.dirname(path.rstrip(b"/"))
            if parent == path:
                raise
            make_directories(parent, mode)
            os.mkdir(path, mode)  # once: /proc gives this error for a parent that exists
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        return
    os.chmod(path, mode)  # independently of the umask


def others_may_write(status: os.stat_result) -> bool:
    """Whether users other than the owner may rename entries of a directory."""
    if status.st_mode & stat.S_ISVTX:
        return False
    if status.st_mode & 0o002:
        return True
    return bool(status.st_mode & 0o020) and not is_private_group(status.st_gid)


def is_private_group(gid: int) -> bool:
    """Whether a group is this user's own: the primary group, with the user's name and no other
    members. Many systems give each user such a group, and a umask with which it may write files."""
    try:
        user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    is_named_alike = gid == user.pw_gid and group.gr_name == user.pw_name
    return is_named_alike and set(group.gr_mem) <= {user.pw_name}


def check_way(path: bytes) -> None:
    """Check that nobody else can replace a directory, as ``make_private`` requires.

    Follows the links in ``path`` one by one, as the kernel does. Raises RefusedError.
    """
    trusted = (0, os.getuid())
    here, rest, links = b"/", path.split(b"/")[::-1], 0
    sheltered = False
    while rest:
        name = rest.pop()
        if name in (b"", b".", b".."):
            here = os.path.dirname(here) if name == b".." else here
            sheltered = sheltered and name != b".."
            continue
        new = os.path.join(here, name)
        status = os.lstat(new)
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if not sheltered and status.st_uid not in trusted:
                raise RefusedError("%s is a link that another user made" % shown(new))
            target = os.readlink(new)
            if target.startswith(b"/"):
                here, sheltered = b"/", False
            rest += target.split(b"/")[::-1]
            continue
        here = new
        # Others cannot reach what is below a directory that they cannot enter.
        sheltered = sheltered or (status.st_uid == trusted[1] and not status.st_mode & 0o077)
        if sheltered:
            continue
        is_parent = not any(part not in (b"", b".") for part in rest)
        if is_parent and status.st_uid not in trusted:
            raise RefusedError("%s belongs to another user (uid %d)" % (shown(here), status.st_uid))
        if others_may_write(status) if is_parent else is_free_for_all(status):
            raise RefusedError("%s can be changed by other users" % shown(here))


def is_free_for_all(status: os.stat_result) -> bool:
    """Whether everybody may rename entries of a directory."""
    return status.st_mode & 0o1002 == 0o002


def make_private(path: bytes) -> None:
    """Make a directory (mode 0700), or check that an existing one is this user's alone. If other
    users can only read it, its mode becomes 0700.

    Its programs run as this user, so nobody else may write in it or replace it. Its parent must
    belong to the user or to root, and be not writable for others or have the sticky bit, so that
    others cannot rename entries. The directories above may belong to other users, whom the user
    trusts by the choice of the path, but none may be writable for everybody without the sticky bit.
    Raises RefusedError.
    """
    parent = os.path.dirname(path.rstrip(b"/"))
    make_directories(parent, 0o700)
    check_way(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
        os.chmod(path, 0o700)  # independently of the umask and of inherited access lists
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise RefusedError("%s is no directory: somebody else may have made it" % shown(path))
    if status.st_uid != os.getuid():
        raise RefusedError("%s belongs to another user (uid %d)" % (shown(path), status.st_uid))
    if status.st_mode & 0o022:
        raise RefusedError(
            "%s can be written by other users (mode %04o)"
            % (shown(path), stat.S_IMODE(status.st_mode))
        )
    if status.st_mode & 0o055:
        os.chmod(path, 0o700)  # they could read, and changed nothing


def write_all(fd: int, data: "bytes | memoryview") -> None:
    """Write all of ``data``, by as many calls as it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_file(path: bytes, content: "bytes | memoryview", mode: int, temporary: bytes) -> None:
    """Write a file under a temporary name in its directory, then rename it."""
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
    """Read until the end of the file, or ``limit`` bytes."""
    pieces = []
    while limit > 0:
        data = os.read(fd, min(limit, CHUNK_BYTES))
        if not data:
            break
        pieces.append(data)
        limit -= len(data)
    return b"".join(pieces)


def open_regular(path: bytes, flags: int = 0) -> "Tuple[int, os.stat_result]":
    """Open a regular file for reading. Raises OSError for anything else, without blocking on
    pipes."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | flags)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
    except OSError:
        os.close(fd)
        raise
    return fd, status


def read_part(path: bytes, limit: int, start: "Optional[int]") -> "Optional[bytes]":
    """Return at most ``limit`` bytes of a file from ``start`` on; the last ones if ``start`` is
    None. Returns None if the file is absent or unreadable. Raises OSError if a retry may help: the
    work that a journal records would be repeated if the journal counted as absent."""
    try:
        fd, status = open_regular(path)
        try:
            os.lseek(fd, max(0, status.st_size - limit) if start is None else start, os.SEEK_SET)
            return read_at_most(fd, limit)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in TRANSIENT:
            raise OSError(error.errno, error.strerror, path) from None
        return None


class GrowingDigest:
    """Computes the digest of the first ``size`` bytes of a file while it is written, since reading
    the file afterwards would double the time.

    A writer with several streams fills the file in any order. Only the bytes before the first hole
    are read, so the digest is right if each byte is written once, and each block from its
    beginning. Callers compare the digest with the expected one, and read the file back where it
    differs.
    """

    def __init__(self, path: bytes, size: int) -> None:
        self.digest = None  # type: Optional[str]
        self._path = path
        self._size = size
        self._total = hashlib.sha256()
        self._read = 0
        self._inode = None  # type: Optional[Tuple[int, int]]
        self._pause_s = GROWTH_QUICK_S
        self._grown_s = time.monotonic()

    def look(self) -> "Optional[float]":
        """Hash what has been written since the last look. Returns the time until the next look.
        Returns None if the digest is complete, or if the file does not appear or grow for GROWTH_S,
        is removed, or is replaced."""
        before = self._read
        try:
            fd, status = open_regular(self._path, os.O_NOFOLLOW)
        except FileNotFoundError:
            if self._inode is not None:
                return None
        else:
            try:
                inode = status.st_dev, status.st_ino
                if self._inode not in (None, inode):
                    return None
                self._inode = inode
                self._hash(fd, status.st_size)
            finally:
                os.close(fd)
            if self._read == self._size:
                self.digest = self._total.hexdigest()
                return None
        if self._read > before:
            self._grown_s, self._pause_s = time.monotonic(), GROWTH_QUICK_S
            return 0.0 if self._read - before >= GROWTH_LOOK else self._pause_s
        if time.monotonic() - self._grown_s > GROWTH_S:
            return None
        self._pause_s = min(2 * self._pause_s, GROWTH_SLOW_S)
        return self._pause_s

    def _hash(self, fd: int, length: int) -> None:
        """Hash the bytes before the first hole, at most GROWTH_LOOK of them."""
        end = min(self._size, self._read + GROWTH_LOOK)
        # A file of its whole length whose hole is not filled has it on purpose.
        if length < self._size or time.monotonic() - self._grown_s < HOLE_S:
            end = min(end, first_hole(fd, self._read, length))
        while self._read < end:
            data = os.pread(fd, min(CHUNK_BYTES, end - self._read), self._read)
            if not data:
                return
            self._total.update(data)
            self._read += len(data)


def first_hole(fd: int, start: int, length: int) -> int:
    """Return the position of the first hole of a file from ``start`` on, or ``length`` if there is
    none or the file system does not report holes."""
    if start >= length:
        return length
    try:
        return os.lseek(fd, start, os.SEEK_HOLE)
    except OSError:
        return length


def digest_of_growing(path: bytes, size: int) -> "Optional[str]":
    """Wait until a growing file has ``size`` bytes. Return the digest of these bytes; None if
    ``GrowingDigest`` gives up."""
    growing = GrowingDigest(path, size)
    pause_s = growing.look()
    while pause_s is not None:
        time.sleep(pause_s)
        pause_s = growing.look()
    return growing.digest


def stat_of(path: bytes) -> "Optional[List[int]]":
    """Return a file's size in bytes, whether it is executable, and whether it is a directory; None
    if it is absent.

    Raises OSError for errors other than absence.
    """
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    directory = stat.S_ISDIR(status.st_mode)
    return [0 if directory else status.st_size, bool(status.st_mode & 0o100), directory]


def claim(path: bytes) -> bool:
    """Create a file exclusively. Returns True if this or an earlier agent created it, so an engine
    that was killed, or lost the answer, can repeat the call."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, CLAIM_MODE))
    except FileExistsError:
        with contextlib.suppress(FileNotFoundError):
            status = os.lstat(path)
            return status.st_size == 0 and status.st_mode == stat.S_IFREG | CLAIM_MODE
        return False
    return True


def rename(source: bytes, target: bytes) -> None:
    """Rename a file, making the parents of ``target``."""
    try:
        os.rename(source, target)
    except FileNotFoundError:
        os.lstat(source)
        make_directories(os.path.dirname(target), 0o700)
        os.rename(source, target)


def refuse_precious(path: bytes, home: bytes) -> None:
    """Raise RefusedError for the root, the home directory and its parents, under any name."""
    if b".." in path.split(b"/"):
        raise RefusedError("%s is not removed: write it without '..'" % shown(path))
    try:
        status = os.lstat(path)
    except OSError:
        return
    if not stat.S_ISDIR(status.st_mode):
        return  # a link to the home directory may be removed
    here = os.path.realpath(home)
    while True:
        with contextlib.suppress(OSError):
            if os.path.samestat(status, os.stat(here)):
                raise RefusedError("%s is not removed: it holds the home directory" % shown(path))
        if here == b"/":
            return
        here = os.path.dirname(here)


def remove(path: bytes, home: bytes) -> None:
    """Remove a file, a directory tree, or a symbolic link, not its target. Ignores an absent
    path."""
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
    """Remove an entry of a directory recursively, by descriptors, so that nobody can swap in a
    symbolic link meanwhile."""
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
                with contextlib.suppress(OSError):  # somebody else's; removal may still work
                    os.fchmod(fd, 0o700)
            for member in members:
                remove_at(fd, member)
        finally:
            os.close(fd)
        os.rmdir(name, dir_fd=parent)


# ------------------------------------------------------------------------------------ commands


class Commands:
    """Runs commands in the user's login environment and counts them. ``variables`` are the names of
    the agent's environment variables that the login shell inherits; None: all. A name that ends in
    ``*`` is a prefix."""

    def __init__(self, nonce: str, variables: "Optional[List[str]]" = None) -> None:
        self.counts = {}  # type: Dict[str, int]
        self._mark = b"\0wfrun-" + nonce.encode() + b"\0"
        self._lock = threading.Lock()
        self._running = set()  # type: set[int]
        self._environment = dict(os.environb)
        if variables is not None:
            begins = tuple(encoded(name[:-1]) for name in variables if name.endswith("*"))
            for name in set(os.environb) - set(map(encoded, variables)):
                if not name.startswith(begins):
                    del self._environment[name]
        self._known = threading.Event()

    def run(
        self, argv: "List[bytes]", stdin: bytes, env: "Dict[bytes, bytes]", timeout_s: float
    ) -> "Tuple[Optional[int], bytes, bytes]":
        """Run a command; returns its exit code (negative: its signal; None: killed at its timeout),
        output and errors."""
        self._known.wait()
        environment = dict(self._environment)
        environment.update(env)
        return self._run(argv, None, stdin, environment, timeout_s)

    def find_environment(self) -> None:
        """Get the environment of the user's login shell, in which clusters set PATH. If the shell
        cannot be started, as on a head node with too many processes, its start is retried for
        START_S: with a wrong PATH the agent finds no batch system, or another one."""
        deadline_s = time.monotonic() + START_S
        try:
            while True:
                try:
                    self._ask_shell()
                    return
                except OSError as error:
                    if error.errno not in TRANSIENT or time.monotonic() > deadline_s:
                        return
                except (ValueError, RefusedError):
                    return
                time.sleep(START_PAUSE_S)
        finally:
            self._known.set()

    def _ask_shell(self) -> None:
        """Ask the login shell for its environment. A dash before its name makes any shell a login
        shell (sh, bash, zsh, ksh, csh, tcsh, fish). Raises OSError if the shell cannot be
        started."""
        shell = login_shell()
        mark = repr(self._mark)
        code = (
            "import os,sys;sys.stdout.buffer.write(%s+b'\\0'.join(b'='.join(i) "
            "for i in os.environb.items())+%s)" % (mark, mark)
        )
        words = (sys.executable, "-I", "-S", "-c", code.replace("'", '"'))
        line = " ".join(shlex.quote(word) for word in words)
        name = b"-" + os.path.basename(encoded(shell))
        argv = [name, b"-c", encoded(line)]
        output = self._run(argv, encoded(shell), b"", self._environment, LOGIN_S)[1]
        pieces = output.split(self._mark)
        if len(pieces) >= 3:
            found = dict(item.split(b"=", 1) for item in pieces[1].split(b"\0"))
            for name in (b"_", b"SHLVL", b"PWD", b"OLDPWD"):
                found.pop(name, None)
            self._environment = found

    def kill_all(self) -> None:
        """Kill all running commands with their process groups."""
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
            with contextlib.suppress(
                subprocess.TimeoutExpired
            ):  # stuck in the kernel, on a dead disk
                process.wait(LINGER_S)
        if excess:
            raise RefusedError("the command printed more than %d bytes" % OUTPUT_BYTES)
        return code, bytes(output), bytes(errors)


def exchange(
    process: "subprocess.Popen[bytes]", stdin: bytes, deadline_s: float
) -> "Tuple[bytearray, bytearray, bool]":
    """Feed a command's stdin and collect its output. Returns output, errors, and whether the
    command or its output ended in time. Output that a child holds open is given up LINGER_S after
    the command has ended."""
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
            except OSError:  # it has closed its stdin
                unsent = unsent[:0]
            if not unsent:
                poller.unregister(fd)
                process.stdin.close()
    return output, errors, ended or not into


# ---------------------------------------------------------------------------------------- watch


def as_line(content: bytes) -> "Optional[bytes]":
    """Return a record as one line without its end; None if it is not a JSON object.

    Line ends are replaced by spaces: JSON has them only between tokens.
    """
    try:
        if not isinstance(json.loads(content.decode("utf-8", "surrogateescape")), dict):
            return None
    except (ValueError, RecursionError):
        return None
    return content.strip().replace(b"\r", b" ").replace(b"\n", b" ")


def digest(content: "bytes | memoryview") -> bytes:
    """Return the SHA-256 digest of a record, to find repeated ones, or of a file's content. In hex
    it is the digest of ``digests.py``."""
    return hashlib.sha256(content).digest()


def signature_of(status: os.stat_result) -> "Signature":
    """Return inode, modification time and size of a file. At least one of them changes when the
    file is replaced or written."""
    return status.st_ino, status.st_mtime_ns, status.st_size


class Watch:
    """Reports each exit record of a directory once, and merges them into one file.

    A record is reported first, then appended to ``records.jsonl`` under a lock (flock), and then
    its own file is removed: after any interruption it is in at least one of the two places. Where
    files cannot be locked, or the disk is full, the records stay in their own files. Records that
    another agent appended are reported too. Equal records are reported once.
    """

    def __init__(self, directory: bytes, report: "Callable[[List[bytes]], None]") -> None:
        self._directory = directory
        self._merged = os.path.join(directory, MERGED)
        self._report = report
        self._reported = set()  # type: set[bytes]
        """Digests of the reported records."""
        self._seen = set()  # type: set[bytes]
        """Reported files that still exist."""
        self._doubtful = {}  # type: Dict[bytes, Tuple[Signature, float, float]]
        """Files that are not records yet: signature, time it was taken, time of the next
        attempt."""
        self._garbage = {}  # type: Dict[bytes, Signature]
        """Files that were reported unchanged."""
        self._pending = {}  # type: Dict[bytes, Tuple[bytes, Signature]]
        """Reported files that are not merged yet: their line and signature."""
        self._offset = 0
        self._lockable = True
        self._retry_s = 0.0

    def run(self) -> None:
        """Scan for ever."""
        pause_s = QUICK_S
        while True:
            time.sleep(pause_s)
            began_s = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)
            busy = self.look()
            spent_s = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID) - began_s
            pause_s = QUICK_S if busy else max(min(pause_s * 1.25, SLOW_S), spent_s / SCAN_SHARE)

    def look(self) -> bool:
        """Scan; returns whether there was a new record. Ignores OSError."""
        try:
            return self.scan(time.monotonic()) > 0
        except OSError:  # the directory is absent, or its file system does not answer
            return False

    def scan(self, now_s: float) -> int:
        """Scan once; returns the number of new records. Raises OSError."""
        count = 0
        with contextlib.suppress(OSError):  # other records can still be read
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
                self._report(records)
                count += len(records)
            self._merge(now_s)
        if not fresh:
            self._merge(now_s)
        return count

    def _follow(self) -> int:
        """Report new records of the merged file; returns their number."""
        try:
            fd = os.open(self._merged, os.O_RDONLY)
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
                    break  # an incomplete line
                self._offset += end or len(data)
                records = [line for line in data[:end].split(b"\n") if self._is_new(line)]
                if records:
                    self._report(records)
                count += len(records)
        finally:
            os.close(fd)
        return count

    def _is_new(self, line: bytes) -> bool:
        if not line or as_line(line) is None:  # incomplete: the record still has its own file
            return False
        key = digest(line)
        if key in self._reported:
            return False
        self._reported.add(key)
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
            if self._is_new(line):
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

    def _merge(self, now_s: float) -> None:
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
        """Append the pending lines; returns the names of the files that can be removed.

        Raises OSError if some lines may not have reached the disk.
        """
        fd = os.open(self._merged, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
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
            if self._offset == size and not torn:  # these lines need not be read again
                self._offset += len(lines)
            return names
        finally:
            os.close(fd)

    def _is_unchanged(self, name: bytes) -> bool:
        """Whether a pending file is as it was read. If not, it was replaced, or another agent has
        merged it: it is forgotten, to be read again."""
        with contextlib.suppress(OSError):
            status = os.stat(os.path.join(self._directory, name))
            if signature_of(status) == self._pending[name][1]:
                return True
        del self._pending[name]
        self._seen.discard(name)
        return False


# ---------------------------------------------------------------------------------- connections


def addresses_of(name: "Optional[str]") -> "List[str]":
    """Return numeric addresses of the machine ``name``. If ``name`` is None, return the addresses
    of this machine that face the cluster, then loopback.

    Raises OSError for an unknown name.
    """
    kind = socket.SOCK_STREAM
    if name is not None:
        return list(dict.fromkeys(str(a[4][0]) for a in socket.getaddrinfo(name, 0, type=kind)))
    found = []  # type: List[Tuple[str, bool]]
    with contextlib.suppress(OSError):
        probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with probe:
            for _, interface in socket.if_nameindex():
                with contextlib.suppress(OSError):  # the interface has no IPv4 address
                    asked = struct.pack("256s", interface.encode()[:15])
                    answer = fcntl.ioctl(probe.fileno(), 0x8915, asked)  # SIOCGIFADDR
                    found.append((socket.inet_ntoa(answer[20:24]), is_virtual(interface)))
    with contextlib.suppress(OSError):
        names = socket.getaddrinfo(os.uname().nodename, 0, type=kind)
        found += [(str(a[4][0]), False) for a in names]
    return [*facing_cluster(found), "127.0.0.1"]


def is_virtual(interface: str) -> bool:
    """Whether a network interface is a bridge without a network card: the network of containers or
    virtual machines on this machine."""
    base = "/sys/class/net/"
    try:
        ports = os.listdir(base + interface + "/brif")
    except OSError:
        return False
    kinds = ("device", "bonding")
    return not any(os.path.exists(base + port + "/" + kind) for port in ports for kind in kinds)


def is_private(address: str) -> bool:
    """Whether an address belongs to a private network (RFC 1918, RFC 6598, RFC 4193)."""
    words = address.split(".")
    if len(words) != 4:
        return address.lower().startswith(("fc", "fd"))
    first, second = int(words[0]), int(words[1])
    return (
        first == 10
        or (first == 172 and 16 <= second < 32)
        or (first == 192 and second == 168)
        or (first == 100 and 64 <= second < 128)
    )


def facing_cluster(found: "List[Tuple[str, bool]]") -> "List[str]":
    """Choose the addresses at which compute nodes may reach this machine, given pairs of an address
    and whether its interface is virtual. Returns the addresses in private networks, so that no port
    is open to the internet. If no address is private, returns all: the nodes then have public
    addresses too."""
    ours = ("127.", "fe80:", "::1")
    real = [address for address, virtual in found if not virtual and not address.startswith(ours)]
    # The name of the machine may have the address of such a bridge.
    virtual = {address for address, is_virtual in found if is_virtual}
    real = [address for address in dict.fromkeys(real) if address not in virtual]
    return [address for address in real if is_private(address)] or real


def listen_at(address: "Optional[str]") -> "List[socket.socket]":
    """Listen on a free port of ``address``, or, if that is None, of the addresses that face the
    cluster. All listeners have the same port. Raises OSError."""
    if address is not None:
        found = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
        return [listen_on(found[0], found[4])]
    listeners = []  # type: List[socket.socket]
    port = 0
    for each in addresses_of(None):
        family = socket.AF_INET6 if ":" in each else socket.AF_INET
        # An address that is the machine's by name alone, or whose port is taken, is left out.
        with contextlib.suppress(OSError):
            listeners.append(listen_on(family, (each, port)))
            port = listeners[0].getsockname()[1]
    if not listeners:
        raise OSError(errno.EADDRNOTAVAIL, "no address of this machine can be listened on")
    return listeners


def listen_on(family: int, target: "Any") -> socket.socket:
    """Listen on a socket address, without blocking. Raises OSError."""
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.bind(target)
        listener.listen(128)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def index_to_close(hosts: "List[str]") -> int:
    """Index of the connection to close when too many strangers are connected: the oldest one of the
    host with the most connections. ``hosts`` has the host of each connection, oldest first. Thus
    neither one host nor old silent connections keep others out."""
    counts = collections.Counter(hosts)
    return hosts.index(max(hosts, key=counts.__getitem__))


class RelayedConnection:
    """A connection to one of the relay's ports."""

    def __init__(self, number: int, line: socket.socket, host: str) -> None:
        self.number = number
        self.line = line
        self.host = host
        self.fd = line.fileno()
        self.allowance = UNADMITTED_BYTES  # type: Optional[int]
        """Number of bytes that it may still send; None: the client has admitted it."""
        self.unsent = collections.deque()  # type: collections.deque[Tuple[int, memoryview]]
        """Unsent data: the number of each request, and the rest of its bytes."""


class Relay:
    """Passes bytes between connections and frames. All work is done in one thread, ``run``; other
    threads hand it jobs by ``put``."""

    def __init__(self, send: "Callable[[Header, List[bytes]], None]") -> None:
        self._send = send
        self._jobs = collections.deque()  # type: collections.deque[Callable[[], None]]
        self._listeners = {}  # type: Dict[int, Tuple[int, socket.socket]]
        self._by_fd = {}  # type: Dict[int, RelayedConnection]
        self._connections = {}  # type: Dict[int, RelayedConnection]
        self._count = 0
        self._poller = select.poll()
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._poller.register(self._woken, select.POLLIN)

    def put(self, job: "Callable[[], None]") -> None:
        """Run a job in the relay's thread. May be called from any thread."""
        self._jobs.append(job)
        with contextlib.suppress(BlockingIOError):  # the pipe is full: it wakes up in any case
            os.write(self._waker, b"\0")

    def run(self) -> None:
        """Handle jobs and connections for ever."""
        while True:
            for fd, event in self._poller.poll():
                if fd == self._woken:
                    os.read(fd, 4096)
                elif fd in self._listeners:
                    self._accept(*self._listeners[fd])
                elif fd in self._by_fd:
                    connection = self._by_fd[fd]
                    if event & select.POLLOUT:
                        self._write(connection)
                    if event & ~select.POLLOUT and connection.fd in self._by_fd:
                        self._read(connection)
            while self._jobs:
                self._jobs.popleft()()

    # -- jobs

    def listen(self, number: int, listeners: "List[socket.socket]") -> None:
        """Accept connections."""
        for listener in listeners:
            self._listeners[listener.fileno()] = (number, listener)
            self._poller.register(listener.fileno(), select.POLLIN)

    def unlisten(self, number: int) -> None:
        """Stop accepting connections; established ones stay."""
        for fd, (other, listener) in list(self._listeners.items()):
            if other == number:
                self._poller.unregister(fd)
                del self._listeners[fd]
                listener.close()

    def pass_on(self, number: int, request: int, payload: bytes) -> None:
        """Send data to a connection, and answer the request when all of it is sent."""
        connection = self._connections.get(number)
        if connection is None:
            self._refuse(request)
            return
        connection.unsent.append((request, memoryview(payload)))
        self._write(connection)

    def admit(self, number: int, request: int) -> None:
        """Let a connection send any number of bytes, and answer the request."""
        if number in self._connections:
            self._connections[number].allowance = None
        self._send({"id": request}, [])

    def disconnect(self, number: int, request: int) -> None:
        """End a connection, and answer the request."""
        if number in self._connections:
            self._drop(self._connections[number])
        self._send({"id": request}, [])

    # -- events

    def _accept(self, listener_number: int, listener: socket.socket) -> None:
        try:
            line, address = listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError:  # too many open files: the connection waits in the backlog
            time.sleep(0.1)
            return
        if len(self._connections) >= MAX_CONNECTIONS:
            unknown = [each for each in self._connections.values() if each.allowance is not None]
            if not unknown:
                line.close()
                return
            surplus = unknown[index_to_close([each.host for each in unknown])]
            self._end(surplus, "there are too many connections")
        line.setblocking(False)
        with contextlib.suppress(OSError):
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._count += 1
        connection = RelayedConnection(self._count, line, address[0])
        self._connections[connection.number] = self._by_fd[connection.fd] = connection
        self._poller.register(connection.fd, select.POLLIN)
        where = "%s:%d" % (address[0], address[1])
        self._send({"connection": connection.number, "of": listener_number, "address": where}, [])

    def _read(self, connection: RelayedConnection) -> None:
        allowance = connection.allowance
        if allowance == 0:
            self._end(connection, "it sent too much before it identified itself")
            return
        try:
            data = connection.line.recv(READ_BYTES if allowance is None else allowance)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(connection, str(error.strerror))
            return
        if data:
            if allowance is not None:
                connection.allowance = allowance - len(data)
            self._send({"connection": connection.number}, [data])
        else:
            self._end(connection, "it was closed by the other side")

    def _write(self, connection: RelayedConnection) -> None:
        while connection.unsent:
            request, view = connection.unsent[0]
            try:
                sent = connection.line.send(view)
            except BlockingIOError:
                break
            except OSError as error:
                self._end(connection, str(error.strerror))
                return
            if sent == len(view):
                connection.unsent.popleft()
                self._send({"id": request}, [])
            else:
                connection.unsent[0] = (request, view[sent:])
        mask = select.POLLIN | select.POLLOUT if connection.unsent else select.POLLIN
        self._poller.register(connection.fd, mask)

    def _end(self, connection: RelayedConnection, reason: str) -> None:
        self._drop(connection)
        self._send({"connection": connection.number, "ended": reason}, [])

    def _drop(self, connection: RelayedConnection) -> None:
        self._poller.unregister(connection.fd)
        del self._connections[connection.number], self._by_fd[connection.fd]
        connection.line.close()
        for request, _ in connection.unsent:
            self._refuse(request)

    def _refuse(self, request: int) -> None:
        text = "the connection has ended"
        self._send({"id": request, "error": "transient", "message": text}, [])


class SpoolReader:
    """Reports the spool files of one session, those of each connection in order, and removes
    them."""

    def __init__(
        self, directory: bytes, session: int, report: "Callable[[List[bytes], List[bytes]], None]"
    ) -> None:
        self._directory = directory
        self._session = session
        self._report = report
        self._next = {}  # type: Dict[bytes, Tuple[int, int]]
        """By the ``<name>`` of spool files: the current connection, and its next file's number."""
        self._woken = threading.Event()
        self.ended = False

    def wake(self) -> None:
        """Scan soon: a file is expected, or ``ended`` was set."""
        self._woken.set()

    def run(self) -> None:
        """Scan until ``ended`` is set."""
        pause_s = SPOOL_QUICK_S
        while not self.ended:
            began_s = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)
            busy = False
            with contextlib.suppress(OSError):  # the file system does not answer now
                busy = self.look(pause_s >= SPOOL_SLOW_S)
            spent_s = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID) - began_s
            pause_s = SPOOL_QUICK_S if busy else min(pause_s * 1.25, SPOOL_SLOW_S)
            if self._woken.wait(max(pause_s, spent_s / SPOOL_SHARE)):
                self._woken.clear()
                pause_s = SPOOL_QUICK_S

    def look(self, refresh: bool) -> bool:
        """Scan once; returns whether there was a new file. ``refresh`` touches the directory first.
        Raises OSError."""
        if refresh:
            # NFS may show a directory as it was half a minute ago, except to a client that has
            # just changed it.
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
        """Report the next files of one connection; returns whether there were any."""
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
                fd, status = open_regular(path, os.O_NOFOLLOW)
            except OSError:  # on NFS a name may be visible before its file can be opened
                break
            try:
                if status.st_uid != os.getuid():
                    os.unlink(path)
                    break
                contents.append(read_at_most(fd, CHUNK_BYTES))
            finally:
                os.close(fd)
            paths.append(path)
            size += len(contents[-1])
        if not paths:
            return False
        self._next[source] = (connection, number + len(paths))
        self._report([stem] * len(paths), contents)
        for path in paths:
            with contextlib.suppress(OSError):
                os.unlink(path)
        return True


# ---------------------------------------------------------------------------------------- agent


class Pool:
    """A thread pool whose threads start on demand and do not keep the process alive."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._jobs = queue.Queue()  # type: queue.Queue[Callable[[], None]]
        self._threads = 0
        self._open = 0
        self._lock = threading.Lock()

    def put(self, job: "Callable[[], None]") -> None:
        """Run a job when a thread is free."""
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


def login_shell() -> str:
    """The path of the user's login shell."""
    try:
        return pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    except KeyError:
        return "/bin/sh"


def start_thread(target: "Callable[[], None]") -> None:
    """Start a daemon thread; retry for START_S. Raises RuntimeError if no thread can be started."""
    deadline_s = time.monotonic() + START_S
    while True:
        thread = threading.Thread(target=target)
        thread.daemon = True
        try:
            thread.start()
            return
        except RuntimeError:
            if time.monotonic() > deadline_s:
                raise
        time.sleep(START_PAUSE_S)


class Agent:
    """Serves the client's requests from stdin."""

    def __init__(self, config: "Dict[str, Any]") -> None:
        self._silence_s = float(config["silence_s"])
        self._nonce = str(config["nonce"])
        self._home = os.environb.get(b"HOME") or encoded(pwd.getpwuid(os.getuid()).pw_dir)
        self._commands = Commands(self._nonce, config.get("variables"))
        commands = Pool(PARALLEL)
        self._pools = {"run": commands, "series": commands, "digest": Pool(FOLLOWED)}
        self._files = Pool(PARALLEL)
        self._sending = threading.Lock()
        self._relay = None  # type: Optional[Relay]
        self._spools = {}  # type: Dict[int, SpoolReader]
        self._output = os.dup(1)
        os.dup2(2, 1)  # stdout carries frames alone
        self._written = 0

    def serve(self) -> None:
        """Serve until the process ends."""
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
            signal.signal(number, lambda *_: self.end(0))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._restart_alarm()
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
                "shell": login_shell(),
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
            self._restart_alarm()
            self._dispatch(header, payload)

    def end(self, code: int) -> None:
        """End the process and its commands."""
        self._commands.kill_all()
        os._exit(code)

    def _restart_alarm(self) -> None:
        """Restart the timeout of ``silence_s``. An alarm ends the agent even if it is blocked in a
        write to a dead connection."""
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
        if verb in (
            "pass",
            "admit",
            "disconnect",
        ):  # these keep their order, which a pool would not
            self._pass_to_relay(number, verb, request, payload)
            return
        pool = self._pools.get(verb, self._files)
        pool.put(lambda: self._answer(number, verb, request, payload))

    def _answer(self, number: int, verb: str, request: "Header", payload: bytes) -> None:
        kind = "infeasible"
        try:
            method = getattr(self, "handle_" + verb, None)
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
            elif error.errno in FULL:
                kind = "full"
        except RefusedError as error:
            text = str(error)
        except Exception as error:  # a malformed request gets an answer too
            text = "%s: %s" % (type(error).__name__, error)
        self._send({"id": number, "error": kind, "message": text})

    def _pass_to_relay(self, number: int, verb: str, request: "Header", payload: bytes) -> None:
        relay, connection = self._relay, request.get("connection")
        if relay is None or not isinstance(connection, int):
            text = "there is no such connection"
            self._send({"id": number, "error": "transient", "message": text})
        elif verb == "pass":
            relay.put(lambda: relay.pass_on(connection, number, payload))
        elif verb == "admit":
            relay.put(lambda: relay.admit(connection, number))
        else:
            relay.put(lambda: relay.disconnect(connection, number))

    def _start_essential(self, target: "Callable[[], None]") -> None:
        """Start a thread whose failure ends the agent: the client then starts another agent,
        whereas a failed watch would go unnoticed."""

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

    def handle_run(self, request: "Header", payload: bytes) -> "Answer":
        argv = [encoded(word) for word in request["argv"]]
        env = {encoded(k): encoded(v) for k, v in request["env"].items()}
        if not argv or not argv[0]:
            raise RefusedError("the command has no name")
        timeout_s = float(request["timeout_s"])
        code, output, errors = self._commands.run(argv, payload, env, timeout_s)
        return {"exit_code": code, "sizes": [len(output), len(errors)]}, [output, errors]

    def handle_series(self, request: "Header", payload: bytes) -> "Answer":
        commands = [[encoded(word) for word in argv] for argv in request["commands"]]
        if not commands or not all(argv and argv[0] for argv in commands):
            raise RefusedError("a command has no name")
        timeout_s = float(request["timeout_s"])
        end_s = time.monotonic() + SERIES_S
        codes = []  # type: List[Optional[int]]
        pieces = []  # type: List[bytes]
        for argv in commands:
            try:
                code, output, errors = self._commands.run(argv, b"", {}, timeout_s)
            except (OSError, RefusedError):
                if not codes:
                    raise
                break  # the client asks for it again, and gets the error
            codes.append(code)
            pieces += [output, errors]
            if code != 0 or time.monotonic() > end_s or sum(map(len, pieces)) > OUTPUT_BYTES:
                break
        return {"exit_codes": codes, "sizes": [len(piece) for piece in pieces]}, pieces

    def handle_mkdir(self, request: "Header", payload: bytes) -> "Answer":
        for path in request["paths"]:
            make_directories(path_of(path), request["mode"])
        return {}, []

    def handle_own(self, request: "Header", payload: bytes) -> "Answer":
        make_private(path_of(request["path"]))
        return {}, []

    def handle_write(self, request: "Header", payload: bytes) -> "Answer":
        if sum(request["sizes"]) != len(payload):
            raise RefusedError("the sizes do not add up to the payload")
        start = 0
        files = zip(request["paths"], request["sizes"], request["modes"], request["digests"])
        for path, size, mode, expected in files:
            content = memoryview(payload)[start : start + size]
            if expected is not None and digest(content).hex() != expected:
                raise OSError(errno.EIO, "its digest is not that of the file that was sent", path)
            write_file(path_of(path), content, mode, self._temporary())
            start += size
        for reader in list(self._spools.values()):  # replies to spool files are expected
            reader.wake()
        return {}, []

    def handle_read(self, request: "Header", payload: bytes) -> "Answer":
        contents = []  # type: List[Optional[bytes]]
        total = 0
        limit = min(request["limit"], MAX_PAYLOAD_BYTES - ANSWER_BYTES)
        for path in request["paths"]:
            contents.append(read_part(path_of(path), limit, request.get("start")))
            total += len(contents[-1] or b"")
            if total >= ANSWER_BYTES:
                break
        sizes = [None if content is None else len(content) for content in contents]
        return {"sizes": sizes}, [content for content in contents if content]

    def handle_stat(self, request: "Header", payload: bytes) -> "Answer":
        return {"values": [stat_of(path_of(path)) for path in request["paths"]]}, []

    def handle_digest(self, request: "Header", payload: bytes) -> "Answer":
        return {"values": [digest_of_growing(path_of(request["path"]), request["size"])]}, []

    def handle_claim(self, request: "Header", payload: bytes) -> "Answer":
        return {"values": [claim(path_of(path)) for path in request["paths"]]}, []

    def handle_rename(self, request: "Header", payload: bytes) -> "Answer":
        for source, target in request["pairs"]:
            rename(path_of(source), path_of(target))
        return {}, []

    def handle_remove(self, request: "Header", payload: bytes) -> "Answer":
        for path in request["paths"]:
            remove(path_of(path), self._home)
        return {}, []

    def handle_watch(self, request: "Header", payload: bytes) -> "Answer":
        number = request["id"]

        def report(records: "List[bytes]") -> None:
            while records:
                count, size = 0, 0
                while count < len(records) and (not count or size < CHUNK_BYTES):
                    size += len(records[count])
                    count += 1
                sizes = [len(record) for record in records[:count]]
                self._send({"watch": number, "sizes": sizes}, records[:count])
                records = records[count:]

        watch = Watch(path_of(request["path"]), report)
        watch.look()
        self._start_essential(watch.run)
        return {}, []

    def handle_addresses(self, request: "Header", payload: bytes) -> "Answer":
        return {"values": addresses_of(request["address"])}, []

    def handle_listen(self, request: "Header", payload: bytes) -> "Answer":
        listeners = listen_at(request["address"])
        with self._sending:
            fresh = self._relay is None
            relay = self._relay = self._relay or Relay(self._send)
        relay.put(lambda: relay.listen(request["id"], listeners))
        if fresh:
            self._start_essential(relay.run)
        return {"port": listeners[0].getsockname()[1]}, []

    def handle_spool(self, request: "Header", payload: bytes) -> "Answer":
        number = request["id"]

        def report(names: "List[bytes]", contents: "List[bytes]") -> None:
            texts = [name.decode("utf-8", "surrogateescape") for name in names]
            sizes = [len(content) for content in contents]
            self._send({"spool": number, "names": texts, "sizes": sizes}, contents)

        reader = SpoolReader(path_of(request["path"]), int(request["session"]), report)
        self._spools[number] = reader
        self._start_essential(reader.run)
        return {}, []

    def handle_unlisten(self, request: "Header", payload: bytes) -> "Answer":
        number, relay = request["of"], self._relay
        if relay is not None:
            relay.put(lambda: relay.unlisten(number))
        reader = self._spools.pop(number, None)
        if reader is not None:
            reader.ended = True
            reader.wake()
        return {}, []

    def handle_counts(self, request: "Header", payload: bytes) -> "Answer":
        return {"commands": dict(self._commands.counts), "cpu_s": sum(os.times()[:4])}, []


if __name__ == "__main__":
    Agent(json.loads(sys.argv[1])).serve()
