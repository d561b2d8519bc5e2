"""The logs of tasks: files for stdout and stderr."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Callable, List, Tuple

    from wfrun.sites.node.tasks.store import remove, write_all
else:
    from store import remove, write_all

MAX_SPARE_LOGS = 128
"""Maximum number of spare logs. Each is an open file."""
MAX_PACKED_BYTES = 1 << 20
"""Maximum size in bytes of a task's output that is moved to a pack."""
FEW_BYTES = 4096
"""Size in bytes of a read that suffices in most cases."""


class Log:
    """An open file for stdout or stderr of a task. ``spare`` is its temporary path; empty: the file
    has its final name."""

    __slots__ = ("fd", "spare")

    def __init__(self, path: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self.fd = os.open(path, flags, 0o644)
        self.spare = ""

    def close(self) -> None:
        """Close the file, and delete it if it has no final name."""
        os.close(self.fd)
        if self.spare:
            remove(self.spare)


class Logs:
    """The logs of attempts. Files that stay empty, as most do, are reused as spare logs.

    Each new file takes an inode. Parallel file systems allocate inodes slowly; ext4 is about thirty
    times slower than usual if thousands were freed in the last minute. A hard link takes no inode,
    and creating it is as exclusive as creating a file. So if there is a spare log, a claim is a
    link to an empty file, and the log gets its final name by ``show`` or, if not empty, ``retire``.
    """

    def __init__(self, attempts: str) -> None:
        self._attempts = attempts
        self._spares: "List[Log]" = []
        self._empty = ""
        self._made = 0
        # Random, since launchers of other machines, with pids of their own, share the directory.
        self._prefix = "%s.spare-%s-" % (attempts, os.urandom(6).hex())

    def claim(self, name: str, is_known: "Callable[[], bool]") -> Log:
        """Claim an attempt by creating its log ``name``. Raises FileExistsError if the log exists:
        another process, or this one earlier, has claimed the attempt. ``is_known`` returns whether
        it was this one. If not, a log that links to our empty file was made by this call: NFS has
        lost the first reply."""
        path = self._attempts + name
        if self._spares and self._empty:
            try:
                os.link(self._empty, path)
                return self._spares.pop()
            except FileExistsError:
                # NFS may have lost the reply to the first try of a link that it made, and this is
                # the reply to the second. Only this process makes links to its empty file.
                if is_same_file(self._empty, path) and not is_known():
                    return self._spares.pop()
                raise
            except OSError:  # e.g. too many links to the empty file
                self._forget_empty()
        return Log(path)

    def open(self, name: str) -> Log:
        """Open a log for ``name``, a name that no other process uses."""
        return self._spares.pop() if self._spares else Log(self._attempts + name)

    def show(self, log: Log, name: str) -> None:
        """Rename a log to its final name, where it replaces the claim."""
        if log.spare:
            os.rename(log.spare, self._attempts + name)
            log.spare = ""

    def retire(self, log: Log, name: str, limit: int, is_claim: bool) -> None:
        """Keep the log of an ended task as a spare log if it is empty, or close it. At most
        ``limit`` spare logs are kept. No other process may have the log open for writing."""
        keep = False
        try:
            if os.fstat(log.fd).st_size:
                self.show(log, name)
            elif limit:
                if not log.spare:
                    self._hide(log, name, is_claim)
                keep = len(self._spares) < limit
        except OSError:  # e.g. too many links to the empty file
            self._forget_empty()
        if keep:
            self._spares.append(log)
        else:
            log.close()

    def _hide(self, log: Log, name: str, is_claim: bool) -> None:
        """Turn an empty log into a spare log. If it is a claim, a link to the empty file takes its
        name."""
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
        """A new temporary path."""
        self._made += 1
        return self._prefix + str(self._made)

    def _forget_empty(self) -> None:
        if self._empty:
            remove(self._empty)
            self._empty = ""

    def close(self) -> None:
        """Close and remove all spare logs."""
        while self._spares:
            self._spares.pop().close()
        self._forget_empty()


class Pack:
    """One file for the output of many tasks of a launcher, to save inodes."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._fd = -1
        where = os.uname().nodename, os.getpid(), os.urandom(4).hex()
        self._name = "%s-%d-%s.log" % where

    def add(self, key: str, out: "Tuple[Log, int]", err: "Tuple[Log, int]") -> "List[Any]":
        """Append the output of an attempt: stdout and stderr, each as log and number of bytes.
        Returns file name, offset, and both lengths. Raises OSError if it cannot be written; the
        pack is then unchanged."""
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


def is_same_file(path: str, other: str) -> bool:
    """Whether both paths are links to one file; False if one of them does not exist."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def read_log(log: Log, size: int) -> bytes:
    """The first ``size`` bytes of a log, read by a new file descriptor: its own is write-only."""
    if not size:
        return b""
    fd = os.open("/proc/self/fd/%d" % log.fd, os.O_RDONLY)
    try:
        return os.read(fd, size)
    finally:
        os.close(fd)
