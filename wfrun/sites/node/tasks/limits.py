"""The limit on open files, and errors that pass with time."""

import contextlib
import errno
import os
import resource
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List, Tuple, TypeVar

    T = TypeVar("T")

SETBACKS = (
    errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ETXTBSY, errno.ESTALE,
    errno.EIO,
)  # fmt: skip
"""Errors of the machine or the file system that say nothing about a task and pass with time."""
RETRY_S = 60.0
"""Time for which ``retried`` repeats a call."""
PAUSE_S = 0.1
"""Time between its calls."""
MAX_OPEN_FILES = 1 << 17
"""Maximum to which the limit on open files is raised. Each task takes two files, so that it
is enough for 65,000 tasks at a node."""
RESERVED_FILES = 64
"""Open files of a launcher beside the logs of its tasks, generously."""


class OpenFiles:
    """The limit on open files of this process, which is raised, and of those that it starts."""

    def __init__(self) -> None:
        self._granted = self._own = resource.getrlimit(resource.RLIMIT_NOFILE)
        """The soft and the hard limit: as this process was started, and as it uses them."""
        self._low: "List[int]" = []
        """Three descriptors below the original limit, for ``below``."""

    def raise_limit(self) -> None:
        """Raise the soft limit. Processes that start between ``lower`` and ``restore`` get the
        original limit, because programs that use select(2) fail with descriptors above 1023."""
        hard = self._granted[1]
        wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
        if wanted > self._granted[0] != resource.RLIM_INFINITY:
            with contextlib.suppress(OSError, ValueError):  # the system allows less than it says
                self._low = [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                self._own = wanted, hard

    def below(self, streams: "List[int]") -> "List[int]":
        """Duplicates of these three files with numbers below the original limit. While that limit
        is in force, posix_spawn(3) refuses to hand down higher numbers."""
        if self._own == self._granted:
            return streams
        for stream, low in zip(streams, self._low):
            os.dup2(stream, low, inheritable=False)
        return self._low

    def lower(self) -> None:
        """Use the original limit. Files that are open stay open."""
        if self._own != self._granted:
            resource.setrlimit(resource.RLIMIT_NOFILE, self._granted)

    def restore(self) -> None:
        """Use the raised limit again."""
        if self._own != self._granted:
            resource.setrlimit(resource.RLIMIT_NOFILE, self._own)


open_files = OpenFiles()
"""The only instance, since the limit belongs to the process."""


def max_running(spare_logs: int) -> "Tuple[int, int]":
    """Maximum number of attempts whose logs may be open at a time, and maximum number of spare
    logs, by the limit on open files. Each attempt has two logs; ``spare_logs`` is an upper bound of
    the second number."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    files = MAX_OPEN_FILES if soft == resource.RLIM_INFINITY else soft
    spare_logs = min(spare_logs, files // 8)
    return max(1, (files - spare_logs - min(RESERVED_FILES, files // 2)) // 2), spare_logs


def is_setback(error: Exception) -> bool:
    """Whether an error says nothing about the task that it happened to."""
    return isinstance(error, OSError) and error.errno in SETBACKS


def retried(action: "Callable[..., T]", *arguments: object) -> "T":
    """Call ``action``. After a setback wait and call it again, for up to RETRY_S."""
    end_s = time.monotonic() + RETRY_S
    while True:
        try:
            return action(*arguments)
        except OSError as error:
            if not is_setback(error) or time.monotonic() > end_s:
                raise
        time.sleep(PAUSE_S)
