"""Every command that reads a run meets runs in every state: finished, running, killed, damaged, of
other versions and users, on read-only disks. It says what it can, and why no more, and changes
nothing."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.places import ROOT
from tests.runners.harness import Done, Job, User, make_workflow, wait_until
from tests.runners.run.resumes.test_starting import WINDOWS
from tests.runners.run.resumes.test_starting import start as start_held
from tests.runners.run.store.test_old_runs import restore
from wfrun.engine import events as ev
from wfrun.runners.run.directory import run_directory as rundir
from wfrun.runners.run.prepare.prepare import prepare, this_machine
from wfrun.runners.run.session import Session
from wfrun.runners.run.store import checkpoints
from wfrun.runners.run.store import event_store as store
from wfrun.runners.run.store.event_store import FILE_NAME, Store

RUN = "wfrun-runs/run"
READERS = (
    ("status", RUN),
    ("launchers", RUN),
    ("tasks", RUN, "--state", "done", "--state", "queued"),
    ("explain", RUN, "TASK"),
    ("failures", RUN),
    ("stats", RUN),
    ("shares", RUN),
    ("report", RUN),
    ("results", RUN),
    ("events", RUN),
    ("files", RUN),
    ("explain", RUN, "--site", "SITE"),
    ("export", RUN, "--format", "trace", "-o", "trace.csv"),
    ("watch", RUN),
    ("logs", RUN, "TASK"),
)
"""``watch`` ends with the run. ``logs`` is the only one that may connect to sites, and last."""
OTHER_FORMS = (
    ("status", RUN, "--json"),
    ("tasks", RUN, "--json"),
    ("explain", RUN, "TASK", "--json"),
    ("failures", RUN, "--json"),
    ("stats", RUN, "--json"),
    ("shares", RUN, "--json"),
    ("stats", RUN, "--csv"),
    ("events", RUN, "--json"),
    ("files", RUN, "--json"),
    ("explain", RUN, "--site", "SITE", "--json"),
)
CAUTIOUS = (
    ("export", RUN, "--format", "wfformat", "-o", "wfformat.json"),
    ("export", RUN, "--format", "ro-crate", "-o", "crate.zip"),
    ("resume", RUN, "--plan"),
    ("simulate", "--from-run", RUN),
    ("control", RUN, "--pause", "local"),
    ("clean", RUN),
)
"""Commands that may refuse a run that others show. ``clean`` asks before it removes anything."""
NOBODY = 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands do not wait a second for the start of a run."""
    clock = SimpleNamespace(monotonic=itertools.count().__next__, sleep=lambda s: None)
    monkeypatch.setattr(rundir, "time", clock)


def ask(user: User, words: Sequence[str], task: str = "a", site: str = "local") -> Done:
    """Run a command. A defect raises here what a user would see as a traceback."""
    names = {"TASK": task, "SITE": site}
    return user.ask(*(names.get(word, word) for word in words))


