"""The size limit of a task's logs. Of a longer log only the beginning and the end are kept."""

import contextlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Dict, List, Tuple

    from wfrun.sites.node.tasks.store import write_all
else:
    from store import write_all

MAX_END_BYTES = 1 << 20
"""Maximum number of bytes kept at the end of a log. While the task runs, its log is cut only when
it exceeds the limit by the number of kept bytes, so that cuts copy no more than the task prints."""
NOTE = "\n--- wfrun: %d bytes are left out here, by --max-log ---\n"
MAX_NOTE_BYTES = 80
LOOK_S = 0.25
"""Interval in seconds between checks of the logs of running tasks."""
BUSY_LOOK_S = 0.05
"""Interval in seconds to the next check after a check that has cut a log."""
MAX_ROUNDS = 4
"""Maximum number of reads of a log during a cut. Each read but the first gets the data that the
task has written during the previous read."""


class LimitedLog:
    """A log of a running task, which is cut if it exceeds ``limit`` bytes.

    The task may append to the log at any time. So a cut first copies the end over the bytes to
    leave out, then truncates the file. Only bytes written between the last read and the truncation
    are lost without being counted. (Punching a hole would lose nothing, but NFS and other file
    systems of clusters do not support it.)
    """

    def __init__(self, fd: int, limit: int) -> None:
        self._fd = fd
        self._limit = limit
        self._end_bytes = min(MAX_END_BYTES, limit // 2)
        self._start_bytes = limit - self._end_bytes - MAX_NOTE_BYTES
        self._forget()

    def _forget(self) -> None:
        self._size = 0
        """Size of the file after the last cut; 0: not cut yet."""
        self._rest = self._start_bytes
        """Position of the first byte after the kept beginning and the note."""
        self._left_out = 0

    def cut(self, *, has_ended: bool = False) -> bool:
        """Cut the log if it is too long; returns whether it was cut. With ``has_ended`` the limit
        is exact. Raises OSError."""
        size = os.fstat(self._fd).st_size
        if size < self._size:  # the task has emptied it
            self._forget()
        if size <= self._limit + (0 if has_ended else self._end_bytes):
            return False
        # For writing at a position: Linux appends all that is written to a file with O_APPEND.
        fd = os.open("/proc/self/fd/%d" % self._fd, os.O_RDWR)
        try:
            self._cut(fd, size)
        finally:
            os.close(fd)
        return True

    def _cut(self, fd: int, size: int) -> None:
        begin, hole = size - self._end_bytes, 0
        if self._size:
            fresh = data_start(fd, self._size, size)
            if fresh > self._size:  # written without O_APPEND, where the file ended before
                begin, hole = max(begin, fresh), fresh - self._size
        left_out = self._left_out + begin - self._rest - hole
        note = (NOTE % left_out).encode()
        os.lseek(fd, self._start_bytes, os.SEEK_SET)
        write_all(fd, note)
        for _ in range(MAX_ROUNDS):
            write_all(fd, os.pread(fd, size - begin, begin))
            begin, size = size, os.fstat(fd).st_size
            if size - begin <= 0:
                break
        self._size = os.lseek(fd, 0, os.SEEK_CUR)
        os.ftruncate(fd, self._size)
        self._rest = self._start_bytes + len(note)
        self._left_out = left_out


def data_start(fd: int, position: int, size: int) -> int:
    """Position of the first data after a hole that follows ``position`` in a file of ``size``
    bytes. Returns ``position`` if there is no such hole, or the file system does not report it."""
    try:
        hole = os.lseek(fd, position, os.SEEK_HOLE)
        if hole >= size:
            return position
        data = os.lseek(fd, hole, os.SEEK_DATA)
        block = os.pread(fd, os.fstat(fd).st_blksize, data)
    except OSError:
        return position
    return data + len(block) - len(block.lstrip(b"\0"))


class LogLimits:
    """The logs of running attempts that have a limit."""

    def __init__(self) -> None:
        self._logs: "Dict[str, Tuple[LimitedLog, ...]]" = {}

    def add(self, key: str, fds: "List[int]", limit: int) -> None:
        """Limit each of the logs ``fds`` of an attempt to ``limit`` bytes."""
        self._logs[key] = tuple(LimitedLog(fd, limit) for fd in fds)

    def look(self) -> float:
        """Cut the logs that are too long. Returns the time in seconds until the next check; 0.0:
        there are no logs."""
        was_cut = False
        for logs in self._logs.values():
            for log in logs:
                with contextlib.suppress(OSError):  # e.g. a full disk; the next look tries again
                    was_cut |= log.cut()
        return (BUSY_LOOK_S if was_cut else LOOK_S) if self._logs else 0.0

    def end(self, key: str) -> None:
        """Cut the logs of an attempt that has ended to their limit, and forget them."""
        for log in self._logs.pop(key, ()):
            with contextlib.suppress(OSError):
                log.cut(has_ended=True)
