"""Errors of a run's log. Distinguishes transient errors from damage of the file."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from wfrun.engine.core.core import Core
from wfrun.engine.errors import InfeasibleError, InvalidError, TransientError, WfrunError
from wfrun.engine.events import AnyEvent
from wfrun.runners.run.directory.access import refuse_unreadable

_PASSING = (
    "disk I/O error",
    "disk is full",
    "is locked",
    "unable to open",
    "readonly database",
    "out of memory",
    "interrupted",
    "locking protocol",
)
"""Parts of SQLite's messages for errors that do not mean damage of the file. Python 3.10 has no
error codes. Source: sqlite3ErrStr, SQLite 3.40."""
_DAMAGED_HINT = (
    "wfrun has changed nothing in it. Restore it from a backup or a snapshot of the file system; "
    "the outputs collected so far are in outputs/"
)


Judge = Callable[[Path, os.stat_result], None]
"""Called with the path and the status of a file. Raises InvalidError if the file belongs to another
user."""


def damaged(path: Path, what: str) -> InvalidError:
    """The error for a log that cannot be used; ``what`` says what is wrong."""
    return InvalidError(
        f"the log of the run cannot be read: {what}", source=str(path), hint=_DAMAGED_HINT
    )


def unfinished(path: Path) -> InfeasibleError:
    """The error for a log whose last commit is unfinished, and which this process may not write.
    SQLite must roll back the commit before it can read."""
    return InfeasibleError(
        "an engine ended while it wrote to the log, which cannot be mended here, as it cannot be "
        "written",
        source=str(path),
        hint="copy the run directory to where you may write, and name the copy",
    )


def check_file(path: Path, judge: Judge | None) -> os.stat_result:
    """Return the status of a log file. Raises InvalidError if it is not a regular file,
    InfeasibleError if this user may not read it, and what ``judge`` raises."""
    # Closing this descriptor releases no lock that SQLite has, as closing one to read would.
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
    finally:
        os.close(fd)
    mode = found.st_mode
    if stat.S_ISLNK(mode):
        raise damaged(path, "it is a symbolic link")
    if not stat.S_ISREG(mode):
        raise damaged(path, "it is a directory" if stat.S_ISDIR(mode) else "it is no regular file")
    if judge is not None:
        judge(path, found)
    refuse_unreadable(path)
    return found


class LogErrors:
    """Context manager that turns errors of SQLite and errors in the content of the file into errors
    of wfrun that name the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, WfrunError):
            return
        translated = self._translated(error)
        if translated is not None:
            raise translated from error

    def _translated(self, error: BaseException) -> WfrunError | None:
        if isinstance(error, sqlite3.OperationalError) and not self._path.parent.is_dir():
            return InfeasibleError(
                "the run directory was removed during the run",
                source=str(self._path.parent),
            )
        if self._passes(error):
            return TransientError(
                f"the event store cannot be used: {error}",
                source=str(self._path),
                hint="another process holds it; try again later"
                if "is locked" in str(error)
                else "check disk space and permissions, then `wfrun resume`; nothing is lost",
            )
        if isinstance(error, sqlite3.IntegrityError):
            return InfeasibleError(
                f"another engine has written to the log: {error}",
                source=str(self._path),
                hint="it drives the run now; see `wfrun status`",
            )
        # msgspec's errors are ValueErrors; the others come from values of unexpected types.
        if isinstance(error, (sqlite3.Error, ValueError, TypeError, LookupError, AttributeError,
                              ArithmeticError, RecursionError, MemoryError)):  # fmt: skip
            text = str(error) or type(error).__name__
            return damaged(self._path, f"it is no event store, or is damaged: {text}")
        return None

    def _passes(self, error: BaseException) -> bool:
        if isinstance(error, sqlite3.OperationalError):
            return any(part in str(error) for part in _PASSING)
        # SQLite says so after EIO, too (SQLITE_IOERR_CORRUPTFS).
        is_malformed = isinstance(error, sqlite3.DatabaseError) and "malformed" in str(error)
        return is_malformed and _is_sound(self._path)


def _is_sound(path: Path) -> bool:
    """Whether SQLite finds no damage in a file; True also if this cannot be determined now."""
    try:
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0)
        try:
            return bool(db.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)])
        finally:
            db.close()
    except sqlite3.OperationalError:
        return True  # it cannot be told now, for instance as the file is locked
    except sqlite3.Error:
        return False


def replay(core: Core, events: Iterable[AnyEvent], path: Path, first: int = 0) -> None:
    """Interpret the events of a log. ``first`` is the number of the first event. Raises
    InvalidError, with the number of the event, if an event contradicts the events before it."""
    number = first - 1
    last: AnyEvent | None = None

    def counted() -> Iterator[AnyEvent]:
        nonlocal number, last
        for number, event in enumerate(events, first):  # noqa: B007 - named in the message
            last = event
            yield event

    try:
        core.replay(counted())
    except WfrunError:
        raise
    except Exception as error:
        kind = None if last is None else last.__struct_config__.tag
        what = f"event {number} ({kind}) does not follow from those before it: {error!r}"
        raise damaged(path, what) from error