def content(folder: Path) -> dict[str, tuple[object, ...]]:
    """All files below a folder, with modes, times and contents."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        body = path.read_bytes() if path.is_file() and os.access(path, os.R_OK) else b""
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_mtime_ns, body)
    return found


def read_only(folder: Path) -> dict[str, tuple[object, ...]]:
    """The content, without what a running engine and its launchers touch every few seconds."""
    found = {name: what for name, what in content(folder).items() if name != "lock"}
    for name, (mode, _, body) in found.items():
        if "/exits/" in name:
            found[name] = (mode, body)
    return found


def check(
    user: User,
    told: str = "",
    *,
    status: int = 2,
    readers: Sequence[Sequence[str]] = READERS,
    task: str = "a",
    site: str = "local",
) -> None:
    """All commands show the run; or they refuse it with one message that has the words ``told``,
    and ``list`` shows it with them. No command changes it."""
    before = read_only(user.folder / "wfrun-runs")
    for words in readers:
        done = ask(user, words, task, site)
        if not told:
            assert (done.status, done.err) == (0, ""), (words, done.text)
            assert done.out, words
        else:
            assert done.status == status, (words, done.text)
            assert told in done.err, (words, done.err)
            assert done.out == "", words
            refused(done)
    for words in CAUTIOUS:
        done = ask(user, words)
        if done.status != 0:
            refused(done)
    listed = user.ask("list", "--json")
    assert listed.status == 0
    records = json.loads(listed.out)
    assert [r["state"] for r in records if r["reason"]] == ["unreadable"] * (
        bool(told) & bool(records)
    )
    assert read_only(user.folder / "wfrun-runs") == before


def refused(done: Done) -> None:
    """One message, of a length that is read."""
    assert done.status in (2, 3), done.text
    assert done.err.count("wfrun: ") + done.err.count("Error: ") == 1, done.err
    assert len(done.err.splitlines()) <= 3, done.err
    assert len(done.err) < 600, done.err


def make_run(folder: Path, jobs: Sequence[Job]) -> None:
    session = Session()
    settings = ev.Settings("round-robin", keep="all", retries=0)
    session.start(prepare([make_workflow(jobs)], this_machine(), settings), folder, "run")
    asyncio.run(session.drive())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that is done, and one that has failed; both have a checkpoint."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "MIN_LAST_EVENTS", 1)
        made = [Job("a", "echo x > f", [], ["f"]), Job("b", "cat f > g", ["f"], ["g"], ["g"])]
        make_run(folder / "done", made)
        make_run(folder / "failed", [Job("a", "exit 3"), Job("b", "true", parents=["a"])])
    return folder


def copied(user: User, run: Path) -> Path:
    shutil.copytree(run, user.folder / RUN, symlinks=True)
    return user.folder / RUN


def sql(*statements: str) -> Callable[[Path], None]:
    """A change of the log."""

    def change(run: Path) -> None:
        with closing(sqlite3.connect(run / FILE_NAME)) as db, db:
            for statement in statements:
                db.execute(statement)

    return change


def without(*names: str) -> Callable[[Path], None]:
    def remove(run: Path) -> None:
        for name in names:
            path = run / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return remove


def replace_by_file(run: Path) -> None:
    shutil.rmtree(run)
    run.touch()


def cut(run: Path) -> None:
    data = (run / FILE_NAME).read_bytes()
    (run / FILE_NAME).write_bytes(data[: len(data) // 2])


def lose_pages(run: Path) -> None:
    """The pages of the last checkpoint, but not those of the events."""
    with closing(sqlite3.connect(run / FILE_NAME)) as db:
        (page,) = db.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'checkpoints'"
        ).fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    with (run / FILE_NAME).open("r+b") as stream:
        stream.seek((page - 1) * size)
        stream.write(b"\xff" * size)


NAMES = (FILE_NAME, f"{FILE_NAME}-journal", "lock", "outputs", "sites")
LAST = "WHERE first_seq = (SELECT max(first_seq) FROM events)"
CUT_RECORD = f"UPDATE events SET body = substr(body, 1, length(body) - 20) {LAST}"
GAP = "DELETE FROM events WHERE first_seq = (SELECT min(first_seq) FROM events WHERE first_seq > 0)"
NO_CHECKPOINT = "DELETE FROM checkpoints"
RUNS: dict[str, tuple[Callable[[Path], object], str]] = {
    "done": (lambda run: None, ""),
    "no lock": (without("lock"), ""),
    "no outputs": (without("outputs"), ""),
    "no sites": (without("sites"), ""),
    "no log": (without(FILE_NAME), "the log of the run cannot be read: it is missing"),
    "nothing at all": (without(*NAMES), "there is no run"),
    "a file": (replace_by_file, "there is no run"),
    "an empty log": (lambda run: (run / FILE_NAME).write_bytes(b""), "empty, but tasks have run"),
    "another file": (lambda run: (run / FILE_NAME).write_text("x\n" * 999), "is damaged"),
    "a log that is cut": (cut, "is damaged"),
    "a cut record": (sql(CUT_RECORD, NO_CHECKPOINT), "is damaged"),
    "a lost group": (sql(GAP, NO_CHECKPOINT), "are missing"),
    "no documents": (sql("DELETE FROM documents", NO_CHECKPOINT), "is missing"),
    "one group": (sql("DELETE FROM events WHERE first_seq > 2", NO_CHECKPOINT), ""),
    "a later version": (sql("UPDATE events SET version = 99", NO_CHECKPOINT), "a newer wfrun"),
    "a checkpoint of zeros": (sql("UPDATE checkpoints SET body = zeroblob(100)"), ""),
    "another checkpoint": (sql("DROP TABLE checkpoints", "CREATE TABLE checkpoints (x)"), ""),
    "lost pages of a checkpoint": (lose_pages, ""),
}  # fmt: skip


OFTEN = ("done", "no log", "a log that is cut", "a later version", "lost pages of a checkpoint")


@pytest.mark.cases
@pytest.mark.parametrize(
    "what", [what if what in OFTEN else pytest.param(what, marks=pytest.mark.slow) for what in RUNS]
)
def test_runs_that_nothing_drives(runs: Path, user: User, what: str) -> None:
    damage, told = RUNS[what]
    damage(copied(user, runs / "done"))
    check(user, told)


@pytest.mark.slow
def test_a_failed_run_and_other_forms(runs: Path, user: User) -> None:
    copied(user, runs / "failed")
    check(user, readers=READERS + OTHER_FORMS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["failed", "workflow-killed"])
def test_runs_of_older_versions(user: User, kind: str) -> None:
    run, (workflow, *_) = restore(user, kind)
    (user.folder / "wfrun-runs").mkdir()
    run.path.rename(user.folder / RUN)
    # Their sites do not exist here, so there is no output.
    check(user, readers=READERS[:-1], task=workflow.tasks[0].id, site="alpha")


@pytest.mark.slow
def test_a_run_while_it_runs_and_after_a_kill(user: User) -> None:
    """Nothing of it is finished."""
    job = Job("a", f"while ! [ -e {user.folder}/go ]; do sleep 0.1; done")
    engine = user.start(user.write([job]), "--run-dir", RUN)
    assert wait_until(lambda: "1 running" in user.ask("status", RUN).out)
    before = read_only(user.folder / RUN)
    lasting = [words for words in READERS if words[0] != "watch"]
    for words in (*lasting, *OTHER_FORMS):
        done = ask(user, words)
        assert (done.status, done.err) == (0, ""), (words, done.text)
    refused(user.ask("clean", RUN, "--yes"))
    after = read_only(user.folder / RUN)
    assert after == before
    engine.kill()
    check(user)
    assert "interrupted" in user.ask("status", RUN).out
    refused(user.ask("cancel", RUN))


@pytest.mark.slow
@pytest.mark.parametrize("window", WINDOWS)
def test_a_run_that_starts(user: User, window: str) -> None:
    engine = start_held(user, WINDOWS[window])
    shown = ("status", "launchers", "watch")  # They show that it is starting; `watch` waits.
    before = read_only(user.folder / RUN)
    for words in (words for words in READERS if words[0] not in shown):
        done = ask(user, words)
        assert done.status == 3, (words, done.text)
        refused(done)
        assert f"is starting, driven by process {engine.pid} on " in done.err
    after = read_only(user.folder / RUN)
    assert after == before
    engine.kill()
    check(user, "the run run was never started")


@pytest.mark.slow
def test_a_log_that_is_being_written(runs: Path, user: User) -> None:
    log = Store(copied(user, runs / "failed"), write=True)
    at_s = max(event.at_s for event in log.load())
    log.close()
    ended = threading.Event()

    def write() -> None:
        own = Store(user.folder / RUN, write=True)
        for _ in own.load():
            pass
        while not ended.wait(0.01):
            own.append([ev.SitePaused(at_s, 0, "x"), ev.SiteReopened(at_s, 0)])
            own.commit()
        own.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for words in READERS:
            done = ask(user, words)
            assert (done.status, done.err) == (0, ""), (words, done.text)
    finally:
        ended.set()
        writer.join()


def test_a_log_that_another_process_holds(
    runs: Path, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copied(user, runs / "done")
    monkeypatch.setattr(store, "LOCK_TIMEOUT_S", 0.0)
    with closing(sqlite3.connect(run / FILE_NAME, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        check(user, "database is locked\n  another process holds it; try again later", status=3)


DYING = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA cache_size = 1")
db.execute("BEGIN")
db.execute("UPDATE events SET body = zeroblob(20000)")
db.execute("CREATE TABLE x (a)")
db.execute("INSERT INTO x VALUES (zeroblob(1000000))")
os._exit(0)
"""
"""An engine that dies while SQLite writes pages to the log."""


