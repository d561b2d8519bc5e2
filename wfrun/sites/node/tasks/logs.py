"""The files for what tasks print."""

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
"""Maximum output of a task that is moved to a pack."""
FEW_BYTES = 4096
"""Size of a read that fits the common case."""


class Log:
    """An open file for stdout or stderr of a task. ``spare`` is its temporary name; empty: it has
    its final name."""

    __slots__ = ("fd", "spare")

    def __init__(self, path: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self.fd = os.open(path, flags, 0o644)
        self.spare = ""

    def close(self) -> None:
        """Close the file, and remove it if it has no final name."""
        os.close(self.fd)
        if self.spare:
            remove(self.spare)


class Logs:
    """The logs of attempts. The files of logs that stay empty, as most do, are used again.

    Creating a file takes an inode. Parallel file systems allocate these slowly, and ext4 about
    thirty times as slowly as usual while thousands were freed within the last minute. A hard link
    takes none and is as exclusive as a creation. So a claim is a link to an empty file, and a log
    gets its final name when it is shown (``show``) or something was printed.
    """

    def __init__(self, attempts: str) -> None:
        self._attempts = attempts
        self._spares: "List[Log]" = []
        self._empty = ""
        self._made = 0
        # Random, since launchers of other machines, with pids of their own, share the directory.
        self._prefix = "%s.spare-%s-" % (attempts, os.urandom(6).hex())

    def claim(self, name: str, is_known: "Callable[[], bool]") -> Log:
        """Create the log of this name, which is the claim of an attempt. Raises FileExistsError if
        the log exists: another process has made the claim, or this one earlier. ``is_known`` tells
        an earlier claim of this process from a creation whose reply NFS has lost."""
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
        """A log for this name, which no other process uses."""
        return self._spares.pop() if self._spares else Log(self._attempts + name)

    def show(self, log: Log, name: str) -> None:
        """Give a log its final name, in place of what has that name (the claim)."""
        if log.spare:
            os.rename(log.spare, self._attempts + name)
            log.spare = ""

    def retire(self, log: Log, name: str, limit: int, is_claim: bool) -> None:
        """Keep the log of a task that has ended as a spare one, or close it. At most ``limit``
        spare logs are kept. No process may have the log open for writing any more."""
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
        """Make an empty log a spare one. If it is a claim, its name is kept as a link to the empty
        file."""
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
        """Append these numbers of bytes of an attempt's stdout and stderr. Returns where they are:
        file name, offset, lengths. Raises OSError if they cannot be written; the pack is then as
        before."""
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
    """Whether both paths are names of one file; False if one of them is gone."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def read_log(log: Log, size: int) -> bytes:
    """The first ``size`` bytes of a log, whose own descriptor is for writing only."""
    if not size:
        return b""
    fd = os.open("/proc/self/fd/%d" % log.fd, os.O_RDONLY)
    try:
        return os.read(fd, size)
    finally:
        os.close(fd)
