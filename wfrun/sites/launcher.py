"""The launcher: one process of a site that starts tasks, watches them and keeps their records.

A single file of the standard library for Python >= 3.6 on Linux, which imports nothing of wfrun,
so that the same file also runs on a cluster. It is started as

    python launcher.py '{"directory": "/scratch/run-7", "slots": 32}'

with the optional keys ``memory_bytes``, ``gpus``, ``pin_cores`` and ``pack_logs``, and speaks
JSON lines.

Messages in, on stdin (an attempt is an AttemptRequest of ``wfrun.engine.records``):
    {"run": [attempt, ...]}             queue these; they start in this order (strict FCFS)
    {"cancel": [key, ...]}              end these; a queued one is just removed. With
                                        "queued_only": true those that run are left alone
    {"find": [key, ...], "id": n}       what became of these?
    {"clean": true}                     remove stored files and sandboxes; logs and records stay
    {"stop": true}                      drop the queue, let running tasks end, then end

Messages out, on stdout (an outcome is an Outcome of ``wfrun.engine.records``):
    {"hello": 1, "pid": ..., "host": ...}       first of all; the number is the protocol's version
    {"started": [key, ...], "ended": [[key, outcome], ...]}
    {"found": {key: {"state": "absent" | "active" | "ended", "outcome": ...}}, "id": n}
    {"cleaned": true}
    {"failing": text}, {"recovered": true}      exit records can't be written; they can be again
    {"error": text}                             a message was not understood

The end of stdin means that the engine is gone, and does what ``stop`` does. SIGTERM ends the
running tasks too (cause ``lost``: it was not their fault).

The directory of a site:
    attempts/<key>.out, .err   what a task printed. Creating <key>.out exclusively is the claim:
                               whoever succeeds may start the attempt, and nobody else ever will
    attempts/<key>/            sandbox and working directory of a task; kept after a failure. One of
                               several nodes finds their names in .wfrun-nodes
    attempts/.spare-...        an empty sandbox or log for the next task. While tasks are short they
                               run in these, which get their names when one fails or prints
    logs/<launcher>.log        with ``pack_logs``: what tasks printed that have ended, one after the
                               other, each after a line with its key and how much it is. Their logs
                               in attempts/ are then empty, and names of one file; only what is
                               longer than a megabyte stays there. The outcome says where it is:
                               "packed": [name of the file, offset, bytes of stdout, of stderr]
    files/<name>               the store; files in it are read-only
    exits/<launcher>.jsonl     the journal of one launcher: who it is, and then, in order, the keys
                               it queued, dropped, started (with pid) and saw end. The launcher
                               holds a lock on it (flock) as long as it lives

A journal is written before a claim is made (``queued``) and before an end is reported
(``ended``), so that another launcher finds out about every claim: its exit record, or a live
launcher that may still write one, or else it is lost.
"""

import collections
import contextlib
import errno
import fcntl
import gc
import heapq
import json
import os
import select
import signal
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, Iterator, List, Optional, Set, Tuple

    Request = Dict[str, Any]
    Outcome = Dict[str, Any]
    Grant = Tuple[int, int, List[str], List[int]]

PROTOCOL = 1
GRACE_S = 5.0
"""Between SIGTERM and SIGKILL."""
FLUSH_S = 0.02
"""News is held back this long while there is queued work, to be written in one go."""
RETRY_S = 1.0
"""Between tries to write a journal on a full disk."""
SPARE_MARGIN = 8
"""Empty sandboxes and pairs of logs that are kept beyond one for each slot, for tasks that have
ended and were not looked at yet."""
MOST_SPARE_LOGS = 128
"""They are open, and a process has a thousand files at most, two for each task that runs."""
SHORT_S = 0.1
"""Of tasks that run no longer than this the files are not shown while they run."""
PACK_BYTES = 1 << 20
"""What a task printed is packed if it is no more than this."""
READ_BYTES = 1 << 18
FEW_BYTES = 4096
TAIL_BYTES = 2000
FUNCTION = "wfrun_function.py"
"""The program of tasks that are Python functions (``python_function.py``)."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
MARK = b"WFRUN_ATTEMPT="


class AttemptError(Exception):
    """An attempt can't go on; becomes its outcome."""

    def __init__(self, cause: str, message: str) -> None:
        Exception.__init__(self, message)
        self.cause = cause
        self.message = message


def failure_of(error: Exception) -> AttemptError:
    """An operating-system error while an attempt is set up or committed."""
    if isinstance(error, AttemptError):
        return error
    if isinstance(error, OSError) and error.errno in FULL:
        return AttemptError("storage", "the site's directory can't be written: %s" % error)
    return AttemptError("start", "could not be started: %s" % error)


# ---------------------------------------------------------------------- processes, who they are


def boot_clock() -> float:
    """Seconds since the machine booted, on the clock that /proc counts start times by."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", 7))


def read_small(path: str) -> bytes:
    """A file of /proc, empty where it is gone or not ours to read."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(fd, 1 << 20)
    except OSError:
        return b""
    finally:
        os.close(fd)


def start_time(pid: int) -> "Optional[float]":
    """When a process was started, on ``boot_clock``; None: there is none that still runs.

    Source: proc(5), fields 3 (state) and 22 (starttime) of /proc/PID/stat.
    """
    fields = read_small("/proc/%d/stat" % pid).rpartition(b")")[2].split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def is_running(pid: int, started_s: float) -> bool:
    """Whether this very process runs: a recycled pid has another start time.

    A second of tolerance is safe: no machine hands out all of its pids in one.
    """
    found = start_time(pid)
    return found is not None and abs(found - started_s) < 1.0


def identity() -> "Dict[str, Any]":
    """What tells other launchers whether this one still lives."""
    boot = read_small("/proc/sys/kernel/random/boot_id").decode().strip()
    pid = os.getpid()
    return {"host": os.uname().nodename, "boot": boot, "pid": pid, "start_s": start_time(pid)}


def attempt_of(pid: "Any") -> "Optional[str]":
    """The key of the attempt that a process belongs to, by the environment it was started with."""
    environment = b"\0" + read_small("/proc/%s/environ" % pid)
    _, mark, rest = environment.partition(b"\0" + MARK)
    return rest.partition(b"\0")[0].decode("ascii", "replace") if mark else None


def signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):  # it has ended already
        os.killpg(pid, number)


def kill_leftovers(keys: "Set[str]", pids: "Iterable[Tuple[int, float]]") -> None:
    """Kill what a launcher that died has left of these attempts.

    ``pids`` are group leaders and their start times. What left its group, or was started just
    before the launcher's death, is found by its environment.
    """
    for pid, started_s in pids:
        if is_running(pid, started_s):
            signal_group(pid, signal.SIGKILL)
    for name in os.listdir("/proc"):
        if name.isdigit() and attempt_of(name) in keys:
            with contextlib.suppress(OSError):  # it ended meanwhile
                os.kill(int(name), signal.SIGKILL)


def become_subreaper() -> bool:
    """Be given the orphans of tasks, also of daemons that left their process group.

    Source: prctl(2), PR_SET_CHILD_SUBREAPER, Linux 3.4.
    """
    try:
        import ctypes

        succeeded = ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
        return succeeded and os.path.exists("/proc/thread-self/children")
    except (ImportError, OSError, AttributeError):
        return False


# --------------------------------------------------------------------------------------- files


def inside(name: str) -> str:
    """A name relative to the sandbox, refused where it would lead out of it."""
    if name.startswith("/") or ".." in name.split("/"):
        raise AttemptError("start", "file name %r leads out of the sandbox" % name)
    return name


def make_parent(path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)


def remove_tree(top: str) -> None:
    """Remove a directory with all that is in it, as far as that is allowed."""
    try:
        os.rmdir(top)
        return
    except OSError:
        pass
    pending, directories = [top], []
    while pending:
        directory = pending.pop()
        directories.append(directory)
        try:
            os.chmod(directory, 0o700)
            for entry in list(os.scandir(directory)):
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    os.unlink(entry.path)
        except OSError:
            continue
    for directory in reversed(directories):
        with contextlib.suppress(OSError):
            os.rmdir(directory)