@pytest.mark.slow
@pytest.mark.parametrize("is_mended", [True, False])
@as_root
def test_a_disk_that_cannot_be_written(runs: Path, user: User, *, is_mended: bool) -> None:
    run, folder = copied(user, runs / "done"), str(user.folder / "wfrun-runs")
    if not is_mended:
        subprocess.run([sys.executable, "-c", DYING, run / FILE_NAME], check=True)
    mounts = ["mount", "--bind", folder, folder], ["mount", "-o", "remount,ro,bind", folder]
    if any(subprocess.run(words, capture_output=True, check=False).returncode for words in mounts):
        subprocess.run(["umount", folder], capture_output=True, check=False)
        pytest.skip("no file systems may be mounted here")
    try:
        if is_mended:
            check(user)
        else:
            check(user, "an engine ended while it wrote to the log", status=3)
    finally:
        subprocess.run(["umount", folder], check=True)
    # The commit that was not finished is taken back where the log can be written.
    assert "2/2 tasks done" in user.ask("status", RUN).out


AS_NOBODY = f"""
import os, sys
from pathlib import Path
from tests.runners.harness import User
from tests.runners.cli.inspect.test_any_run import NO_ACCESS, READERS, check
base = Path(sys.argv[1])
readers = READERS[:-1]  # `logs` and all that may execute something belong to the owner alone
check(User(base / "readable"), readers=readers)  # imports what another user may not read
for path in (base / "readable").glob("*.*"):
    path.unlink()
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
for name, (*_, told) in NO_ACCESS.items():
    user = User(base / name)
    check(user, told, status=3, readers=readers)
    assert user.ask("logs", "{RUN}", "a").status in (2, 3)
    assert "running" not in user.ask("list").out
"""
NO_ACCESS = {
    "folder": (0o700, 0o600, "run cannot be read: Permission denied\n  it belongs to root"),
    "log": (0o755, 0o600, "events.sqlite cannot be read: Permission denied\n  it belongs to root"),
    "readable": (0o755, 0o644, ""),
}
"""Modes of a run directory and its log; the lock is always the owner's."""


@as_root
@pytest.mark.slow
def test_runs_of_another_user(runs: Path) -> None:
    base = Path(tempfile.mkdtemp())  # Others may not enter those of pytest.
    try:
        base.chmod(0o755)
        for name, (folder, log, _) in NO_ACCESS.items():
            run = base / name / RUN
            shutil.copytree(runs / "done", run)
            run.chmod(folder)
            (run / FILE_NAME).chmod(log)
            (base / name).chmod(0o777)  # for the report
            os.utime(run / "lock", (0, 0))  # Its engine has ended long ago.
        words = [sys.executable, "-c", AS_NOBODY, str(base)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    finally:
        shutil.rmtree(base)


def test_names_that_are_wrong(runs: Path, user: User) -> None:
    copied(user, runs / "done")
    for words in (("explain", RUN, "aa"), ("logs", RUN, "aa")):
        done = user.ask(*words)
        refused(done)
        assert "did you mean a?" in done.err
    for command in ("tasks", "files"):
        done = user.ask(command, RUN, "--site", "locale")
        refused(done)
        assert "local" in done.err.replace("locale", "")
    done = user.ask("status", "wfrun-runs/ruin")
    refused(done)
    assert "the latest runs: run" in done.err
