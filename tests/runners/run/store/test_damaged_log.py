"""Runs whose log is damaged or hostile: every command says so in words, names the file and what to
do, and changes nothing."""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.runners.harness import Job, User, assert_refused, make_workflow
from tests.runners.stored_log import lines_of
from wfrun.engine.errors import WfrunError
from wfrun.engine.events import SCHEMA_VERSION, Settings
from wfrun.runners.inspect.tables.report import summary
from wfrun.runners.inspect.tables.results import RunResults
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.directory.trust import OwnRun
from wfrun.runners.run.prepare.prepare import prepare, this_machine
from wfrun.runners.run.session import Session
from wfrun.runners.run.store import event_store as store
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.runners.run.store.event_store import FILE_NAME

SEED = 13


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is done, whose log has many pages."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    jobs = [Job(f"t{n}", f"echo {n} > out{n}", (), [f"out{n}"], [f"out{n}"]) for n in range(40)]
    session = Session()
    plan = prepare([make_workflow(jobs)], this_machine(), Settings("round-robin", keep="all"))
    session.start(plan, folder, "run")
    assert asyncio.run(session.drive()).ended == "done"
    return folder


def content(folder: Path) -> dict[str, bytes]:
    """All files but the lock, and SQLite's journal, which is empty between commits."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock" and not path.name.endswith("-journal")
    }


def use(folder: Path) -> list[str]:
    """Read and resume a run as the commands do; returns the messages of those that are refused."""
    run, told = RunDir(folder), []

    def show() -> None:
        Console(file=io.StringIO()).print(summary(read_state(run), driven=False))

    def resume() -> None:
        session = Session()
        session.resume(OwnRun(run, "resume"))
        session._store.close()
        session._lock.release()

    commands: list[Callable[[], object]] = [show, lambda: list(RunResults(run).rows()), resume]
    for command in commands:
        before = content(folder)
        try:
            command()
        except WfrunError as error:
            told.append(str(error))
            assert str(folder) in told[-1]
        assert content(folder) == before
    return told


def damaged(whole: Path, folder: Path, damage: Callable[[bytearray], bytes]) -> list[str]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / FILE_NAME).write_bytes(damage(bytearray((whole / FILE_NAME).read_bytes())))
    shutil.copytree(whole / "outputs", folder / "outputs")
    return use(folder)


@pytest.mark.slow
def test_a_log_that_is_cut(whole: Path, tmp_path: Path) -> None:
    """Every cut at a page, and others: SQLite knows how many pages there were. A cut inside of the
    last page can leave all that is read of it."""
    size = (whole / FILE_NAME).stat().st_size
    draw = random.Random(SEED)
    for length in (0, 1, 15, 16, 99, 100, *range(4096, size, 4096),
                   *(draw.randrange(size) for _ in range(10)), size - 1):  # fmt: skip
        told = damaged(whole, tmp_path / "run", lambda data, n=length: bytes(data[:n]))  # type: ignore[misc]
        assert len(told) == 3 or (not told and length > size - 4096), length
        assert all("remove" not in text for text in told), told
        assert all("outputs/" in text for text in told), told


@pytest.mark.slow
def test_pages_of_zeros_and_flipped_bytes(whole: Path, tmp_path: Path) -> None:
    draw = random.Random(SEED)
    size = (whole / FILE_NAME).stat().st_size

    def zeros(start: int) -> Callable[[bytearray], bytes]:
        def damage(data: bytearray) -> bytes:
            data[start : start + 4096] = bytes(4096)
            return bytes(data)

        return damage

    def flips(count: int) -> Callable[[bytearray], bytes]:
        def damage(data: bytearray) -> bytes:
            for _ in range(count):
                data[draw.randrange(size)] = draw.randrange(256)
            return bytes(data)

        return damage

    with closing(sqlite3.connect(whole / FILE_NAME)) as db:
        query = "SELECT rootpage FROM sqlite_master WHERE type = 'index'"
        # Of documents and records by digest: nothing is searched in them.
        indices = {4096 * (page - 1) for (page,) in db.execute(query)}
    for start in range(0, size, 4096):
        assert start in indices or damaged(whole, tmp_path / "run", zeros(start)), start
    for count in (1, 1, 1, 4, 4, 16, 64):
        damaged(whole, tmp_path / "run", flips(count))


def test_what_is_no_file(whole: Path, tmp_path: Path) -> None:
    for name in ("directory", "link", "dangling", "fifo"):
        folder = tmp_path / name
        folder.mkdir()
        log = folder / FILE_NAME
        if name == "directory":
            log.mkdir()
        elif name == "fifo":
            os.mkfifo(log)
        else:
            log.symlink_to(whole / FILE_NAME if name == "link" else folder / "absent")
        told = use(folder)
        assert len(told) == 3, name
        what = {"directory": "a directory", "fifo": "no regular file"}.get(name, "a symbolic link")
        assert all(what in text for text in told), told


def statements() -> Iterator[tuple[str, tuple[object, ...]]]:
    """Changes of a log by a hostile or mistaken hand."""
    event = b'{"event":"%s","at_s":1%s}\n'
    yield "DELETE FROM events WHERE first_seq = 0", ()
    yield "UPDATE events SET version = -1", ()
    yield "UPDATE events SET version = 'x'", ()
    yield "UPDATE events SET version = 99", ()
    yield "UPDATE events SET body = 7 WHERE first_seq > 3", ()
    yield "UPDATE events SET body = zeroblob(3000000) WHERE first_seq > 3", ()
    yield "UPDATE events SET body = ? WHERE first_seq = 0", (b"[" * 100_000,)
    yield "UPDATE events SET body = ? WHERE first_seq = 0", (b"null\n",)
    for kind, rest in (
        (b"workflow-added", b',"workflow":0,"name":"x","digest":"absent"'),
        (b"workflow-added", b',"workflow":9,"name":"x","digest":"absent"'),
        (b"attempt-placed", b',"key":"k","workflow":7,"task":0,"site":0'),
        (b"attempt-placed", b',"key":"k","workflow":0,"task":100000000000,"site":0'),
        (b"attempt-placed", b',"key":"k","workflow":0,"task":0,"site":-9'),
        (b"attempt-placed", b',"key":3,"workflow":"0","task":[],"site":{}'),
        (b"transfer-ended", b',"workflow":0,"file":9999,"source":5,"destination":77,'
         b'"size_bytes":-5,"elapsed_s":-1'),
        (b"site-paused", b',"site":1000,"reason":"x"'),
        (b"cancel-asked", b',"mode":"both"'),
        (b"run-resumed", b',"lost":[[9,9,9]]'),
        (b"run-ended", b',"outcome":"splendid","reason":7'),
    ):  # fmt: skip
        yield ("INSERT INTO events SELECT max(first_seq) + 1, ?, ? FROM events",
               (SCHEMA_VERSION, event % (kind, rest)))  # fmt: skip
    yield "UPDATE documents SET body = ?", (b"\x93\x01",)
    yield "DELETE FROM documents", ()
    yield "DROP TABLE documents", ()
    yield "ALTER TABLE events RENAME TO other", ()
    yield "CREATE VIEW v AS SELECT * FROM events", ()
    yield "CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM events; END", ()


@pytest.mark.cases
@pytest.mark.parametrize("number", range(len(list(statements()))))
def test_hostile_contents(
    whole: Path, tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "ROW_BYTES", 2_000_000)
    statement, values = list(statements())[number]
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(whole / FILE_NAME, folder)
    with closing(sqlite3.connect(folder / FILE_NAME)) as db, db:
        tail = last_event(db)
        db.execute(statement, values)
    if "INSERT" in statement:  # with the right number of the next event
        with closing(sqlite3.connect(folder / FILE_NAME)) as db, db:
            db.execute("UPDATE events SET first_seq = ? WHERE first_seq = "
                       "(SELECT max(first_seq) FROM events)", (tail,))  # fmt: skip
    told = use(folder)
    assert len(told) == 3, told


def last_event(db: sqlite3.Connection) -> int:
    """Number of the event after the last."""
    first, body = db.execute(
        "SELECT first_seq, body FROM events ORDER BY first_seq DESC LIMIT 1"
    ).fetchone()
    count: int = first + len(lines_of(body).splitlines())
    return count


@pytest.mark.slow
def test_other_values_of_events(whole: Path, tmp_path: Path) -> None:
    """Fields of events are replaced by values of other types and sizes, by chance."""
    draw = random.Random(SEED)
    values: list[Any] = [None, -1, 10**30, 1e308, "x" * 1000, [], {}, True, [[1]], "\x00", 2**63]
    folder = tmp_path / "run"
    folder.mkdir()
    for _ in range(60):
        shutil.copy(whole / FILE_NAME, folder)
        with closing(sqlite3.connect(folder / FILE_NAME)) as db, db:
            rows = db.execute("SELECT first_seq, body FROM events").fetchall()
            first, body = draw.choice(rows)
            lines = lines_of(body).splitlines()
            line = draw.randrange(len(lines))
            event = json.loads(lines[line])
            event[draw.choice(list(event))] = draw.choice(values)
            lines[line] = json.dumps(event).encode()
            db.execute("UPDATE events SET body = ? WHERE first_seq = ?",
                       (b"\n".join(lines) + b"\n", first))  # fmt: skip
        use(folder)


def test_the_commands_say_it_in_words(user: User, whole: Path) -> None:
    run = user.folder / "run"
    shutil.copytree(whole, run)
    (run / FILE_NAME).write_bytes((whole / FILE_NAME).read_bytes()[:20000])
    for command in ("status", "resume", "results", "launchers"):
        words = [str(FILE_NAME), "damaged", "Restore it from a backup"]
        assert_refused(user.ask(command, "run"), 2, words)
