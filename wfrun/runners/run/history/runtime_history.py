"""History across runs: the latest run times of each class of tasks at each site, and the core
seconds that owners have used. `wfrun.runners.run.history.link_history` keeps links in the same file
(`wfrun.runners.run.history.history_file`).

A class keeps the observations with the latest ends, and the file keeps the classes with the latest
ends. Each observation has the key of its attempt. So the content depends only on which observations
were added. Runs may add observations in any order, concurrently and repeatedly: none is lost and
none counts twice.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from typing import NamedTuple

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.capabilities.estimates.observations import (
    MAX_CLASSES,
    MAX_OBSERVATIONS,
    Class,
    Observation,
    Observations,
)
from wfrun.engine.capabilities.usage import Usages
from wfrun.engine.core.state import RunState
from wfrun.engine.model import SiteSpec, Workflow
from wfrun.engine.prediction.job import is_plausible
from wfrun.runners.run.history.history_file import HistoryFile
from wfrun.runners.run.history.link_history import place_of

MAX_READ = 15_000
"""Maximum number of observations that a run reads, so that each predictor is ready in time.
Observations of the applications of the run are read first."""
MAX_USAGES = 20_000
"""Maximum number of rows in the table of core seconds, which has one row per run and owner. The
rows with the latest ends are kept."""
WRITE_INTERVAL_S = 300.0
"""Interval at which a run adds its ended tasks to the history, in seconds. Runs that start during
this run then see these tasks, and a crash delays few observations until the run is resumed."""

_MAX_AHEAD_S = 86_400.0
"""Maximum time by which the end of an observation may be later than now, in seconds. Later ends
come from a wrong clock, and would remain the latest of their class for ever."""
_MAX_BODY_BYTES = 100_000
"""Maximum size of the stored observations of a class, in bytes. Larger content is damaged: an
observation takes some 80 bytes."""
_MAX_CORES = 2**31
_Row = tuple[float, float, str, float | None, float | None]
"""Stored form of an `Observation`."""
_decode = msgspec.json.Decoder(list[_Row], strict=True).decode
_encode = msgspec.json.encode


class StoredClass(NamedTuple):
    """A class of tasks at a place, as the file identifies it. The place is included, because two
    catalogs may give different machines the same name."""

    kind: Class
    place: str
    """User and host of the site (`place_of`)."""


def read_history(
    file: HistoryFile,
    workflows: Sequence[Workflow],
    sites: Sequence[SiteSpec],
    at_s: float,
    *,
    usage: bool = False,
) -> ev.HistoryRead:
    """Read the run times of the workflows' owners at these sites, and with ``usage`` the core
    seconds that these owners used in earlier runs. The event has neither if the file cannot be
    read."""
    owners = sorted({workflow.owner for workflow in workflows})
    applications = set[str]()
    for workflow in workflows:
        if workflow.bag is not None:
            applications.add(workflow.tasks[0].name)
        else:
            applications.update(task.name for task in workflow.tasks)
    places = {site.name: place_of(site) for site in sites}
    used_s: dict[str, float] = {}

    def read(db: sqlite3.Connection) -> tuple[ev.ClassHistory, ...]:
        if usage:
            used_s.update(_read_usage(db, owners))
        rows = _rows_of(db, owners, places, applications)
        damaged = 0
        found: list[ev.ClassHistory] = []
        left = MAX_READ
        for row, kind in rows:
            observations = _read_body(db, row)
            if observations is None:
                damaged += 1
                continue
            latest = observations[-left:]
            left -= len(latest)
            if latest:
                found.append(_event_of(kind, latest))
            if left <= 0:
                break
        if damaged:
            file.warn("read whole", f"{damaged} of its classes are damaged")
        return tuple(found)

    return ev.HistoryRead(at_s, str(file.path), file.read(read, ()), used_s)


def _rows_of(
    db: sqlite3.Connection,
    owners: Sequence[str],
    places: Mapping[str, str],
    applications: set[str],
) -> list[tuple[int, Class]]:
    """(row number, class) of each class of these owners at these places. The classes of
    ``applications`` come first. Within both groups the classes with the latest ends come first."""
    marks = ",".join("?" * len(owners))
    cursor = db.execute(
        "SELECT rowid, owner, application, cores, site, place FROM classes "
        f"WHERE owner IN ({marks}) ORDER BY latest_s DESC LIMIT {MAX_CLASSES}",
        owners,
    )
    found = [
        (row, Class(owner, application, cores, site))
        for row, owner, application, cores, site, place in cursor
        if places.get(site) == place
        and isinstance(application, str)
        and isinstance(cores, int)
        and 0 < cores < _MAX_CORES
    ]
    found.sort(key=lambda one: one[1].application not in applications)
    return found


def _read_body(db: sqlite3.Connection, row: int) -> list[Observation] | None:
    """The observations in a row of ``classes``, the oldest first; None if they are damaged."""
    for (body,) in db.execute(
        "SELECT observations FROM classes WHERE rowid = ? AND length(observations) < ?",
        (row, _MAX_BODY_BYTES),
    ):
        return _observations_of(body)
    return None


def _observations_of(body: object) -> list[Observation] | None:
    """The plausible observations in the stored content of a class, the oldest first. None if no run
    can have written this content."""
    if not isinstance(body, bytes):
        return None
    try:
        rows = _decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    latest_s = time.time() + _MAX_AHEAD_S
    kept = [o for row in rows if _is_sound(o := Observation(*row), latest_s)]
    return _latest(kept)


def _latest(observations: Iterable[Observation]) -> list[Observation]:
    """The `MAX_OBSERVATIONS` latest observations, the oldest first. A class keeps only these."""
    return sorted(observations, key=lambda o: (o.ended_s, o.key))[-MAX_OBSERVATIONS:]


def _is_sound(one: Observation, latest_s: float) -> bool:
    return is_plausible(one.runtime_s) and 0.0 <= one.ended_s <= latest_s


def _event_of(kind: Class, observations: Sequence[Observation]) -> ev.ClassHistory:
    requested_s = tuple(o.requested_s for o in observations)
    input_bytes = tuple(o.input_bytes for o in observations)
    return ev.ClassHistory(
        *kind,
        tuple(o.runtime_s for o in observations),
        tuple(round(o.ended_s, 3) for o in observations),
        requested_s if any(requested_s) else (),
        input_bytes if any(input_bytes) else (),
    )


def _read_usage(db: sqlite3.Connection, owners: Sequence[str]) -> dict[str, float]:
    marks = ",".join("?" * len(owners))
    return {
        owner: cpu_s
        for owner, cpu_s in db.execute(
            f"SELECT owner, sum(cpu_s) FROM usage WHERE owner IN ({marks}) GROUP BY owner", owners
        )
        if isinstance(cpu_s, float) and isfinite(cpu_s) and cpu_s >= 0
    }


class Harvest(NamedTuple):
    """The observations and the core seconds of owners that a run adds to the history."""

    classes: dict[StoredClass, list[Observation]]
    usage: list[tuple[str, str, float, float]]
    """(run, owner, core seconds, time of the run's last event) by owner."""


def harvest_of(state: RunState) -> Harvest:
    """The observations of a run until now at the sites of its catalog, and the core seconds that
    its owners used in ended attempts."""
    places = {site.spec.name: place_of(site.spec) for site in state.sites}
    observed, usages = state.get(Observations).by_class, state.find(Usages)
    used_by = {} if usages is None else usages.by_owner
    return Harvest(
        {
            StoredClass(kind, places[kind.site]): list(latest)
            for kind, latest in observed.items()
            if kind.site in places and _is_text(kind.owner, kind.application, kind.site)
        },
        [
            (state.run_id, owner, used.past_s, state.now_s)
            for owner, used in used_by.items()
            if used.past_s > 0 and _is_text(owner)
        ],
    )


def _is_text(*names: str) -> bool:
    """Whether SQLite can store names, which must be valid UTF-8."""
    with suppress(UnicodeEncodeError):
        "".join(names).encode()
        return True
    return False


def add_history(file: HistoryFile, harvest: Harvest) -> int:
    """Add the observations and the core seconds of a run to the history. Removes the oldest classes
    beyond `MAX_CLASSES` and the oldest rows of core seconds beyond `MAX_USAGES`. Returns the number
    of new observations."""
    if not harvest.classes and not harvest.usage:
        return 0

    def write(db: sqlite3.Connection) -> int:
        added = sum(_merge(db, kind, latest) for kind, latest in harvest.classes.items())
        db.executemany("INSERT OR REPLACE INTO usage VALUES (?, ?, ?, ?)", harvest.usage)
        db.execute(
            "DELETE FROM classes WHERE rowid IN (SELECT rowid FROM classes "
            f"ORDER BY latest_s DESC LIMIT -1 OFFSET {MAX_CLASSES})"
        )
        if harvest.usage:
            db.execute(
                "DELETE FROM usage WHERE (run, owner) IN (SELECT run, owner FROM usage "
                f"ORDER BY ended_s DESC LIMIT -1 OFFSET {MAX_USAGES})"
            )
        return added

    return file.write(write, 0)


def _merge(db: sqlite3.Connection, kind: StoredClass, latest: Iterable[Observation]) -> int:
    """Merge observations into a class. Returns the number of new observations."""
    key = (*kind.kind, kind.place)
    before: list[Observation] = []
    for (body,) in db.execute(
        "SELECT observations FROM classes WHERE owner = ? AND application = ? AND cores = ? "
        "AND site = ? AND place = ? AND length(observations) < ?",
        (*key, _MAX_BODY_BYTES),
    ):
        before = _observations_of(body) or []
    latest_s = time.time() + _MAX_AHEAD_S
    merged = {o.key: o for o in before}
    merged |= {o.key: o for o in latest if _is_sound(o, latest_s)}
    kept = _latest(merged.values())
    known = {o.key for o in before}
    added = sum(o.key not in known for o in kept)
    if added:
        db.execute(
            "INSERT OR REPLACE INTO classes VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*key, kept[-1].ended_s, _encode(kept)),
        )
    return added


async def keep_history(file: HistoryFile, state: RunState) -> None:
    """Add the observations of a run to the history every `WRITE_INTERVAL_S`, until cancelled, or
    until the file cannot be used."""
    while not file.has_failed:
        await asyncio.sleep(WRITE_INTERVAL_S)
        # In a thread: another run may hold the file for some time.
        await asyncio.to_thread(add_history, file, harvest_of(state))