def link_input(stored: str, path: str) -> None:
    """Make a stored file appear in a sandbox.

    A hard link takes no inode, a symbolic one does, and is for what can't have the other kind.
    """
    try:
        os.link(stored, path)
    except OSError as error:
        if error.errno in FULL or isinstance(error, FileExistsError):
            raise
        os.symlink(stored, path)


def write_all(fd: int, data: bytes) -> None:
    """Write all of it, or raise OSError."""
    while data:
        data = data[os.write(fd, data) :]


def remove(path: str) -> None:
    """Remove a file, a link or a directory, present or not."""
    try:
        os.unlink(path)
    except IsADirectoryError:
        remove_tree(path)
    except OSError:
        pass


def refuse_special(path: str) -> None:
    """Raises AttemptError for a pipe, a socket or a device: who reads it may wait for ever."""
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        text = "its output %r is neither a file nor a directory"
        raise AttemptError("output", text % os.path.basename(path))


def copy_file(source: str, target: str, follow_symlinks: bool = True) -> str:
    """``shutil.copy``, but of what has an end."""
    import shutil

    refuse_special(source)
    return shutil.copy(source, target, follow_symlinks=follow_symlinks)


def make_read_only(path: str, status: os.stat_result) -> int:
    """Make a file, or the files in a directory, read-only; returns their size in bytes.

    A file that may still be written under another name, perhaps one of the user's own, is replaced
    by a copy, or that one would become read-only, and could change what is in the store.
    """
    if not stat.S_ISDIR(status.st_mode):
        if status.st_nlink > 1 and status.st_mode & 0o222:
            temporary = path + ".wfrun-copy"
            copy_file(path, temporary)
            os.rename(temporary, path)
        os.chmod(path, 0o555 if status.st_mode & 0o111 else 0o444)
        return status.st_size
    size = 0
    for directory, _, names in os.walk(path):
        for name in names:
            member = os.path.join(directory, name)
            status = os.lstat(member)
            if stat.S_ISREG(status.st_mode):
                size += make_read_only(member, status)
    return size


def resolve_link(path: str, site: str) -> None:
    """Replace a symbolic link, which a task left as its output, by what it points to: linked if
    that is in the site's own directory, else copied, since it is somebody else's."""
    import shutil

    target = os.path.realpath(path)
    os.unlink(path)
    if os.path.isdir(target):
        shutil.copytree(target, path, symlinks=True, copy_function=copy_file)
        return
    if target.startswith(site + "/"):
        with contextlib.suppress(OSError):
            os.link(target, path)
            return
    copy_file(target, path)


def move_into_store(source: str, destination: str) -> int:
    """Give an output its place in the store in one step; returns its size in bytes."""
    size = make_read_only(source, os.stat(source))
    try:
        os.rename(source, destination)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR, errno.ENOTDIR):
            raise
        remove(destination)
        os.rename(source, destination)
    return size


def commit(request: "Request", sandbox: str, store: str) -> "List[Optional[int]]":
    """Move the outputs of a successful attempt into the store; returns their sizes in bytes.

    Nothing is moved unless all that have to be there are there.
    """
    outputs = request["outputs"]
    present = [os.path.exists(sandbox + "/" + output["name"]) for output in outputs]
    missing = [
        repr(output["name"])
        for output, there in zip(outputs, present)
        if not there and not output["optional"]
    ]
    if missing:
        raise AttemptError("output", "ended without writing its output %s" % ", ".join(missing))
    # While all that a link may point to is still in its place.
    for output, there in zip(outputs, present):
        path = sandbox + "/" + output["name"]
        if there:
            refuse_special(path)
        if os.path.islink(path):
            resolve_link(path, os.path.dirname(store))
    return [
        move_into_store(sandbox + "/" + output["name"], store + "/" + output["stored"])
        if there
        else None
        for output, there in zip(outputs, present)
    ]


def refuse_revoked(attempts: str, key: str) -> None:
    """Raises AttemptError for an attempt that was given up while it ran: another one may have put
    its outputs into the store by now."""
    if os.path.exists(attempts + key + ".revoked"):
        raise AttemptError("lost", "was given up before it ended")


