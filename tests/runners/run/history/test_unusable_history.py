"""History files that cannot be used: a run goes on without them, and says so once."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.runners.harness import Job, User, assert_refused
from tests.runners.histories import HERE, harvest, remember
from tests.runners.run.history.test_history import read, run
from wfrun.runners.run.history import history_file as module
from wfrun.runners.run.history.history_file import VERSION, HistoryFile
from wfrun.runners.run.history.runtime_history import add_history


def _execute(*statements: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path)) as db, db:
            for statement in statements:
                db.execute(statement)

    return damage


def _overwrite(path: Path) -> None:
    """The pages of the tables, not the header."""
    with path.open("r+b") as stream:
        stream.seek(4096)
        stream.write(os.urandom(path.stat().st_size - 4096))


def _make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _make_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


UNUSABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no database": (lambda path: path.write_text("no database " * 100), "not a database"),
    "damaged": (_overwrite, "malformed"),
    "later": (_execute(f"PRAGMA user_version = {VERSION + 1}"), "a later wfrun wrote it"),
    "foreign": (_execute("PRAGMA application_id = 1"), "a database of another program"),
    "other tables": (_execute("CREATE TABLE urls (id)"), "a database of another program"),
    "trap": (_execute("CREATE VIEW x AS SELECT 1"), "a database of another program"),
    "directory": (_make_directory, "not a regular file"),
    "fifo": (_make_fifo, "not a regular file"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", UNUSABLE)
def test_a_run_goes_on_without_it_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    damage, said = UNUSABLE[kind]
    path = tmp_path / "history.sqlite"
    add_history(HistoryFile(path), harvest([1.0] * 9))
    damage(path)
    before = path.read_bytes() if path.is_file() else b""
    run(tmp_path, "first", history=path)
    (record,) = caplog.records
    assert "cannot be read" in record.getMessage()
    assert said in record.getMessage()
    assert "--no-history" in record.getMessage()
    assert (path.read_bytes() if path.is_file() else b"") == before


@pytest.mark.slow
def test_a_name_that_is_not_utf8(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path, "first", history=tmp_path / "caf\udce9" / "history.sqlite")
    (record,) = caplog.records
    assert "cannot be used: its name is not UTF-8" in record.getMessage()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("caf")] == []


def test_a_user_reads_one_line(user: User) -> None:
    """Also of a file whose name would do something to the terminal."""
    path = user.folder / "his\x1b[2Jtory"
    path.write_text("this is no database, and long enough to be taken for one. " * 20)
    document = user.write([Job("a", "true")])
    done = user.wfrun("run", document, "--history", path)
    assert done.status == 0
    assert done.text.count("history") == 3, "the sentence, and the two options"
    assert "\x1b[2J" not in done.text
    assert "Traceback" not in done.text


@pytest.mark.slow
def test_a_locked_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_READ_TIMEOUT_S", 0.1)
    path = tmp_path / "history.sqlite"
    add_history(HistoryFile(path), harvest([1.0]))
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        run(tmp_path, "first", history=path)
    (record,) = caplog.records
    assert "locked" in record.getMessage()


@pytest.mark.slow
def test_a_file_that_is_locked_at_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WRITE_TIMEOUT_S", 0.1)
    path = tmp_path / "history.sqlite"
    add_history(HistoryFile(path), harvest([1.0]))
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        run(tmp_path, "first", history=path)
    (record,) = caplog.records
    assert "cannot be written" in record.getMessage()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for a few pages."""
    where = tmp_path / "disk"
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(where)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


