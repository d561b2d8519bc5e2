"""What tasks print."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, List, Tuple

    from wfrun.sites.node.store import remove, write_all
else:
    from store import remove, write_all

MOST_SPARE_LOGS = 128
"""They are open, and a process has a thousand files at most, two for each task that runs."""
PACK_BYTES = 1 << 20
"""What a task printed is packed if it is no more than this."""
FEW_BYTES = 4096


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
        self._spares: "List[Log]" = []
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