def tail(path: str) -> str:
    """The end of a text file."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        size = os.fstat(fd).st_size
        return os.pread(fd, TAIL_BYTES, max(0, size - TAIL_BYTES)).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


# ------------------------------------------------------------------------------------- records


def lock(fd: int, kind: int) -> bool:
    """Lock a file without waiting; False: somebody else has locked it, or it can't be locked."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class Journal:
    """The records of this launcher. What can't be written now is kept and tried again."""

    def __init__(self, directory: str, name: str = "") -> None:
        """Raises OSError, FileExistsError where there is one of this name."""
        owner = identity()
        own_name = "%s-%d-%x.jsonl" % (owner["host"], owner["pid"], int(time.time() * 1e6))
        self.name = name or own_name
        self._path = directory + "/" + self.name
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
        self._fd = os.open(self._path, flags, 0o644)
        # Held while we live, and seen from any container of this machine, where our host name and
        # pid say nothing. Tasks do not inherit it.
        owner["locked"] = lock(self._fd, fcntl.LOCK_EX)
        self.unwritten = b""
        self.error = None  # type: Optional[OSError]
        self.add(json.dumps({"launcher": owner}))
        if not self.write() and self.error is not None:
            raise self.error

    def add(self, line: str) -> None:
        self.unwritten += line.encode() + b"\n"

    def write(self) -> bool:
        """One write for all that was added, in the common case."""
        try:
            while self.unwritten:
                self.unwritten = self.unwritten[os.write(self._fd, self.unwritten) :]
        except OSError as error:
            self.error = error
            return False
        self.error = None
        return True

    def ends(self, keys: "Set[str]") -> "Dict[str, Outcome]":
        """The outcomes of those of these attempts whose end is recorded here. Reads all of it."""
        ends = {}  # type: Dict[str, Outcome]
        for line in self._lines() if keys else ():
            if b'"ended": ' in line[:16]:
                for key, outcome in json.loads(line.decode())["ended"]:
                    if key in keys:
                        ends[key] = outcome
        return ends

    def _lines(self) -> "Iterator[bytes]":
        rest = b""
        with open(self._path, "rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line
                else:
                    rest = line
        for line in (rest + self.unwritten).splitlines():
            yield line


class Trace:
    """What the journals say of one attempt."""

    __slots__ = ("outcome", "owner", "started", "candidates")

    def __init__(self) -> None:
        self.outcome = None  # type: Optional[Outcome]
        self.owner = None  # type: Optional[str]
        self.started = None  # type: Optional[List[Any]]
        self.candidates = set()  # type: Set[str]


class History:
    """The journals of all launchers that ever worked in this directory."""

    def __init__(self, directory: str, own: Journal) -> None:
        self._directory = directory
        self._own = own
        self._owners = {}  # type: Dict[str, Dict[str, Any]]
        self._host = os.uname().nodename
        self._boot = identity()["boot"]

    def living(self) -> "Set[str]":
        """The other journals whose launchers may still write into them.

        Of a launcher on another machine nothing is known here, so it counts as living. A machine
        is known by its boot, since a container has a host name of its own.
        """
        names = set()
        for name in os.listdir(self._directory):
            if name == self._own.name:
                continue
            if name not in self._owners:
                for message in self._read(name, {}):
                    if "launcher" in message:
                        self._owners[name] = message["launcher"]
                    break
            owner = self._owners.get(name)
            if owner is None or self._lives(name, owner):
                names.add(name)
        return names

    def _lives(self, name: str, owner: "Dict[str, Any]") -> bool:
        if owner["boot"] != self._boot:
            return bool(owner["host"] != self._host)
        if owner.get("locked"):
            return self._is_locked(name)
        return owner["host"] != self._host or is_running(owner["pid"], owner["start_s"])

    def _is_locked(self, name: str) -> bool:
        try:
            fd = os.open(self._directory + "/" + name, os.O_RDONLY)
        except OSError:
            return False
        try:
            return not lock(fd, fcntl.LOCK_SH)
        finally:
            os.close(fd)

    def _read(self, name: str, offsets: "Dict[str, int]") -> "Iterator[Dict[str, Any]]":
        """The whole lines of a journal after the offset, which moves on."""
        path = self._directory + "/" + name
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            file.seek(offsets.get(name, 0))
            for line in file:
                if not line.endswith(b"\n"):
                    break  # is being written, or its launcher died while it wrote
                offsets[name] = offsets.get(name, 0) + len(line)
                try:
                    yield json.loads(line.decode())
                except ValueError:
                    continue  # torn by a full disk

    def _messages(self, offsets: "Dict[str, int]") -> "Iterator[Tuple[str, Dict[str, Any]]]":
        for name in os.listdir(self._directory):
            for message in self._read(name, offsets):
                yield name, message
        for line in self._own.unwritten.split(b"\n"):
            try:
                yield self._own.name, json.loads(line.decode())
            except ValueError:
                continue  # the rest of a line of which the first part is written

    def follow(self, traces: "Dict[str, Trace]", offsets: "Dict[str, int]") -> None:
        """Bring these traces up to date by all that is beyond the offsets."""
        for name, message in self._messages(offsets):
            for key in message.get("queued", ()):
                if key in traces:
                    traces[key].candidates.add(name)
            for key in message.get("dropped", ()):
                if key in traces:
                    traces[key].candidates.discard(name)
            for started in message.get("started", ()):
                if started[0] in traces:
                    traces[started[0]].owner = name
                    traces[started[0]].started = started
            for key, outcome in message.get("ended", ()):
                if key in traces:
                    traces[key].outcome = outcome

    def unfinished(self) -> "Set[str]":
        """Attempts that were started and have no exit record."""
        keys = set()  # type: Set[str]
        ended = set()  # type: Set[str]
        for _, message in self._messages({}):
            keys.update(started[0] for started in message.get("started", ()))
            ended.update(key for key, _ in message.get("ended", ()))
        return keys - ended


# ------------------------------------------------------------------------------ slots, attempts


class Slots:
    """What is free of the cores, memory and GPUs: of the site's, or, where attempts can have
    several nodes, of this one's, of which each takes its part."""

    def __init__(self, config: "Dict[str, Any]") -> None:
        self.cores = self.all_cores = int(config["slots"])
        self.memory = self.all_memory = int(config.get("memory_bytes", 0))
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        names = [name for name in visible.split(",") if name]
        self.all_gpus = int(config.get("gpus", 0))
        names += [str(n) for n in range(self.all_gpus) if str(n) not in names]
        self.gpus = names[: self.all_gpus]
        self.pins = []  # type: List[int]
        allowed = sorted(os.sched_getaffinity(0))
        self.pinned = bool(config.get("pin_cores")) and len(allowed) >= self.cores
        if self.pinned:
            self.pins = allowed[: self.cores]
        self.allowed = allowed

    def refusal(self, asked: "Dict[str, Any]") -> "Optional[str]":
        """Why a request can never be met here."""
        cores = asked["cores"] // asked.get("nodes", 1)
        if cores > self.all_cores:
            return "asks for %d cores of %d" % (cores, self.all_cores)
        if self.all_memory and asked["memory_bytes"] > self.all_memory:
            return "asks for %d bytes of memory of %d" % (asked["memory_bytes"], self.all_memory)
        if asked["gpus"] > self.all_gpus:
            return "asks for %d GPUs of %d" % (asked["gpus"], self.all_gpus)
        return None

    def take(self, asked: "Dict[str, Any]") -> "Optional[Grant]":
        cores = asked["cores"] // asked.get("nodes", 1)
        memory, gpus = asked["memory_bytes"], asked["gpus"]
        if cores > self.cores or (self.all_memory and memory > self.memory):
            return None
        if gpus > len(self.gpus) or (self.pinned and cores > len(self.pins)):
            return None
        grant = (cores, memory, self.gpus[:gpus], self.pins[:cores] if self.pinned else [])
        self.charge(grant)
        return grant

    def charge(self, grant: "Grant") -> None:
        self.cores -= grant[0]
        self.memory -= grant[1]
        if grant[2]:
            self.gpus = [gpu for gpu in self.gpus if gpu not in grant[2]]
        if grant[3]:
            self.pins = [pin for pin in self.pins if pin not in grant[3]]

    def give_back(self, grant: "Grant") -> None:
        self.cores += grant[0]
        self.memory += grant[1]
        self.gpus += grant[2]
        if grant[3]:
            self.pins = sorted(self.pins + grant[3])


class Attempt:
    """A task that runs."""

    __slots__ = (
        "key",
        "request",
        "grant",
        "serial",
        "pid",
        "boot_s",
        "started_s",
        "out",
        "err",
        "sandbox",
        "reason",
    )

    def __init__(self, request: "Request", grant: "Grant", serial: int) -> None:
        self.key = request["key"]  # type: str
        self.request = request
        self.grant = grant
        self.serial = serial
        self.pid = 0
        self.boot_s = 0.0
        self.started_s = 0.0
        self.out = None  # type: Optional[Log]
        self.err = None  # type: Optional[Log]
        self.sandbox = ""
        self.reason = None  # type: Optional[str]
        """Why it is being ended: a cause."""


class Log:
    """An open file for what a task prints. ``spare`` is its name until it gets the task's."""

    __slots__ = ("fd", "spare")

    def __init__(self, path: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self.fd = os.open(path, flags, 0o644)
        self.spare = ""

    def close(self) -> None:
        os.close(self.fd)
        if self.spare:
            remove(self.spare)


class Logs:
    """The logs of attempts. Most stay empty, and their files are used again.

    To create a file takes an inode, which a parallel file system hands out slowly, and ext4 thirty
    times as slowly as usual while there are thousands that were freed in the last minute. To link
    one is always quick, and just as exclusive: a claim is a link to an empty file, and a log gets
    the task's name when it is ``shown``, or when something was printed.
    """

    def __init__(self, attempts: str) -> None:
        self._attempts = attempts
        self._spares = []  # type: List[Log]
        self._empty = ""
        self._made = 0
        # Launchers on other machines, where pids say nothing, may share the directory.
        self._prefix = "%s.spare-%s-" % (attempts, os.urandom(6).hex())

    def claim(self, name: str) -> Log:
        """Make the log of this name; FileExistsError: there is one, and it is somebody else's."""
        path = self._attempts + name
        if self._spares and self._empty:
            try:
                os.link(self._empty, path)
                return self._spares.pop()
            except FileExistsError:
                raise
            except OSError:  # For instance, a file can have only so many names.
                self._forget_empty()
        return Log(path)

    def open(self, name: str) -> Log:
        """A log that is to have this name, which nobody else gives to one."""
        return self._spares.pop() if self._spares else Log(self._attempts + name)

    def show(self, log: Log, name: str) -> None:
        """Let the log be found under its name, whatever that was the name of before."""
        if log.spare:
            os.rename(log.spare, self._attempts + name)
            log.spare = ""

    def retire(self, log: Log, name: str, limit: int, is_claim: bool) -> None:
        """A task has ended, and so have all that could write into its log."""
        keep = False
        try:
            if os.fstat(log.fd).st_size:
                self.show(log, name)
            elif limit:
                if not log.spare:
                    self._hide(log, name, is_claim)
                keep = len(self._spares) < limit
        except OSError:  # For instance, a file can have only so many names.
            self._forget_empty()
        if keep:
            self._spares.append(log)
        else:
            log.close()

    def _hide(self, log: Log, name: str, is_claim: bool) -> None:
        """Give a log another name than the task's, which for a claim is there all the time."""
        path = self._attempts + name
        spare = self.spare_name()
        if not is_claim:
            os.rename(path, spare)
            log.spare = spare
            return
        if not self._empty:
            empty = self.spare_name()
            os.close(os.open(empty, os.O_CREAT | os.O_EXCL, 0o444))
            self._empty = empty
        os.link(path, spare)
        log.spare = spare
        temporary = self.spare_name()
        os.link(self._empty, temporary)
        os.rename(temporary, path)

    def spare_name(self) -> str:
        self._made += 1
        return self._prefix + str(self._made)

    def _forget_empty(self) -> None:
        if self._empty:
            remove(self._empty)
            self._empty = ""

    def close(self) -> None:
        """Remove what was kept for later tasks."""
        while self._spares:
            self._spares.pop().close()
        self._forget_empty()


class Pack:
    """A file for what many tasks printed, so that it takes no inodes."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._fd = -1
        where = os.uname().nodename, os.getpid(), os.urandom(4).hex()
        self._name = "%s-%d-%s.log" % where

    def add(self, key: str, out: "Tuple[Log, int]", err: "Tuple[Log, int]") -> "List[Any]":
        """Copy an attempt's logs, so many bytes of each; returns where they are now. OSError: they
        are where they were."""
        texts = [read_log(*out), read_log(*err)]
        head = "--- %s: %d bytes of stdout, %d of stderr\n" % (key, len(texts[0]), len(texts[1]))
        if self._fd < 0:
            os.makedirs(self._directory, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            self._fd = os.open(self._directory + "/" + self._name, flags, 0o644)
        start = os.lseek(self._fd, 0, os.SEEK_END)
        try:
            write_all(self._fd, b"".join([head.encode(), *texts, b"\n"]))
        except OSError:
            os.ftruncate(self._fd, start)
            raise
        return [self._name, start + len(head), len(texts[0]), len(texts[1])]


def read_log(log: Log, size: int) -> bytes:
    """The first bytes of a log, which itself is open for writing alone."""
    if not size:
        return b""
    fd = os.open("/proc/self/fd/%d" % log.fd, os.O_RDONLY)
    try:
        return os.read(fd, size)
    finally:
        os.close(fd)


class Starter:
    """Makes a sandbox and starts a process in it."""

    def __init__(self, directory: str, slots: Slots, pack_logs: bool = False) -> None:
        self.attempts = directory + "/attempts/"
        self.store = directory + "/files"
        self._slots = slots
        self._null = os.open(os.devnull, os.O_RDONLY)
        self._spares = []  # type: List[str]
        self._logs = Logs(self.attempts)
        self._pack = Pack(directory + "/logs") if pack_logs else None
        self.spare_limit = 0
        """How many empty sandboxes, and as many empty logs, to keep."""
        self.helpers = None  # type: Optional[Set[int]]
        """Where many tasks are started: gets the warm interpreter for Python functions."""
        self._interpreter = None  # type: Any
        self.are_short = False
        """The tasks that end now had run for a moment."""
        self._programs = {}  # type: Dict[Tuple[str, str], str]
        self._environments = {}  # type: Dict[int, Dict[str, str]]

    def claim(self, attempt: Attempt) -> None:
        """Claim an attempt; FileExistsError: it is somebody else's."""
        attempt.out = self._logs.claim(attempt.key + ".out")

    def start(self, attempt: Attempt, out: Log) -> None:
        """Start an attempt whose claim is ``out``.

        Raises AttemptError, OSError or ValueError where it can't be started.
        """
        request = attempt.request
        base = attempt.sandbox = self.attempts + attempt.key
        opened = []  # type: List[int]
        try:
            attempt.err = self._logs.open(attempt.key + ".err")
            redirected = request["stdin"] or request["stdout"] or request["stderr"]
            furnished = request["inputs"] or request["outputs"] or request.get("hosts")
            if not self._spares:
                os.mkdir(base, 0o755)
            elif self.are_short and not (redirected or furnished):
                # Nobody is going to look for it, unless the task fails.
                base = attempt.sandbox = self._spares.pop()
            else:
                os.rename(self._spares.pop(), base)
            if request["inputs"] or request["outputs"]:
                self._furnish(request, base)
            streams = [self._null, out.fd, attempt.err.fd]
            if redirected:
                streams = self._redirect(request, base, streams, opened)
            # The task inherits it. Later attempts move on, and the launcher has no other use.
            os.chdir(base)
            environment = self._environment(attempt)
            program = self._program(request["argv"][0], environment.get("PATH", os.defpath))
            attempt.started_s = time.time()
            attempt.boot_s = boot_clock()
            attempt.pid = self._spawn(attempt, program, environment, streams)
        finally:
            for fd in opened:
                os.close(fd)

    def show(self, attempt: Attempt) -> None:
        """Let what a task prints be found, as is to be done for one that runs for some time."""
        with contextlib.suppress(OSError):
            if attempt.out is not None:
                self._logs.show(attempt.out, attempt.key + ".out")
            if attempt.err is not None:
                self._logs.show(attempt.err, attempt.key + ".err")

    def retire(self, attempt: Attempt, empty_sandbox: bool) -> "Optional[List[Any]]":
        """Done with the logs, and perhaps with the sandbox, which is kept for another attempt.
        Returns where what it printed is packed."""
        base = attempt.sandbox
        named = self.attempts + attempt.key
        limit = self.spare_limit
        packed = None
        if self._pack is not None and limit and attempt.out is not None and attempt.err is not None:
            packed = self._pack_logs(self._pack, attempt, attempt.out, attempt.err)
        logs = min(2 * limit, MOST_SPARE_LOGS)
        if attempt.out is not None:
            self._logs.retire(attempt.out, attempt.key + ".out", logs, True)
        if attempt.err is not None:
            self._logs.retire(attempt.err, attempt.key + ".err", logs, False)
        if base and empty_sandbox:
            self._clear(base, named, limit)
        elif base and base != named:
            with contextlib.suppress(OSError):
                os.rename(base, named)
        return packed

    def _pack_logs(self, pack: Pack, attempt: Attempt, out: Log, err: Log) -> "Optional[List[Any]]":
        """Move what a task printed into the pack; None: it stays where it is."""
        try:
            sizes = os.fstat(out.fd).st_size, os.fstat(err.fd).st_size
            if not 0 < sum(sizes) <= PACK_BYTES:
                return None
            packed = pack.add(attempt.key, (out, sizes[0]), (err, sizes[1]))
            os.ftruncate(out.fd, 0)
            os.ftruncate(err.fd, 0)
        except OSError:  # For instance, the disk is full.
            return None
        return packed

    def _clear(self, base: str, named: str, limit: int) -> None:
        if len(self._spares) >= limit:
            remove_tree(base)
            return
        try:
            for name in os.listdir(base):
                remove(base + "/" + name)
            if base == named:
                base = self._logs.spare_name()
                os.rename(named, base)
        except OSError:
            remove_tree(base)
            remove_tree(named)
        else:
            self._spares.append(base)

    def close(self) -> None:
        """Remove what was kept for later tasks."""
        while self._spares:
            remove_tree(self._spares.pop())
        self._logs.close()

    def _furnish(self, request: "Request", sandbox: str) -> None:
        for link in request["inputs"]:
            stored = self.store + "/" + link["stored"]
            if not os.path.exists(stored):
                raise AttemptError(
                    "staging", "its input %r is not in the site's store" % link["name"]
                )
            path = sandbox + "/" + inside(link["name"])
            if "/" in link["name"]:
                make_parent(path)
            link_input(stored, path)
        for output in request["outputs"]:
            if "/" in inside(output["name"]):
                make_parent(sandbox + "/" + output["name"])

    def _redirect(
        self, request: "Request", sandbox: str, streams: "List[int]", opened: "List[int]"
    ) -> "List[int]":
        """Standard streams that are files of the sandbox."""
        stdin, stdout, stderr = request["stdin"], request["stdout"], request["stderr"]
        if stdin:
            try:
                streams[0] = os.open(sandbox + "/" + inside(stdin), os.O_RDONLY)
            except FileNotFoundError:
                raise AttemptError("staging", "its standard input %r is absent" % stdin) from None
            opened.append(streams[0])
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        for number, name in ((1, stdout), (2, stderr)):
            if not name:
                continue
            if number == 2 and name == stdout:
                streams[2] = streams[1]
                continue
            path = sandbox + "/" + inside(name)
            make_parent(path)
            remove(path)  # An input of the same name: its link, not the stored file.
            streams[number] = os.open(path, flags, 0o644)
            opened.append(streams[number])
        return streams

    def _environment(self, attempt: Attempt) -> "Dict[str, str]":
        cores, _, gpus, _ = attempt.grant
        if cores not in self._environments:
            base = dict(os.environ)
            base.update((name, str(cores)) for name in THREADS)
            self._environments[cores] = base
        environment = self._environments[cores].copy()
        if gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        environment.update(attempt.request["env"])
        environment["WFRUN_ATTEMPT"] = attempt.key
        hosts = attempt.request.get("hosts")
        if hosts:
            environment.update(self._node_file(attempt, hosts))
        return environment

    def _node_file(self, attempt: Attempt, hosts: "List[str]") -> "Dict[str, str]":
        """The nodes of a task that has several, a line for each of its cores as PBS writes them,
        which every mpirun reads. It starts a process for each core, so each has one thread."""
        asked = attempt.request["resources"]
        if len(hosts) != asked["nodes"]:
            text = "it needs %d nodes, and its job has these: %s"
            raise AttemptError("node", text % (asked["nodes"], " ".join(hosts)))
        path = self.attempts + attempt.key + "/.wfrun-nodes"
        with open(path, "w") as file:
            for host in hosts:
                file.write((host + "\n") * (asked["cores"] // asked["nodes"]))
        return dict(dict.fromkeys(THREADS, "1"), WFRUN_NODEFILE=path)

    def _program(self, name: str, path: str) -> str:
        """The file to execute. Relative names are relative to the sandbox, where we are."""
        found = self._programs.get((name, path))
        if found is not None:
            return found
        if "/" in name:
            candidates = [name]
        else:
            candidates = [os.path.join(entry, name) for entry in path.split(os.pathsep)]
        for candidate in candidates:
            if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
                if candidate.startswith("/"):
                    self._programs[name, path] = candidate
                return candidate
        for candidate in candidates:
            if os.path.exists(candidate):
                raise AttemptError(
                    "start", "executable %r is not executable (see chmod)" % candidate
                )
        where = "is absent" if "/" in name else "is not in the site's PATH (%s)" % path
        raise AttemptError("start", "executable %r %s" % (name, where))

    def _spawn(
        self,
        attempt: Attempt,
        program: str,
        environment: "Dict[str, str]",
        streams: "List[int]",
    ) -> int:
        argv = attempt.request["argv"]
        pins = attempt.grant[3]
        if pins:
            os.sched_setaffinity(0, pins)  # inherited by the task
        try:
            if self.helpers is not None and argv[1:2] == [FUNCTION]:
                pid = self._call(program, argv, environment, streams, pins)
                if pid:
                    return pid
            try:
                return spawn(program, argv, environment, streams)
            except OSError as error:
                if error.errno != errno.ENOEXEC:
                    raise
                # A script without a first line #!, which execvp(3) gives to the shell too.
                return spawn("/bin/sh", ["sh", program, *argv[1:]], environment, streams)
        except FileNotFoundError:
            self._programs.clear()
            text = "executable %r, or the interpreter that its first line names, is absent"
            raise AttemptError("start", text % program) from None
        finally:
            if pins:
                os.sched_setaffinity(0, self._slots.allowed)

    def _call(
        self,
        program: str,
        argv: "List[str]",
        environment: "Dict[str, str]",
        streams: "List[int]",
        pins: "List[int]",
    ) -> int:
        """Start a Python function in a process of a warm interpreter. 0: it is a command like any
        other here. Once the interpreter has failed, all are."""
        assert self.helpers is not None
        try:
            if self._interpreter is None:
                path = os.path.realpath(argv[1])
                names = {"__name__": "wfrun_function"}  # type: Dict[str, Any]
                with open(path, "rb") as file:
                    exec(compile(file.read(), path, "exec"), names)
                self._interpreter = names["Interpreter"](spawn, program, path, environment)
                self.helpers.add(self._interpreter.pid)
            if not (self._interpreter and self._interpreter.can(program, environment)):
                return 0
        except Exception as error:
            os.write(2, b"Python functions are started as commands: %r\n" % error)
            self._interpreter = False
            return 0
        try:
            return int(self._interpreter.start(argv, environment, streams, pins))
        except (OSError, EOFError) as error:
            self._interpreter = False
            kill_leftovers({environment["WFRUN_ATTEMPT"]}, [])
            raise AttemptError("lost", "its warm interpreter is gone: %s" % error) from None


def spawn(
    program: str, argv: "List[str]", environment: "Dict[str, str]", streams: "List[int]"
) -> int:
    """Start a process in the current directory and in a group of its own; returns its pid."""
    posix_spawn = getattr(os, "posix_spawn", None)
    if posix_spawn is None:  # Python 3.6 and 3.7
        return popen(program, argv, environment, streams)
    dup2 = getattr(os, "POSIX_SPAWN_DUP2", 1)
    actions = [(dup2, stream, number) for number, stream in enumerate(streams)]
    return int(posix_spawn(program, argv, environment, file_actions=actions, setpgroup=0))


def popen(
    program: str, argv: "List[str]", environment: "Dict[str, str]", streams: "List[int]"
) -> int:
    """What ``spawn`` does, where posix_spawn is not at hand."""
    import subprocess

    process = subprocess.Popen(
        argv,
        executable=program,
        env=environment,
        stdin=streams[0],
        stdout=streams[1],
        stderr=streams[2],
        start_new_session=True,
    )
    process.returncode = 0  # We wait for it ourselves.
    return process.pid


def describe(attempt: Attempt, code: "Optional[int]", number: "Optional[int]") -> str:
    """What happened to an attempt that failed, in words."""
    if attempt.reason == "walltime":
        return "ran longer than its walltime of %g s" % attempt.request["resources"]["walltime_s"]
    if attempt.reason == "lost":
        return "ended because its launcher was terminated"
    if attempt.reason == "expired":
        return "ended because the time of its launcher was over"
    if attempt.reason == "cancelled":
        return "was cancelled"
    if number is not None:
        try:
            return "killed by signal %d (%s)" % (number, signal.Signals(number).name)
        except ValueError:
            return "killed by signal %d" % number
    return "ended with exit code %d" % (code or 0)


# ------------------------------------------------------------------------ the launcher's channel


class Channel:
    """JSON lines on stdin and stdout, neither of which is ever waited for."""

    def __init__(self, poller: "select.poll") -> None:
        self._poller = poller
        self._partial = b""
        self._unsent = b""
        self._waits = False
        self.is_open = True
        for fd in (0, 1):
            os.set_blocking(fd, False)
        poller.register(0, select.POLLIN)

    def receive(self) -> "List[bytes]":
        """The lines that have come. At the end of the stream ``is_open`` becomes false."""
        try:
            data = os.read(0, READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.is_open = False
            self._poller.unregister(0)
            return []
        lines = (self._partial + data).split(b"\n")
        self._partial = lines.pop()
        return lines

    def say(self, text: str) -> None:
        self._unsent += text.encode() + b"\n"

    def send(self) -> None:
        """Write as much as the engine takes. If it reads no more, the records are kept anyway."""
        while self._unsent:
            try:
                self._unsent = self._unsent[os.write(1, self._unsent) :]
            except BlockingIOError:
                break
            except OSError:
                self._unsent = b""
        if self._waits != bool(self._unsent):
            self._waits = bool(self._unsent)
            if self._waits:
                self._poller.register(1, select.POLLOUT)
            else:
                self._poller.unregister(1)

    def drain(self) -> None:
        """Give a slow reader some time for the last words."""
        for _ in range(50):
            self.send()
            if not self._unsent:
                return
            self._poller.poll(100)


class Watch:
    """An attempt of another launcher."""

    __slots__ = ("trace", "asked", "grant", "cancelled", "told")

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.asked = False
        self.grant = None  # type: Optional[Grant]
        self.cancelled = False
        self.told = False


class Runner:
    """Starts attempts in a site's directory and sees them end. What becomes of that is said by
    whoever extends it: ``_begun``, ``_conclude`` and ``_claimed_elsewhere``."""

    def __init__(self, directory: str, config: "Dict[str, Any]") -> None:
        self.directory = directory
        self.host = os.uname().nodename
        self.slots = Slots(config)
        self.starter = Starter(directory, self.slots, bool(config.get("pack_logs")))
        self.poller = select.poll()
        self.running = {}  # type: Dict[int, Attempt]
        self.keys = {}  # type: Dict[str, Attempt]
        """What was started, until its end is concluded."""
        self.timers = []  # type: List[Tuple[float, int, int]]
        self.serial = 0
        self.grace_s = GRACE_S
        self.helpers = set()  # type: Set[int]
        """Processes of our own, which belong to no attempt."""
        self.reaps_orphans = become_subreaper()
        self.children = -1
        if self.reaps_orphans:
            self.children = os.open("/proc/thread-self/children", os.O_RDONLY)
        self.orphans_known = True
        """What tasks left behind was looked for since the last of them ended."""
        self.wake = self._catch_signals()

    def _begun(self, attempt: Attempt) -> None:
        """It runs."""
        raise NotImplementedError

    def _conclude(self, key: str, outcome: "Outcome") -> None:
        """It has ended, or could not be started."""
        raise NotImplementedError

    def _claimed_elsewhere(self, key: str) -> None:
        """Somebody else has claimed what was to be started here."""
        raise NotImplementedError

    def _terminate(self) -> None:
        """SIGTERM has come."""
        raise NotImplementedError

    def _grace_is_over(self) -> None:
        """A timer of no attempt in particular fired."""

    def _commit(self, attempt: Attempt, sandbox: str) -> "List[Optional[int]]":
        """Put the outputs of a success into the store; returns their sizes in bytes."""
        return commit(attempt.request, sandbox, self.starter.store)

    def _catch_signals(self) -> int:
        """Every signal only writes its number into a pipe. A handler, unlike SIG_IGN, is not
        inherited by tasks."""
        wake, write = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write)
        for name in ("SIGCHLD", "SIGTERM", "SIGINT", "SIGHUP", "SIGPIPE", "SIGXFSZ"):
            signal.signal(getattr(signal, name), lambda number, frame: None)
        self.poller.register(wake, select.POLLIN)
        return wake

    def _start(self, request: "Request", grant: "Grant") -> None:
        self.serial += 1
        attempt = Attempt(request, grant, self.serial)
        try:
            self.starter.claim(attempt)
            assert attempt.out is not None
            self.starter.start(attempt, attempt.out)
        except (AttemptError, OSError, ValueError) as error:
            self.slots.give_back(grant)
            if isinstance(error, FileExistsError) and attempt.out is None:
                self._claimed_elsewhere(attempt.key)
                return
            if attempt.out is not None:
                self.starter.retire(attempt, True)
            failure = failure_of(error)
            outcome = {"cause": failure.cause, "message": failure.message, "host": self.host}
            self._conclude(attempt.key, outcome)
            return
        self.running[attempt.pid] = attempt
        self.keys[attempt.key] = attempt
        self._begun(attempt)
        walltime_s = request["resources"]["walltime_s"]
        if walltime_s is not None:
            self._set_timer(attempt, walltime_s)

    def _set_timer(self, attempt: Attempt, delay_s: float) -> None:
        if len(self.timers) > 64 + 4 * len(self.running):
            serials = {running.serial for running in self.running.values()}
            self.timers = [entry for entry in self.timers if entry[1] in serials or not entry[2]]
            heapq.heapify(self.timers)
        due = time.monotonic() + delay_s
        heapq.heappush(self.timers, (due, attempt.serial, attempt.pid))

    def _fire_timers(self) -> None:
        """A walltime or a grace that is over; those of ended attempts say nothing."""
        while self.timers and self.timers[0][0] <= time.monotonic():
            _, serial, pid = heapq.heappop(self.timers)
            attempt = self.running.get(pid)
            if not pid:
                self._grace_is_over()
            elif attempt is not None and attempt.serial == serial:
                if attempt.reason is None:
                    self._end(attempt, "walltime")
                else:
                    signal_group(pid, signal.SIGKILL)

    def _end(self, attempt: Attempt, reason: str) -> None:
        if attempt.reason is None and self.running.get(attempt.pid) is attempt:
            attempt.reason = reason
            signal_group(attempt.pid, signal.SIGTERM)
            signal_group(attempt.pid, signal.SIGCONT)
            self._set_timer(attempt, self.grace_s)

    def _wake(self) -> "List[Tuple[Attempt, int, Any, float]]":
        numbers = os.read(self.wake, FEW_BYTES)
        if signal.SIGTERM in numbers:
            self._terminate()
        return self._reap() if signal.SIGCHLD in numbers else []

    def _reap(self) -> "List[Tuple[Attempt, int, Any, float]]":
        """Wait for all that have ended. What a task has left behind ends with it: its process
        group is killed while the task is a zombie, so that its number can't be another's."""
        ended = []
        orphan = False
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while True:
            try:
                info = os.waitid(os.P_ALL, 0, flags)
            except ChildProcessError:
                break
            if info is None:
                break
            pid = info.si_pid
            attempt = self.running.pop(pid, None)
            if attempt is not None:
                signal_group(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            if attempt is not None:
                self.slots.give_back(attempt.grant)
                ended.append((attempt, status, usage, time.time()))
            elif pid in self.helpers:
                self.helpers.discard(pid)
            else:
                orphan = True
        self.orphans_known = False
        if orphan and self.reaps_orphans:
            self._kill_orphans()  # its children are ours now
        return ended

    def _kill_orphans(self) -> int:
        """Daemons that left the process group of a task which has ended; returns how many
        processes there are that tasks have left behind."""
        orphans = 0
        found = os.pread(self.children, FEW_BYTES, 0)
        if len(found) > FEW_BYTES // 2:
            found = os.pread(self.children, READ_BYTES, 0)
        for pid in map(int, found.split()):
            if pid in self.running or pid in self.helpers:
                continue
            orphans += 1
            key = attempt_of(pid)
            running = [attempt.key for attempt in self.running.values()]
            if (key is None and not running) or (key is not None and key not in running):
                with contextlib.suppress(OSError):  # it ended meanwhile
                    os.kill(pid, signal.SIGKILL)
        return orphans

    def sweep(self, patience_s: float) -> None:
        """When nothing runs any more: kill what tasks have left behind, and what these leave."""
        deadline_s = time.monotonic() + patience_s
        while self.reaps_orphans and self._kill_orphans() and time.monotonic() < deadline_s:
            time.sleep(0.005)
            self._reap()

    def _settle(self, attempt: Attempt, status: int, usage: "Any", ended_s: float) -> None:
        """Commit the outputs of an attempt that has ended, and make its exit record."""
        if not self.orphans_known:
            self.orphans_known = True
            alone = self.reaps_orphans and not self._kill_orphans()
            # What a task left behind may still write into its sandbox until it is dead.
            self.starter.spare_limit = self.slots.all_cores + SPARE_MARGIN if alone else 0
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        code = os.WEXITSTATUS(status) if number is None else None
        sandbox = attempt.sandbox
        self.starter.are_short = ended_s - attempt.started_s < SHORT_S
        outcome = {
            "cause": "done",
            "started_s": round(attempt.started_s, 6),
            "ended_s": round(ended_s, 6),
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 6),
            # At least what this launcher itself occupies, for a child of vfork is charged with
            # it: one more reason to keep it small.
            "peak_memory_bytes": usage.ru_maxrss * 1024,
            "host": self.host,
        }
        if code is not None:
            outcome["exit_code"] = code
        else:
            outcome["signal"] = number
        failure = None
        if status != 0 or attempt.reason is not None:
            cause = attempt.reason or ("exit" if number is None else "signal")
            if cause == "exit" and self._is_full(but_for=sandbox):
                cause = "storage"
            failure = AttemptError(cause, describe(attempt, code, number))
        elif attempt.request["outputs"]:
            try:
                outcome["sizes"] = self._commit(attempt, sandbox)
            except (AttemptError, OSError) as error:
                failure = failure_of(error)
                if failure.cause == "start":
                    failure = AttemptError("output", "its outputs can't be committed: %s" % error)
        if failure is not None:
            self.starter.show(attempt)
            outcome["cause"] = failure.cause
            outcome["message"] = failure.message + self._quote(attempt)
        empty = failure is None or failure.cause == "cancelled" or self._is_full()
        packed = self.starter.retire(attempt, empty)
        if packed is not None:
            outcome["packed"] = packed
        del self.keys[attempt.key]
        self._conclude(attempt.key, outcome)

    def _quote(self, attempt: Attempt) -> str:
        stderr = attempt.request["stderr"]
        named = self.starter.attempts + attempt.key + ".err"
        text = tail(attempt.sandbox + "/" + stderr if stderr else named).strip()
        if text:
            return "; the end of its stderr:\n" + text
        if not os.path.exists(self.starter.attempts):
            return "; the site's directory is gone"
        return "; its stderr is empty" + (
            ", and the site's disk is full" if self._is_full() else ""
        )

    def _is_full(self, but_for: "Optional[str]" = None) -> bool:
        """Whether the disk is full; not so where a tree has a good part in it that it is."""
        try:
            disk = os.statvfs(self.starter.attempts)
            if disk.f_bavail or but_for is None:
                return disk.f_bavail == 0
            taken = sum(
                os.lstat(os.path.join(place, name)).st_blocks * 512
                for place, _, names in os.walk(but_for)
                for name in names
            )
            return taken < disk.f_blocks * disk.f_frsize / 100
        except OSError:
            return False


class Worker(Runner):
    """A Runner with a queue (strict FCFS) and a journal, which tells an engine what it does.

    An end is in the journal before it is told, and news is gathered while there is queued work.
    How it is sent (``_say``, ``_send``) and what comes (``_handle``) is for whoever extends it."""

    def __init__(self, directory: str, config: "Dict[str, Any]", journal: Journal) -> None:
        self.journal = journal
        Runner.__init__(self, directory, config)
        if self.reaps_orphans:
            self.starter.helpers = self.helpers
        self.queue = collections.OrderedDict()  # type: collections.OrderedDict[str, Request]
        self.started = []  # type: List[Attempt]
        self.ended = []  # type: List[Tuple[str, Outcome]]
        self.announced = []  # type: List[str]
        self.flush_due = 0.0
        self.retry_due = 0.0
        self.failing = False

    def _say(self, text: str) -> None:
        """Put a line on its way to the engine."""
        raise NotImplementedError

    def _send(self) -> None:
        """Write as much as the engine takes."""
        raise NotImplementedError

    def _handle(self, message: "Dict[str, Any]") -> None:
        """Raises ValueError, KeyError, TypeError or AttributeError for what is no message."""
        raise NotImplementedError

    def _due(self) -> "List[float]":
        """When there is something to do next."""
        due = []
        if self.timers:
            due.append(self.timers[0][0])
        if self.started or self.ended or self.announced:
            due.append(self.flush_due)
        if self.failing:
            due.append(self.retry_due)
        return due

    def _hear(self, lines: "List[bytes]") -> None:
        for line in lines:
            try:
                self._handle(json.loads(line.decode()))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                text = "launcher: message not understood: %r: %s" % (
                    error,
                    line[:200].decode("utf-8", "replace"),
                )
                self._say(json.dumps({"error": text}))

    def _enqueue(self, fresh: "List[Request]") -> None:
        if not fresh:
            return
        self.journal.add(json.dumps({"queued": [request["key"] for request in fresh]}))
        written = self.journal.write()
        for request in fresh:
            refusal = self.slots.refusal(request["resources"])
            if not written:
                text = "exit records can't be written: %s" % self.journal.error
                self._conclude(request["key"], {"cause": "storage", "message": text})
            elif refusal is not None:
                text = "can't be started at this site: %s" % refusal
                self._conclude(request["key"], {"cause": "start", "message": text})
            else:
                self.queue[request["key"]] = request

    def _start_queued(self) -> None:
        while self.queue:
            key = next(iter(self.queue))
            request = self.queue[key]
            grant = self.slots.take(request["resources"])
            if grant is None:
                break
            del self.queue[key]
            self._start(request, grant)

    def _begun(self, attempt: Attempt) -> None:
        self._news()
        self.started.append(attempt)

    # -- what goes out

    def _news(self) -> None:
        if not (self.started or self.ended or self.announced):
            self.flush_due = time.monotonic() + FLUSH_S

    def _conclude(self, key: str, outcome: "Outcome") -> None:
        """The end of an attempt of ours: recorded, then reported."""
        self._news()
        self.ended.append((key, outcome))

    def _announce(self, key: str, outcome: "Outcome") -> None:
        """The end of an attempt that is recorded elsewhere."""
        self._say(json.dumps({"ended": [[key, outcome]]}))
        self._send()

    def _flush(self) -> None:
        """Nobody waits for news of tasks while others can be started, so it is gathered."""
        now = time.monotonic()
        waiting = self.started or self.ended or self.announced
        if waiting and (now >= self.flush_due or (self.ended and not self.queue)):
            self._write_all()
        elif self.failing and now >= self.retry_due:
            self._write_journal()
        self._send()

    def _write_all(self) -> None:
        if not (self.started or self.ended or self.announced):
            self._write_journal()
            return
        ends = json.dumps(self.ended)
        if self.ended:
            self.journal.add('{"ended": %s}' % ends)
        starts = []
        for attempt in self.started:
            if self.running.get(attempt.pid) is attempt:
                self.starter.show(attempt)
                starts.append([attempt.key, attempt.pid, attempt.boot_s, *attempt.grant])
        if starts:
            self.journal.add(json.dumps({"started": starts}))
        self._write_journal()
        keys = json.dumps([attempt.key for attempt in self.started] + self.announced)
        self._say('{"started": %s, "ended": %s}' % (keys, ends))
        self.started, self.ended, self.announced = [], [], []

    def _write_journal(self) -> None:
        """A record that can't be written is reported all the same, or the engine would wait for
        a disk that may never have room; it is tried again until it is written."""
        failed = not self.journal.write()
        self.retry_due = time.monotonic() + RETRY_S
        if failed and not self.failing:
            text = "exit records can't be written to %s/exits: %s; make room there"
            text = text % (self.directory, self.journal.error)
            self._say(json.dumps({"failing": text}))
        elif self.failing and not failed:
            self._say(json.dumps({"recovered": True}))
        self.failing = failed


class Launcher(Worker):
    """The loop. One thread; nothing in it blocks but the wait for news."""

    def __init__(self, config: "Dict[str, Any]") -> None:
        directory = os.path.realpath(config["directory"])
        for name in ("attempts", "files", "exits"):
            os.makedirs(directory + "/" + name, exist_ok=True)
        Worker.__init__(self, directory, config, Journal(directory + "/exits"))
        self.history = History(directory + "/exits", self.journal)
        self.offsets = {}  # type: Dict[str, int]
        self.channel = Channel(self.poller)
        self.contested = []  # type: List[str]
        self.watched = {}  # type: Dict[str, Watch]
        self.watch_due = 0.0
        self.watch_interval_s = 0.01
        self.stopping = False

    def run(self) -> None:
        self.channel.say(json.dumps({"hello": PROTOCOL, "pid": os.getpid(), "host": self.host}))
        self.channel.send()
        self._adopt()
        ended = collections.deque()  # type: collections.deque[Tuple[Attempt, int, Any, float]]
        while ended or not self._is_done():
            for fd, _ in self.poller.poll(0 if ended else self._timeout_ms()):
                if fd == self.wake:
                    ended.extend(self._wake())
                elif fd == 0:
                    self._receive()
            self._fire_timers()
            # Slots are filled before the outputs of the last tasks are looked at.
            self._start_queued()
            # Nor at one while another slot is free, unless they come faster than they are done.
            while ended:
                self._settle(*ended.popleft())
                if len(ended) <= self.slots.all_cores:
                    break
            if self.contested:
                self._contest()
            if self.watched and time.monotonic() >= self.watch_due:
                self._look_around()
            self._flush()
        self._write_all()
        self.starter.close()
        self.channel.drain()

    def _is_done(self) -> bool:
        if self.running or self.failing:
            return False
        return self.stopping and not self.queue and not self.ended

    def _timeout_ms(self) -> "Optional[int]":
        due = self._due()
        if self.watched:
            due.append(self.watch_due)
        if not due:
            return None
        return max(0, int((min(due) - time.monotonic()) * 1000) + 1)

    # -- what comes in

    def _receive(self) -> None:
        self._hear(self.channel.receive())
        if not self.channel.is_open:
            self._stop()

    def _handle(self, message: "Dict[str, Any]") -> None:
        if "run" in message:
            self._queue(message["run"])
        elif "cancel" in message:
            for key in message["cancel"]:
                self._cancel(key, bool(message.get("queued_only")))
        elif "find" in message:
            found = self._find(message["find"])
            self.channel.say(json.dumps({"found": found, "id": message["id"]}))
            self.channel.send()
        elif "clean" in message:
            self._clean()
            self.channel.say(json.dumps({"cleaned": True}))
            self.channel.send()
        elif "stop" in message:
            self._stop()
        else:
            raise ValueError("unknown message")

    def _queue(self, requests: "List[Request]") -> None:
        fresh = []
        for request in requests:
            key = request["key"]
            if key in self.watched:
                self.watched[key].asked = True
            elif key not in self.queue and key not in self.keys and not self.stopping:
                fresh.append(request)
        self._enqueue(fresh)

    def _cancel(self, key: str, queued_only: bool) -> None:
        if key in self.queue:
            del self.queue[key]
            outcome = {"cause": "cancelled", "message": "was cancelled before it started"}
            self._conclude(key, outcome)
        elif queued_only:
            return
        elif key in self.keys:
            self._end(self.keys[key], "cancelled")
        elif key in self.watched and not self.watched[key].cancelled:
            watch = self.watched[key]
            watch.cancelled = True
            self.serial += 1
            heapq.heappush(self.timers, (time.monotonic() + GRACE_S, self.serial, 0))
            self._signal_watched(watch, signal.SIGTERM)

    def _signal_watched(self, watch: Watch, number: int) -> None:
        started = watch.trace.started
        if started is not None and is_running(started[1], started[2]):
            signal_group(started[1], number)
            signal_group(started[1], signal.SIGCONT)

    def _stop(self) -> None:
        """Drop what is queued, as if it had never been here; running tasks go on."""
        self.stopping = True
        if self.queue:
            self.journal.add(json.dumps({"dropped": list(self.queue)}))
            self._write_journal()
            self.queue.clear()

    def _terminate(self) -> None:
        self._stop()
        for attempt in list(self.running.values()):
            if attempt.reason == "lost":
                signal_group(attempt.pid, signal.SIGKILL)
            self._end(attempt, "lost")

    def _clean(self) -> None:
        self.starter.close()
        used = set()  # type: Set[str]
        for attempt in self.keys.values():
            names = [attempt.sandbox] + [log.spare for log in (attempt.out, attempt.err) if log]
            used.update(map(os.path.basename, names))
        doomed = []
        with contextlib.suppress(FileNotFoundError):  # Somebody was quicker.
            for name in os.listdir(self.starter.store):
                remove(self.starter.store + "/" + name)
            for entry in os.scandir(self.starter.attempts):
                spare = entry.name.startswith(".spare-")
                # Those that are watched may be using any.
                elsewhere = bool(self.watched) if spare else entry.name in self.watched
                if elsewhere or entry.name in used:
                    continue
                if spare or entry.is_dir(follow_symlinks=False):
                    doomed.append(entry.path)
        for path in doomed:
            remove(path)

    def _say(self, text: str) -> None:
        self.channel.say(text)

    def _send(self) -> None:
        self.channel.send()

    # -- attempts of other launchers

    def _claimed_elsewhere(self, key: str) -> None:
        self.contested.append(key)

    def _grace_is_over(self) -> None:
        for watch in self.watched.values():
            if watch.cancelled:
                self._signal_watched(watch, signal.SIGKILL)

    def _adopt(self) -> None:
        """What launchers before this one have started and not ended: it occupies slots while it
        runs, and is lost if its launcher is dead."""
        keys = sorted(self.history.unfinished())
        for key, answer in self._trace(keys).items():
            if answer["state"] == "active":
                self.watched[key].asked = False

    def _contest(self) -> None:
        """Somebody else has claimed what was to be started here: tell what became of it."""
        keys, self.contested = self.contested, []
        # At once: another launcher may wait for us to start them, as we might for it.
        self.journal.add(json.dumps({"dropped": keys}))
        self._write_journal()
        for key, answer in self._trace(keys).items():
            if answer["state"] == "ended":
                self._announce(key, answer["outcome"])
            elif answer["state"] == "absent":  # Somebody removed the claim by hand.
                self._conclude(key, {"cause": "lost", "message": "its claim has disappeared"})

    def _find(self, keys: "List[str]") -> "Dict[str, Any]":
        found = {}  # type: Dict[str, Any]
        self._write_all()
        others = []
        for key in keys:
            if key in self.queue or key in self.keys or key in self.contested:
                found[key] = {"state": "active"}
            elif key in self.watched:
                self.watched[key].asked = True
                found[key] = {"state": "active"}
            else:
                others.append(key)
        found.update(self._trace(others))
        return found

    def _trace(self, keys: "List[str]") -> "Dict[str, Any]":
        """Find out about attempts that are not here, and watch those that are elsewhere."""
        if not keys:
            return {}
        # First who lives, then what they wrote: the other way round one that writes its last
        # record and ends in between would be taken for dead without a record.
        living = self.history.living()
        traces = {key: Trace() for key in keys}
        offsets = {}  # type: Dict[str, int]
        self.history.follow(traces, offsets)
        if not self.watched:
            self.offsets = offsets
        answers = {}  # type: Dict[str, Any]
        lost = {}
        for key, trace in traces.items():
            state = self._judge(key, trace, living)
            answers[key] = {"state": state}
            if state == "ended":
                answers[key]["outcome"] = trace.outcome
            elif state == "active":
                watch = self.watched[key] = Watch(trace)
                watch.asked = True
                self._charge(watch)
                self.watch_interval_s = 0.01
                self.watch_due = 0.0
            elif state == "lost":
                lost[key] = trace
        for key, outcome in self._bury(lost).items():
            answers[key] = {"state": "ended", "outcome": outcome}
        return answers

    def _judge(self, key: str, trace: Trace, living: "Set[str]") -> str:
        if trace.outcome is not None:
            return "ended"
        if trace.owner is not None:
            return "active" if trace.owner in living else "lost"
        if not os.path.exists(self.starter.attempts + key + ".out"):
            return "absent"
        return "active" if trace.candidates & living else "lost"

    def _bury(self, lost: "Dict[str, Trace]") -> "Dict[str, Outcome]":
        """Kill what is left of attempts whose launcher died, and record that they are lost."""
        if not lost:
            return {}
        pids = [(trace.started[1], trace.started[2]) for trace in lost.values() if trace.started]
        kill_leftovers(set(lost), pids)
        text = "its launcher died before it could record the end"
        outcome = {"cause": "lost", "message": text, "host": self.host}
        for key in lost:
            self.journal.add(json.dumps({"ended": [[key, outcome]]}))
        self._write_journal()
        return dict.fromkeys(lost, outcome)

    def _charge(self, watch: Watch) -> None:
        if watch.grant is None and watch.trace.started is not None:
            _, _, _, cores, memory, gpus, pins = watch.trace.started
            watch.grant = (cores, memory, gpus, pins)
            self.slots.charge(watch.grant)

    def _look_around(self) -> None:
        """Whether attempts of other launchers have ended; less and less often while none has."""
        living = self.history.living()
        self.history.follow({key: watch.trace for key, watch in self.watched.items()}, self.offsets)
        ends = {}  # type: Dict[str, Outcome]
        lost = {}
        for key, watch in self.watched.items():
            self._charge(watch)
            if watch.asked and not watch.told and watch.trace.started is not None:
                watch.told = True
                self._news()
                self.announced.append(key)
            state = self._judge(key, watch.trace, living)
            if state == "ended" and watch.trace.outcome is not None:
                ends[key] = watch.trace.outcome
            elif state != "active":
                lost[key] = watch.trace
        ends.update(self._bury(lost))
        for key, outcome in ends.items():
            watch = self.watched.pop(key)
            if watch.grant is not None:
                self.slots.give_back(watch.grant)
            if watch.cancelled and outcome["cause"] != "done":
                outcome = dict(outcome, cause="cancelled")
            if watch.asked:
                self._announce(key, outcome)
        self.watch_interval_s = 0.01 if ends else min(1.0, self.watch_interval_s * 1.5)
        self.watch_due = time.monotonic() + self.watch_interval_s
        if ends:
            self._start_queued()


def close_inherited() -> None:
    """Let go of what our parent's parents left open: we, and tasks, may outlive them all, and
    somebody may wait for the end of such a pipe."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own
            if int(name) > 2:
                os.close(int(name))


def main() -> None:
    close_inherited()
    with contextlib.suppress(OSError):  # it leads a session already
        os.setsid()
    try:
        launcher = Launcher(json.loads(sys.argv[1]))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        sys.exit('usage: launcher.py \'{"directory": DIRECTORY, "slots": CORES}\': %r' % error)
    except OSError as error:
        sys.exit("launcher: its directory can't be used: %s" % error)
    # A long queue is a million objects without a cycle: looking through all of them again and
    # again would cost a tenth of the speed.
    gc.set_threshold(20000, 100, 100)
    launcher.run()


if __name__ == "__main__":
    main()