@pytest.mark.slow
def test_a_full_disk(tmp_path: Path, disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = disk / "history.sqlite"
    add_history(HistoryFile(path), harvest([1.0]))
    with (disk / "rest").open("wb", buffering=0) as rest:
        try:
            while rest.write(bytes(4096)):
                pass
        except OSError:
            pass
    run(tmp_path, "first", history=path)
    (record,) = caplog.records
    assert "cannot be written" in record.getMessage()
    (disk / "rest").unlink()
    (known,) = read(HistoryFile(path)).classes
    assert known.runtimes_s == (1.0,), "nothing of the file is lost"


@pytest.mark.slow
def test_a_read_only_file(tmp_path: Path, disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What it has is used."""
    path = disk / "history.sqlite"
    add_history(HistoryFile(path), harvest([1.0]))
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert read(HistoryFile(path)).classes
    run(tmp_path, "first", history=path)
    (record,) = caplog.records
    assert "cannot be written" in record.getMessage()


def test_the_journal_of_a_killed_run_is_rolled_back(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    add_history(HistoryFile(path), harvest([1.0] * 50))
    writer = f"""
import os, sqlite3
db = sqlite3.connect({str(path)!r}, isolation_level=None)
db.execute("PRAGMA cache_size = 1")
db.execute("BEGIN IMMEDIATE")
db.execute("UPDATE classes SET observations = CAST('[]' AS BLOB)")
for n in range(100):
    db.execute("INSERT INTO usage VALUES (?, 'o', 1.0, 1.0)", (str(n) * 500,))
os._exit(0)
"""
    subprocess.run(["python3", "-c", writer], check=True)
    assert path.with_name("history.sqlite-journal").exists()
    (known,) = read(HistoryFile(path)).classes
    assert known.runtimes_s == (1.0,) * 50


# Hostile rows

ROW = [1e9, 5.0, "r1.0.1.1", None, None]
BODIES = {
    "strings": json.dumps([["1e9", "5", "k", None, None]]),
    "no JSON": "[[",
    "NaN": '[[1e9, NaN, "k", null, null]]',
    "infinite": '[[1e9, 1e999, "k", null, null]]',
    "no list": "{}",
    "short": '[[1e9, 5.0, "k"]]',
    "deep": "[" * 90_000,
    "long": json.dumps([ROW] * 50_000),
}


@pytest.mark.parametrize("kind", BODIES)
def test_a_damaged_class_is_said_once_and_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    file = HistoryFile(tmp_path / "history.sqlite")
    add_history(file, harvest([1.0]))
    add_history(file, harvest([2.0], "other", first=100))
    with closing(sqlite3.connect(file.path)) as db, db:
        change = "UPDATE classes SET observations = ? WHERE application = 'nap'"
        db.execute(change, (BODIES[kind].encode(),))
    assert [c.application for c in read(file).classes] == ["other"]
    (record,) = caplog.records
    assert "1 of its classes are damaged" in record.getMessage()
    add_history(file, harvest([3.0], first=200))
    assert {c.runtimes_s for c in read(file).classes} == {(2.0,), (3.0,)}, "it is replaced"


ABSURD = [
    [1e9, 0.0, "a", None, None], [1e9, -3.0, "b", None, None], [1e9, 1e300, "c", None, None],
    [9e99, 5.0, "d", None, None], [-1.0, 5.0, "e", None, None],
]  # fmt: skip


def test_absurd_rows_of_a_file_are_passed_over(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "history.sqlite")
    add_history(file, harvest([1.0]))
    with closing(sqlite3.connect(file.path)) as db, db:
        body = json.dumps([*ABSURD, ROW, ROW]).encode()
        db.execute("UPDATE classes SET observations = ?", (body,))
        for cores, application in ((-1, "x"), (1.5, "y"), (2**40, "z"), (1, b"\xff"), (1, None)):
            db.execute(
                "INSERT INTO classes VALUES ('ann', ?, ?, 'near', ?, 1.0, ?)",
                (application, cores, HERE, body),
            )
    assert [c.runtimes_s for c in read(file).classes] == [(5.0, 5.0)]
    add_history(file, harvest([2.0], first=1000))
    assert {c.runtimes_s for c in read(file).classes} == {(5.0, 2.0)}, "a key counts once"


def test_names_of_a_file_do_nothing_to_a_terminal(user: User) -> None:
    (user.folder / "list.txt").write_text("true\n")
    remember(user.folder / "history", [1.0], "dock\x1b[2J", site="local")
    assert user.wfrun("run", "list.txt", "--history", "history", "--run-dir", "run").status == 0
    for words in (["events", "run"], ["events", "run", "--json"]):
        out = user.ask(*words).out
        assert "dock" in out
        assert "\x1b" not in out


def test_one_option_or_the_other(user: User) -> None:
    document = user.write([Job("a", "true")])
    for command in ("run", "plan"):
        done = user.ask(command, document, "--history", "history", "--no-history")
        assert_refused(done, 2, ["--history or --no-history"])
