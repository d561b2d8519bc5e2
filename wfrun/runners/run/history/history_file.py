"""The history file, in which the runs of a user share their measurements.

It is one SQLite file, which several runs may use at once. It only improves predictions, fairness
and choices of links. So a run that cannot use the file warns once, and goes on without it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from wfrun.engine.explain.visible import name_line

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")

VERSION = 1
"""Version of the schema (``PRAGMA user_version``). A file without a version comes from an early
development version. The first write to such a file converts it, and drops its run times because
they have no dates."""
APPLICATION_ID = 0x7766_726E
"""``PRAGMA application_id`` of the file: ``wfrn``."""

_READ_TIMEOUT_S = 2.0
"""Maximum time that a reader waits while another run writes the file, in seconds. The wait delays
the start of a run."""
_WRITE_TIMEOUT_S = 10.0
"""Maximum time that a writer waits while another run writes the file, in seconds."""

_STATEMENTS = (
    """CREATE TABLE classes (
    owner TEXT, application TEXT, cores INTEGER, site TEXT, place TEXT, latest_s REAL,
    observations BLOB, UNIQUE (owner, application, cores, site, place))""",
    "CREATE INDEX classes_by_end ON classes (latest_s)",
    """CREATE TABLE IF NOT EXISTS usage (
    run TEXT, owner TEXT, cpu_s REAL, PRIMARY KEY (run, owner)) WITHOUT ROWID""",
    "ALTER TABLE usage ADD COLUMN ended_s REAL NOT NULL DEFAULT 0",
    """CREATE TABLE IF NOT EXISTS link_copies (
    source TEXT, destination TEXT, at_s REAL, size_bytes INTEGER, value REAL, method TEXT,
    UNIQUE (source, destination, at_s, size_bytes))""",
    "DROP TABLE IF EXISTS run_times",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)
"""Statements that create the tables, or convert a file without a version. Table ``classes``: the
latest run times of each class of tasks at each site (`wfrun.runners.run.history.runtime_history`).
``usage``: the core seconds of each owner in each run. ``link_copies``: each row is a
`wfrun.engine.files.link_samples.LinkSample`; a resumed run writes the copies of its earlier
sessions to the same rows again."""
_NAMES = frozenset({"classes", "classes_by_end", "usage", "link_copies", "run_times"})


class HistoryError(Exception):
    """The file is not a history that this wfrun can use."""


class HistoryFile:
    """The history file of one run or command. After the first failure it is not used again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.has_failed = False

    def read(self, work: Callable[[sqlite3.Connection], _T], default: _T) -> _T:
        """Call ``work``, and return its result. Returns ``default`` if there is no file or it has
        no version, and, with a warning, if the file cannot be read."""
        if self.has_failed:
            return default
        try:
            if not self.path.exists():
                return default
            with closing(_open(self.path, _READ_TIMEOUT_S)) as db:
                return work(db) if _version_of(db) else default
        except (sqlite3.Error, OSError, HistoryError) as error:
            self.fail("read", error)
            return default

    def write(self, work: Callable[[sqlite3.Connection], _T], default: _T) -> _T:
        """Call ``work`` in one transaction, and return its result. Makes the file if it is absent.
        If the file cannot be written, warns, writes nothing and returns ``default``."""
        if self.has_failed:
            return default
        try:
            _make(self.path)
            with closing(_open(self.path, _WRITE_TIMEOUT_S)) as db:
                # Before anything is read: what another run adds in between would be lost.
                db.execute("BEGIN IMMEDIATE")
                if not _version_of(db):
                    for statement in _STATEMENTS:
                        db.execute(statement)
                done = work(db)
                db.execute("COMMIT")
                return done
        except (sqlite3.Error, OSError, HistoryError) as error:
            self.fail("written", error)
            return default

    def fail(self, what: str, error: Exception | str) -> None:
        """Warn that the history cannot be read, written or used, and do not use it from now on."""
        self.has_failed = True
        self.warn(what, f"{error}; going on without it")

    def warn(self, what: str, error: str) -> None:
        """Warn that the history cannot be ``what`` (read, written or used), with the cause
        ``error``."""
        _LOGGER.warning(
            "%s: the history of earlier runs cannot be %s: %s. Name another file with --history, "
            "or do without: --no-history",
            name_line(str(self.path)), what, name_line(error),
        )  # fmt: skip


def history_file(
    given: str | Path | None, *, without: bool = False, own_only: bool = False
) -> HistoryFile | None:
    """Return the history file of a run. ``given`` is the value of ``--history``; None: the user's
    default file. Returns None if ``without`` is set, if ``given`` is ``none``, or if the path is
    not UTF-8, as the log requires.

    ``own_only``: return None also if ``given`` is None. Used for emulated runs, whose times are not
    those of the sites.
    """
    if without or given == "none" or (given is None and own_only):
        return None
    path = state_directory() / "history.sqlite" if given is None else Path(given).absolute()
    file = HistoryFile(path)
    try:
        str(path).encode()
    except UnicodeEncodeError:
        file.fail("used", "its name is not UTF-8")
        return None
    return file


def state_directory() -> Path:
    """The directory of the user's files that belong to no single run, such as the history."""
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(home).expanduser() / "wfrun"


def _make(path: Path) -> None:
    """Make a history file that nobody else can read, if it is absent. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        path.touch(0o600)  # its journal gets the same mode


def _open(path: Path, timeout_s: float) -> sqlite3.Connection:
    """Open an existing file. Raises sqlite3.Error, OSError or HistoryError.

    Readers, too, open the file for writing, because the journal of a run that was killed during a
    write must be rolled back. SQLite opens a read-only file for reading instead.
    """
    if not path.is_file():  # a FIFO would block
        raise HistoryError("it is not a regular file")
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=timeout_s, isolation_level=None
    )
    db.execute("PRAGMA trusted_schema = OFF")
    return db


def _version_of(db: sqlite3.Connection) -> int:
    """Version of the schema; 0 for an empty file or one without a version. Raises HistoryError for
    a later version and for a database of another program."""
    ((application,),) = db.execute("PRAGMA application_id")
    ((version,),) = db.execute("PRAGMA user_version")
    if application == APPLICATION_ID and version > VERSION:
        raise HistoryError(
            f"a later wfrun wrote it (version {version}, and this one reads up to {VERSION})"
        )
    # A view or a trigger could run for ever.
    known = all(
        kind in ("table", "index") and (name in _NAMES or name.startswith("sqlite_"))
        for kind, name in db.execute("SELECT type, name FROM sqlite_master LIMIT 100")
    )
    if not known or application != (APPLICATION_ID if version else 0):
        raise HistoryError("it is a database of another program")
    return int(version)
