"""The index of a user's runs: one file with the paths of the run directories, one per line.

The index serves only to find runs outside the current folder; the run directories are
authoritative. A path without a run, and a line that is no path, are ignored. A run may be missing,
because the index was lost or the run was moved. It is added when it is resumed.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

from wfrun.engine.explain.visible import name_line
from wfrun.parsers.atomic import write_file
from wfrun.runners.run.history.history_file import state_directory

_LOGGER = logging.getLogger(__name__)

MAX_RUNS = 1000
"""Maximum number of paths. A further run removes paths without a directory, and then the oldest
paths, down to half of the maximum. Paths without a directory stay until then, because their file
system may only be unmounted."""
_MAX_BYTES = 8 << 20
"""Maximum size of the index that is read, in bytes: 1,000 paths of maximum length."""


def add_run(run: Path) -> None:
    """Add a run directory to the index. Does nothing if the index cannot be written: then commands
    in other folders find the run only by its path."""
    path, line = state_directory() / "runs", os.fsencode(run.absolute())
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A run that another process adds during a rewrite may be missing until it is resumed: no
        # lock is worth that, since one on a network file system can wait for ever.
        with open(_opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT), "r+b", 0) as file:
            known = file.read(_MAX_BYTES)
            paths = _paths(known)
            if run.absolute() in paths or b"\n" in line:
                return
            if len(paths) < MAX_RUNS:
                is_cut = known and not known.endswith(b"\n")  # by a full disk
                file.write((b"\n" if is_cut else b"") + line + b"\n")
                return
        kept = [known for known in paths if known.is_dir()][-MAX_RUNS // 2 :]
        lines = [os.fsencode(p) + b"\n" for p in (*kept, run.absolute())]
        write_file(path, b"".join(lines), mode=0o600)
    except OSError as error:
        _LOGGER.debug("%s is not in the index of runs: %s", run, error)


def indexed() -> list[Path]:
    """The run directories in the index, including those that no longer have a run."""
    try:
        with open(_opened(state_directory() / "runs", os.O_RDONLY), "rb") as file:
            return _paths(file.read(_MAX_BYTES))
    except OSError:
        return []


def _opened(path: Path, flags: int) -> int:
    """Open the file of the index. Raises OSError, with a warning if other users own or may write
    the file, because its paths could lead to other users' runs."""
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    found = os.fstat(fd)
    is_own = found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if is_own and stat.S_ISREG(found.st_mode):
        return fd
    os.close(fd)
    _LOGGER.warning(
        "%s: the index of runs is not used, because other users own or may write it. Remove it: "
        "wfrun makes it again",
        name_line(str(path)),
    )
    raise PermissionError(f"{path} is not the user's own")


def _paths(content: bytes) -> list[Path]:
    return [Path(os.fsdecode(line)) for line in content.split(b"\n") if line.startswith(b"/")]
