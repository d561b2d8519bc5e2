"""Private directories for sockets. The next process removes the directory of a killed process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "wfs-"


class SocketDirectory:
    """A directory for one socket, which only the user can enter. The process that uses the
    directory holds a lock on it. An unlocked directory was left by a killed process; the next
    process removes it."""

    def __init__(self, parent: Path) -> None:
        _remove_abandoned(parent)
        self._path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        self._lock = _lock(self._path)

    @property
    def socket(self) -> str:
        return f"{self._path}/s"

    def remove(self) -> None:
        shutil.rmtree(self._path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _remove_abandoned(parent: Path) -> None:
    for path in parent.glob(f"{_PREFIX}*/s"):  # without a socket it may not be locked yet
        lock = _lock(path.parent)
        if lock is not None:
            shutil.rmtree(path.parent, ignore_errors=True)
            os.close(lock)


def _lock(directory: Path) -> int | None:
    """Lock a directory. Returns the descriptor that holds the lock; None if another process holds
    it, or if the file system, such as NFS, has no locks."""
    with contextlib.suppress(OSError):
        file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise
        return file
    return None
