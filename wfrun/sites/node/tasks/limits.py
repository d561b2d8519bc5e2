"""The limit on open files, and transient errors."""

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
"""Setbacks: transient errors of the machine or the file system, not caused by the task."""
RETRY_S = 60.0
"""Time in seconds for which ``retried`` repeats a call."""
PAUSE_S = 0.1
"""Time in seconds between the calls of ``retried``."""
MAX_OPEN_FILES = 1 << 17
"""Maximum to which the limit on open files is raised. Each task takes two files, so it suffices for
65,000 tasks on a node."""
RESERVED_FILES = 64
"""Upper bound of a launcher's open files besides the logs of its tasks."""


class OpenFiles:
    """The limit on open files: raised for this process, original for processes that it starts."""

    def __init__(self) -> None:
        self._granted = self._own = resource.getrlimit(resource.RLIMIT_NOFILE)
        """Soft and hard limit: in ``_granted`` the original ones, in ``_own`` the raised ones."""
        self._low: "List[int]" = []
        """Three file descriptors below the original limit, for ``below``."""

    def raise_limit(self) -> None:
        """Raise the soft limit. Start processes between ``lower`` and ``restore``, so that they get
        the original limit: select(2) fails for file descriptors above 1023."""
        hard = self._granted[1]
        wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
        if wanted > self._granted[0] != resource.RLIM_INFINITY:
            with contextlib.suppress(OSError, ValueError):  # the system allows less than it says
                self._low = [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                self._own = wanted, hard

    def below(self, streams: "List[int]") -> "List[int]":
        """Duplicate the file descriptors of three standard streams to numbers below the original
        limit; returns the new numbers. posix_spawn(3) refuses numbers above the limit in force. If
        the limit was not raised, return ``streams``."""
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
    """The maximum number of attempts with open logs (two each), and the maximum number of spare
    logs, both from the limit on open files. The second number is at most ``spare_logs``."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    files = MAX_OPEN_FILES if soft == resource.RLIM_INFINITY else soft
    spare_logs = min(spare_logs, files // 8)
    return max(1, (files - spare_logs - min(RESERVED_FILES, files // 2)) // 2), spare_logs


def is_setback(error: Exception) -> bool:
    """Whether an error is transient and not caused by the task (see SETBACKS)."""
    return isinstance(error, OSError) and error.errno in SETBACKS


def retried(action: "Callable[..., T]", *arguments: object) -> "T":
    """Call ``action``, and repeat the call after setbacks for up to RETRY_S. Returns its result;
    raises its OSError."""
    end_s = time.monotonic() + RETRY_S
    while True:
        try:
            return action(*arguments)
        except OSError as error:
            if not is_setback(error) or time.monotonic() > end_s:
                raise
        time.sleep(PAUSE_S)
