"""History across runs: the latest run times of each class of tasks, and the CPU time that owners
have used. `wfrun.runners.run.link_history` keeps links in the same file.

One SQLite file for all runs of a user: ``--history FILE``, by default
``$XDG_STATE_HOME/wfrun/history.sqlite`` (``~/.local/state``). The history only improves predictions
and fairness, so a file that cannot be used is a warning, not an error.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from wfrun.engine import events as ev
from wfrun.engine.capabilities.predictions import Predictions
from wfrun.engine.capabilities.usage import Usages
from wfrun.engine.model import Workflow
from wfrun.engine.state import RunState

_LOGGER = logging.getLogger(__name__)

_LOCK_TIMEOUT_S = 10.0
"""Maximum wait for another run that writes the history, in seconds."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS run_times (
    owner TEXT, application TEXT, cores INTEGER, site TEXT, before_s REAL, last_s REAL,
    PRIMARY KEY (owner, application, cores, site)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS usage (
    run TEXT, owner TEXT, cpu_s REAL, PRIMARY KEY (run, owner)) WITHOUT ROWID;
"""
"""``run_times`` has the last run time of each class of tasks at each site and the one before it,
NULL if there was none: the predictor Last2 uses two. ``usage`` has the CPU time of each owner by
run."""


def history_file(given: str | None) -> Path | None:
    """The history file of a run, from the value of ``--history``: the user's file without a value,
    None for ``none``, and for a name that the log cannot hold."""
    if given == "none":
        return None
    if given is not None:
        path = Path(given).absolute()
    else:
        home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        path = Path(home).expanduser() / "wfrun" / "history.sqlite"
    try:
        str(path).encode()
    except UnicodeEncodeError:
        warn(path, "used", "its name is not UTF-8")
        return None
    return path


def read_history(
    path: Path, workflows: Iterable[Workflow], at_s: float, *, usage: bool
) -> ev.HistoryRead:
    """Read the run times of the owners of the workflows, and with ``usage`` their CPU time. Without
    a readable file the event has neither."""
    owners = sorted({workflow.owner for workflow in workflows})
    marks = ",".join("?" * len(owners))
    classes: list[ev.ClassHistory] = []
    used_s: dict[str, float] = {}
    try:
        if path.exists():
            with closing(connect(path)) as db:
                rows = db.execute(
                    "SELECT owner, application, cores, site, before_s, last_s FROM run_times "
                    f"WHERE owner IN ({marks})",
                    owners,
                )
                for owner, application, cores, site, before_s, last_s in rows:
                    runtimes_s = (last_s,) if before_s is None else (before_s, last_s)
                    classes.append(ev.ClassHistory(owner, application, cores, site, runtimes_s))
                if usage:
                    used_s = dict(
                        db.execute(
                            f"SELECT owner, sum(cpu_s) FROM usage WHERE owner IN ({marks}) "
                            "GROUP BY owner",
                            owners,
                        )
                    )
    except (sqlite3.Error, OSError) as error:
        warn(path, "read", error)
    return ev.HistoryRead(at_s, str(path), tuple(classes), used_s)


def add_history(state: RunState) -> None:
    """Add the run times and usage of a run to the history file that it read. Call it after the end
    of the run."""
    if state.history is None:
        return
    path = Path(state.history)
    run_times, usages = state.get(Predictions).run_times, state.find(Usages)
    classes = []
    for kind, site in run_times.seen:
        *before, last_s = run_times.latest[kind, site]
        classes.append((*kind, site, before[0] if before else None, last_s))
    used_by = {} if usages is None else usages.by_owner
    usage = [(state.run_id, owner, used.past_s) for owner, used in used_by.items()
             if used.past_s > 0]  # fmt: skip
    if not classes and not usage:
        return
    try:
        make_file(path)
        with closing(connect(path)) as db, db:
            db.executemany("INSERT OR REPLACE INTO run_times VALUES (?, ?, ?, ?, ?, ?)", classes)
            db.executemany("INSERT OR REPLACE INTO usage VALUES (?, ?, ?)", usage)
    except (sqlite3.Error, OSError) as error:
        warn(path, "written", error)


def connect(path: Path) -> sqlite3.Connection:
    """Open a history file. Raises sqlite3.Error."""
    db = sqlite3.connect(path, timeout=_LOCK_TIMEOUT_S)
    db.executescript(_SCHEMA)
    return db


def make_file(path: Path) -> None:
    """Make a history file that nobody else can read, if it is absent. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(0o600)  # its journal gets the same mode


def warn(path: Path, what: str, error: Exception | str) -> None:
    """Warn that the history cannot be read, written or used."""
    _LOGGER.warning(
        "%s: the history of earlier runs cannot be %s: %s; name another file with --history, or "
        "do without: --history none",
        path, what, error,
    )  # fmt: skip
