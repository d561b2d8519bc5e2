"""The event store of a run: one SQLite file, ``events.sqlite`` in the run directory.

A row of the table ``events`` is a group of events that were committed together, or a part of a
large group. It has the sequence number of its first event, the schema version, and the events as
JSON lines, packed by `wfrun.runners.run.store.packing`. ``documents`` has the workflows by digest,
and ``document_parts`` the parts of large workflows (`wfrun.runners.run.store.stored_documents`).
``records`` has the identities of the files that the run read on the submit host, and
``checkpoints`` the state after some events (`wfrun.runners.run.store.checkpoints`). The journal is
SQLite's rollback journal, because the write-ahead log does not work on network file systems.
Readers may read while an engine writes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.events import SCHEMA_VERSION, AnyEvent, Event
from wfrun.engine.model import Workflow
from wfrun.engine.tasks.bag import expand
from wfrun.runners.run.store.log_errors import Judge, LogErrors, check_file, damaged, unfinished
from wfrun.runners.run.store.packing import packed, unpacked
from wfrun.runners.run.store.stored_documents import (
    MIN_TASKS,
    divide,
    is_divided,
    on_demand,
    whole,
)

if TYPE_CHECKING:
    from wfrun.runners.run.reuse.identities import Record

FILE_NAME = "events.sqlite"
ROW_EVENTS = 5000
"""Maximum number of events in a row: SQLite and the engine hold copies of a row in memory."""
ROW_BYTES = 256 << 20
"""Maximum size of a row that a reader accepts, packed or unpacked, in bytes. 5,000 events take
about a megabyte."""
ROWS_PER_READ = 100
"""Maximum number of rows that a reader fetches at once, because the writer is blocked during a
fetch."""
LOCK_TIMEOUT_S = 30.0
"""Maximum time to wait for another process that reads or writes the file, in seconds."""

_SCHEMA = """
BEGIN;
CREATE TABLE IF NOT EXISTS events (
    first_seq INTEGER PRIMARY KEY, version INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS documents (digest TEXT PRIMARY KEY, body BLOB NOT NULL);
COMMIT;
"""
_PARTS = "CREATE TABLE IF NOT EXISTS document_parts (digest TEXT PRIMARY KEY, body BLOB NOT NULL)"
_RECORDS = "CREATE TABLE IF NOT EXISTS records (digest TEXT PRIMARY KEY, body BLOB NOT NULL)"
_CHECKPOINTS = (
    "CREATE TABLE IF NOT EXISTS checkpoints "
    "(seq INTEGER PRIMARY KEY, wfrun TEXT NOT NULL, digest TEXT NOT NULL, body BLOB NOT NULL)"
)

_COLUMNS = {
    ("events", "first_seq"),
    ("events", "version"),
    ("events", "body"),
    ("documents", "digest"),
    ("documents", "body"),
}


def encode_workflow(workflow: Workflow) -> tuple[str, bytes]:
    """The digest of a workflow, and its stored form. A bag is stored as its template and
    parameters, from which `Store.workflows` expands it."""
    if workflow.bag is not None:
        workflow = msgspec.structs.replace(workflow, tasks=[], files=[], parents=[])
    body = msgspec.msgpack.encode(workflow)
    return _digest(body), body


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


def digest_of(workflow: Workflow) -> str:
    """The digest by which events name a workflow."""
    if _is_large(workflow):
        return _digest(divide(workflow, _digest))
    return encode_workflow(workflow)[0]


def _is_large(workflow: Workflow) -> bool:
    """Whether a workflow is stored in parts."""
    return workflow.bag is None and len(workflow.tasks) >= MIN_TASKS


class _Documents(dict[str, Workflow]):
    """Workflows by digest. A workflow that joins the run later is read from the log at its first
    lookup."""

    def __init__(self, directory: Path, lazily: bool) -> None:
        super().__init__()
        self._directory, self._lazily = directory, lazily

    def __missing__(self, digest: str) -> Workflow:
        store = Store(self._directory)
        try:
            found = self[digest] = store._workflow(digest, lazily=self._lazily)
        finally:
            store.close()
        return found


def _read_part(directory: Path, digest: str) -> bytes:
    """A part of a document of the run in this directory."""
    store = Store(directory)
    try:
        return store._part(digest)
    finally:
        store.close()


def _is_ours(path: Path) -> bool:
    """Whether this user owns a file and may write it. True also if there is no such file."""
    try:
        return os.stat(path).st_uid == os.geteuid() and os.access(path, os.W_OK)
    except OSError:
        return True


def _is_still(path: Path, found: os.stat_result | None) -> bool:
    """Whether the file with the status ``found`` is still at its path."""
    try:
        return found is not None and os.path.samestat(found, os.lstat(path))
    except OSError:
        return False


class Store:
    """The log of one run. ``append`` adds events, ``commit`` makes them durable.

    A file without tables counts as a log without events, because an engine is about to create them.

    A log that this user does not own, or may not write, is opened read-only, unless ``write`` is
    set.

    Opening, reading and writing raise TransientError with the cause (disk full, no permission,
    locked by another process). They raise InvalidError if the file is not a log, is damaged or has
    a newer schema, and InfeasibleError if another engine has written to the log.
    """

    def __init__(
        self,
        directory: Path,
        *,
        create: bool = False,
        write: bool = False,
        judge: Judge | None = None,
    ) -> None:
        """``judge`` raises InvalidError for a log of another user; None: a log of any user is
        accepted."""
        self.path = directory / FILE_NAME
        if not create and not os.path.lexists(self.path):
            raise InvalidError(
                f"{directory} is not a run directory: it has no {FILE_NAME}",
                hint="`wfrun list` shows the runs of this folder",
            )
        self._encoder = msgspec.json.Encoder()
        self._pending: list[Event] = []
        self.next_seq = 0
        """Sequence number of the next event to be appended or read."""
        self.before_commit: Callable[[], None] | None = None
        """Called before each commit of events or of a checkpoint. An error that it raises prevents
        the commit."""
        self._is_log = False
        """Whether the tables of a log have been found in the file."""
        with self._errors():
            self._db = self._open(create, write or _is_ours(self.path), judge)

    def _open(self, create: bool, write: bool, judge: Judge | None) -> sqlite3.Connection:
        if create:  # SQLite would make it readable for everybody; its journal gets the same mode
            try:
                os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
            except OSError as error:
                raise sqlite3.OperationalError(f"unable to open: {error}") from error
        found = None
        with contextlib.suppress(FileNotFoundError):  # an engine has just removed it
            found = check_file(self.path, judge)
        # Never "rwc": a reader must not create the file again after an engine has removed it.
        address = f"{self.path.absolute().as_uri()}?mode={'rw' if write else 'ro'}"
        db = sqlite3.connect(address, uri=True, isolation_level=None, timeout=LOCK_TIMEOUT_S)
        try:
            if judge is not None and not _is_still(self.path, found):
                raise damaged(self.path, "it was exchanged while it was opened")
            # Whoever wrote the file has no functions called, and damaged pages are noticed.
            db.execute("PRAGMA trusted_schema=OFF")
            db.execute("PRAGMA cell_size_check=ON")
            try:
                self._check_tables(db)
            except sqlite3.OperationalError as error:
                if not write and "readonly database" in str(error):
                    raise unfinished(self.path) from error
                raise
            if create:
                db.executescript(_SCHEMA)
            if write:
                db.execute("PRAGMA journal_mode=TRUNCATE")
                db.execute("PRAGMA synchronous=FULL")
        except BaseException:
            db.close()
            raise
        return db

    def _check_tables(self, db: sqlite3.Connection) -> bool:
        """Whether a database has the tables of a log. False: it has no tables. Raises InvalidError
        for any other database."""
        if not self._is_log:
            found = db.execute("SELECT type, name FROM sqlite_master").fetchall()
            if not found:
                return False
            columns = {
                (table, column[1])
                for table in ("events", "documents")
                for column in db.execute(f"PRAGMA table_info({table})")
            }
            if not columns >= _COLUMNS:
                raise damaged(self.path, "it is a database, but has not the tables of a log")
            if any(kind in ("trigger", "view") for kind, _ in found):
                raise damaged(self.path, "it has triggers or views, which wfrun does not make")
            self._is_log = True
        return True

    def put_workflows(self, workflows: Iterable[Workflow]) -> list[str]:
        """Store workflows durably. Returns their digests, by which events name them."""
        digests = []
        with self._errors():
            self._db.execute("BEGIN")
            try:
                for workflow in workflows:
                    if _is_large(workflow):
                        self._db.execute(_PARTS)
                        body = divide(workflow, self._put_part)
                        digest = _digest(body)
                    else:
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

    def _put_part(self, body: bytes) -> str:
        """Store a part of a document. Returns its digest."""
        digest = _digest(body)
        self._db.execute("INSERT OR IGNORE INTO document_parts VALUES (?, ?)", (digest, body))
        return digest

    def _part(self, digest: str) -> bytes:
        """A part of a document."""
        with self._errors():
            query = "SELECT body FROM document_parts WHERE digest = ?"
            found = self._db.execute(query, (digest,)).fetchone()
            if found is None or _digest(found[0]) != digest:
                raise damaged(self.path, f"the part {digest!r} of a document is damaged")
            return bytes(found[0])

    def workflows(self, *, lazily: bool = False) -> dict[str, Workflow]:
        """All stored workflows by digest. ``lazily``: tasks and files of large workflows are read
        when they are needed, even after the store is closed; errors are raised then. With or
        without ``lazily``, a workflow that joins the run later is read when it is needed."""
        workflows = _Documents(self.path.parent, lazily)
        with self._errors():
            if self._has_tables():
                rows = self._db.execute("SELECT digest, body FROM documents").fetchall()
                for digest, body in rows:
                    workflows[digest] = self._decoded(digest, body, lazily=lazily)
        return workflows

    def _workflow(self, digest: str, *, lazily: bool) -> Workflow:
        """One stored workflow. Raises InvalidError if there is none of this digest."""
        with self._errors():
            query = "SELECT body FROM documents WHERE digest = ?"
            found = self._db.execute(query, (digest,)).fetchone()
            if found is None:
                raise damaged(self.path, f"the document {digest!r} is missing")
            return self._decoded(digest, found[0], lazily=lazily)

    def _decoded(self, digest: str, body: bytes, *, lazily: bool) -> Workflow:
        """The workflow of a stored document."""
        if _digest(body) != digest:
            raise damaged(self.path, f"the document {digest!r} is damaged")
        if is_divided(body):
            if lazily:
                return on_demand(body, partial(_read_part, self.path.parent))
            return whole(body, self._part)
        workflow = msgspec.msgpack.decode(body, type=Workflow)
        return workflow if workflow.bag is None else expand(workflow.bag)

    def put_record(self, record: Record) -> None:
        """Store the record of the files that the run reads on the submit host, durably."""
        with self._errors():
            self._db.execute(_RECORDS)
            body = msgspec.msgpack.encode(record)
            self._db.execute("INSERT INTO records VALUES (?, ?)", (_digest(body), body))

    def record(self) -> Record | None:
        """The record of the files that the run read on the submit host. None if there is no record,
        as in emulated and simulated runs."""
        # It takes the transfer methods with it, which most readers of a log do without.
        from wfrun.runners.run.reuse.identities import Record

        with self._errors():
            if not self._has_table("records"):
                return None
            found = self._db.execute("SELECT digest, body FROM records").fetchone()
            if found is None:
                return None
            if _digest(found[1]) != found[0]:
                raise damaged(self.path, "the record of what the run has read is damaged")
            return msgspec.msgpack.decode(found[1], type=Record)

    def checkpoint_sizes(self) -> list[tuple[int, int]]:
        """(number of events before it, size in bytes) of each stored checkpoint, in ascending order
        of the number."""
        with self._errors():
            if not self._has_table("checkpoints"):
                return []
            query = "SELECT seq, length(body) FROM checkpoints ORDER BY seq"
            return self._db.execute(query).fetchall()

    def put_checkpoint(self, wfrun: str, body: bytes, surplus: Sequence[int] = ()) -> None:
        """Store ``body``, the checkpoint after all events so far. ``wfrun`` identifies the code
        that made it. Removes the ``surplus`` checkpoints, each given by the number of events before
        it."""
        if self.before_commit is not None:
            self.before_commit()
        with self._errors():
            self._db.execute("BEGIN")
            try:
                self._db.execute(_CHECKPOINTS)
                self._db.executemany(
                    "DELETE FROM checkpoints WHERE seq = ?", ((seq,) for seq in surplus)
                )
                row = (self.next_seq, wfrun, _digest(body), body)
                self._db.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?)", row)
                self._db.execute("COMMIT")
            except sqlite3.Error:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def checkpoints(self, wfrun: str, before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield (number of events before it, content) of each checkpoint that the code ``wfrun``
        stored, the latest first. ``before``: only checkpoints after at most this number of events.
        Yields nothing if the file belongs to another user. Skips checkpoints after more events than
        the log has."""
        if not _is_ours(self.path):
            return
        # Damage of a cache is no damage of the log. Errors that concern both, the events show, too.
        with contextlib.suppress(sqlite3.DatabaseError):
            if not self._has_table("checkpoints"):
                return
            rows = self._db.execute(
                "SELECT seq FROM checkpoints WHERE wfrun = ?1 AND length(body) <= ?2 "
                "AND seq <= ?3 ORDER BY seq DESC",
                (wfrun, ROW_BYTES, self._end() if before is None else before),
            ).fetchall()  # fmt: skip
            for (seq,) in rows:
                digest, body = self._db.execute(
                    "SELECT digest, body FROM checkpoints WHERE seq = ?", (seq,)
                ).fetchone() or ("", b"")  # the engine has just removed it
                if type(seq) is int and type(body) is bytes and _digest(body) == digest:
                    yield seq, body

    def _has_table(self, name: str) -> bool:
        query = "SELECT 1 FROM sqlite_master WHERE name = ?"
        return self._db.execute(query, (name,)).fetchone() is not None

    def append(self, events: Sequence[Event]) -> None:
        """Add events to the group that the next commit makes durable."""
        self._pending.extend(events)

    def commit(self) -> None:
        """Write all appended events. Returns when they are durable."""
        if not self._pending:
            return
        if self.before_commit is not None:
            self.before_commit()
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
        body = packed(self._encoder.encode_lines(events))
        self._db.execute("INSERT INTO events VALUES (?, ?, ?)", (first_seq, SCHEMA_VERSION, body))

    def load(self) -> Iterator[AnyEvent]:
        """Read all events in order. Later appends continue after the last event read. Raises
        InvalidError for a log of a newer version."""
        self.next_seq = 0
        yield from self.load_more()

    def load_more(self) -> Iterator[AnyEvent]:
        """Read the events after the last event read, up to the end that the log has when reading
        begins. Later events are left out, because an engine may write faster than a reader
        reads."""
        decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
        last = self._last_row()
        while last is not None and (rows := self._rows(last)):
            for first_seq, version, body in rows:
                if version > SCHEMA_VERSION:
                    raise InvalidError(
                        f"the run was written by a newer wfrun (log version {version})",
                        source=str(self.path),
                        hint=f"this wfrun reads up to version {SCHEMA_VERSION}; upgrade it",
                    )
                if first_seq != self.next_seq:
                    text = f"events {self.next_seq} to {first_seq - 1} are missing"
                    raise damaged(self.path, text)
                with self._errors():
                    events = decoder.decode_lines(unpacked(body, ROW_BYTES))
                self.next_seq = first_seq + len(events)
                yield from events

    def seek(self, seq: int) -> None:
        """Continue reading at the group that contains event number ``seq``, at the last group if
        the log ends before, or at the start of an empty log."""
        with self._errors():
            (first,) = self._db.execute(
                "SELECT max(first_seq) FROM events WHERE first_seq <= ?", (max(0, seq),)
            ).fetchone()
        self.next_seq = first if type(first) is int else 0

    def find(self, wanted: bytes) -> Iterator[tuple[int, AnyEvent]]:
        """Yield (number, event) of each event whose JSON contains the bytes ``wanted``. Does not
        change the position of reading."""
        decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
        with self._errors():
            if not self._has_tables():
                return
            numbers = self._db.execute("SELECT first_seq FROM events ORDER BY first_seq").fetchall()
        for start in range(0, len(numbers), ROWS_PER_READ):
            some = numbers[start : start + ROWS_PER_READ]
            with self._errors():
                rows = self._db.execute(
                    "SELECT first_seq, body FROM events WHERE first_seq BETWEEN ? AND ? "
                    "AND length(body) <= ? ORDER BY first_seq",
                    (*some[0], *some[-1], ROW_BYTES),
                )
                found = [
                    (seq, decoder.decode(line))
                    for first_seq, body in rows
                    if wanted in (lines := unpacked(body, ROW_BYTES))
                    for seq, line in enumerate(lines.splitlines(), first_seq)
                    if wanted in line
                ]
            yield from found

    def before(self, seq: int) -> Iterator[tuple[int, AnyEvent]]:
        """Yield (number, event) of the events before event number ``seq``, the last event first.
        Does not change the position of reading."""
        decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
        while seq > 0:
            with self._errors():
                row = self._db.execute(
                    "SELECT first_seq, body FROM events WHERE first_seq < ? "
                    "ORDER BY first_seq DESC LIMIT 1",
                    (seq,),
                ).fetchone()
                if row is None or len(row[1]) > ROW_BYTES:
                    return
                events = decoder.decode_lines(unpacked(row[1], ROW_BYTES))
            yield from reversed(list(enumerate(events, row[0]))[: seq - row[0]])
            seq = row[0]

    def has_events(self) -> bool:
        """Whether the log has an event, that is, whether the run has started."""
        with self._errors():
            return (
                self._has_tables()
                and self._db.execute("SELECT 1 FROM events LIMIT 1").fetchone() is not None
            )

    def _has_tables(self) -> bool:
        return self._check_tables(self._db)

    def _last_row(self) -> object:
        """Number of the first event of the last row; None: the log has no events."""
        with self._errors():
            if not self._has_tables():
                return None
            return self._db.execute("SELECT max(first_seq) FROM events").fetchone()[0]

    def _end(self) -> int:
        """Number of events in the log, computed from its last row; 0 if that row is damaged."""
        row = self._db.execute(
            "SELECT first_seq, body FROM events WHERE length(body) <= ? "
            "ORDER BY first_seq DESC LIMIT 1", (ROW_BYTES,)
        ).fetchone()  # fmt: skip
        try:
            return 0 if row is None else int(row[0] + unpacked(row[1], ROW_BYTES).count(b"\n"))
        except (ValueError, TypeError, AttributeError):
            return 0

    def _rows(self, last: object) -> list[tuple[int, int, bytes]]:
        """Read the next rows of the log, at most `ROWS_PER_READ`, up to the row ``last``."""
        with self._errors():
            rows = self._db.execute(
                "SELECT first_seq, version, CASE WHEN length(body) <= ? THEN body END FROM events "
                "WHERE first_seq BETWEEN ? AND ? ORDER BY first_seq LIMIT ?",
                (ROW_BYTES, self.next_seq, last, ROWS_PER_READ),
            ).fetchall()
        for first_seq, version, body in rows:
            if not (type(first_seq) is int and type(version) is int and version > 0
                    and type(body) is bytes):  # fmt: skip
                text = f"the row of event {first_seq!r} is damaged, or larger than any event"
                raise damaged(self.path, text)
        return rows

    def close(self) -> None:
        self._db.close()

    def _errors(self) -> LogErrors:
        return LogErrors(self.path)
