"""The event store of a run: one SQLite file, ``events.sqlite`` in the run directory.

A row of ``events`` is one group of events that were committed together, or a part of a large group:
the sequence number of its first event, the schema version, and the events as JSON lines.
``documents`` holds the workflows by digest. The journal is SQLite's rollback journal, because the
write-ahead log does not work on network file systems. Readers may read while an engine writes.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from wfrun.engine.bag import expand
from wfrun.engine.errors import InfeasibleError, InvalidError, TransientError, WfrunError
from wfrun.engine.events import SCHEMA_VERSION, AnyEvent, Event
from wfrun.engine.model import Workflow
from wfrun.runners.run.old_logs import upgraded

FILE_NAME = "events.sqlite"
ROW_EVENTS = 5000
"""Maximum number of events in a row: SQLite and the engine hold copies of a row in memory."""
ROWS_PER_READ = 100
"""Maximum number of rows that a reader fetches at once: it blocks the writer meanwhile."""
LOCK_TIMEOUT_S = 30.0
"""Maximum wait for another process that reads or writes the file, in seconds."""

_SCHEMA = """
BEGIN;
CREATE TABLE IF NOT EXISTS events (
    first_seq INTEGER PRIMARY KEY, version INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS documents (digest TEXT PRIMARY KEY, body BLOB NOT NULL);
COMMIT;
"""


def encode_workflow(workflow: Workflow) -> tuple[str, bytes]:
    """The digest of a workflow, and the workflow as it is stored: of a bag only its template and
    parameters, from which `Store.workflows` expands it."""
    if workflow.bag is not None:
        workflow = msgspec.structs.replace(workflow, tasks=[], files=[], parents=[])
    body = msgspec.msgpack.encode(workflow)
    return hashlib.sha256(body).hexdigest()[:16], body


class Store:
    """The log of one run. ``append`` adds events, ``commit`` makes them durable.

    A file without tables counts as a log without events: an engine is about to create them.

    Opening, reading and writing raise TransientError with the cause (disk full, no permission,
    locked by another process), and InvalidError for a file that is no log or has a newer schema.
    """

    def __init__(self, directory: Path, *, create: bool = False) -> None:
        self.path = directory / FILE_NAME
        if not create and not self.path.exists():
            raise InvalidError(
                f"{directory} is not a run directory: it has no {FILE_NAME}",
                hint="`wfrun list` shows the runs of this folder",
            )
        self._encoder = msgspec.json.Encoder()
        self._pending: list[Event] = []
        self.next_seq = 0
        """Sequence number of the next event to be appended."""
        # "rw": a reader must not create the file again after an engine has removed it.
        address = f"{self.path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
        with self._errors():
            self._db = sqlite3.connect(
                address, uri=True, isolation_level=None, timeout=LOCK_TIMEOUT_S
            )
            if create:
                self._db.executescript(_SCHEMA)
            self._db.execute("PRAGMA journal_mode=TRUNCATE")
            self._db.execute("PRAGMA synchronous=FULL")

    def put_workflows(self, workflows: Iterable[Workflow]) -> list[str]:
        """Store workflows durably. Returns their digests, by which events name them."""
        digests = []
        with self._errors():
            self._db.execute("BEGIN")
            try:
                for workflow in workflows:
                    digest, body = encode_workflow(workflow)
                    self._db.execute(
                        "INSERT OR IGNORE INTO documents VALUES (?, ?)", (digest, body)
                    )
                    digests.append(digest)
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        return digests

    def workflows(self) -> Mapping[str, Workflow]:
        """All stored workflows by digest."""
        decoder = msgspec.msgpack.Decoder(Workflow)
        with self._errors():
            if not self._has_tables():
                return {}
            rows = self._db.execute("SELECT digest, body FROM documents").fetchall()
            workflows = {digest: decoder.decode(body) for digest, body in rows}
            return {digest: w if w.bag is None else expand(w.bag)
                    for digest, w in workflows.items()}  # fmt: skip

    def append(self, events: Sequence[Event]) -> None:
        """Add events to the group that the next commit makes durable."""
        self._pending.extend(events)

    def commit(self) -> None:
        """Write all appended events. Returns when they are durable."""
        if not self._pending:
            return
        with self._errors():
            if len(self._pending) <= ROW_EVENTS:
                self._insert(self.next_seq, self._pending)
            else:
                self._db.execute("BEGIN")
                try:
                    for start in range(0, len(self._pending), ROW_EVENTS):
                        some = self._pending[start : start + ROW_EVENTS]
                        self._insert(self.next_seq + start, some)
                    self._db.execute("COMMIT")
                except sqlite3.Error:
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                    raise
        self.next_seq += len(self._pending)
        self._pending.clear()

    def _insert(self, first_seq: int, events: Sequence[Event]) -> None:
        body = self._encoder.encode_lines(events)
        self._db.execute("INSERT INTO events VALUES (?, ?, ?)", (first_seq, SCHEMA_VERSION, body))

    def load(self) -> Iterator[AnyEvent]:
        """Read all events in order. Later appends continue after the last event read. Raises
        InvalidError for a log of a newer version."""
        decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
        self.next_seq = 0
        while rows := self._rows():
            for first_seq, version, body in rows:
                if version > SCHEMA_VERSION:
                    raise InvalidError(
                        f"the run was written by a newer wfrun (log version {version})",
                        source=str(self.path),
                        hint=f"this wfrun reads up to version {SCHEMA_VERSION}; upgrade it",
                    )
                with self._errors():
                    events = decoder.decode_lines(upgraded(body, version))
                self.next_seq = first_seq + len(events)
                yield from events

    def has_events(self) -> bool:
        """Whether the log has an event, that is, whether the run has started."""
        with self._errors():
            return (
                self._has_tables()
                and self._db.execute("SELECT 1 FROM events LIMIT 1").fetchone() is not None
            )

    def _has_tables(self) -> bool:
        return self._db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None

    def _rows(self) -> list[tuple[int, int, bytes]]:
        """The next rows of the log."""
        with self._errors():
            if not self._has_tables():
                return []
            return self._db.execute(
                "SELECT first_seq, version, body FROM events WHERE first_seq >= ? "
                "ORDER BY first_seq LIMIT ?",
                (self.next_seq, ROWS_PER_READ),
            ).fetchall()

    def close(self) -> None:
        self._db.close()

    def _errors(self) -> _Errors:
        return _Errors(self.path)


class _Errors:
    """Context manager that turns errors of SQLite and msgspec into errors of wfrun that name the
    file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        translated: WfrunError
        if isinstance(error, sqlite3.OperationalError) and not self._path.parent.is_dir():
            translated = InfeasibleError(
                "the run directory was removed during the run",
                source=str(self._path.parent),
            )
        elif isinstance(error, sqlite3.OperationalError):
            translated = TransientError(
                f"the event store cannot be used: {error}",
                source=str(self._path),
                hint="check disk space and permissions, then `wfrun resume`; nothing is lost",
            )
        elif isinstance(error, (sqlite3.DatabaseError, msgspec.DecodeError)):
            translated = InvalidError(
                f"the file is no event store, or is damaged: {error}",
                source=str(self._path),
            )
        else:
            return
        raise translated from error
