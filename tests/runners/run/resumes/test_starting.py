"""A run between the making of its directory and its first event: every command says that it is
starting, and none that it was never started, as long as its engine lives."""

from __future__ import annotations

import asyncio
import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import wfrun
from tests.runners.harness import Engine, Job, User, lines_of, make_workflow, wait_until
from wfrun.engine import events as ev
from wfrun.engine.errors import InfeasibleError, InvalidError, TransientError
from wfrun.engine.model import Catalog, SiteSpec
from wfrun.runners.run import session
from wfrun.runners.run.directory import lock, new_run
from wfrun.runners.run.directory import run_directory as rundir
from wfrun.runners.run.directory.lock import Lock
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.prepare.prepare import Plan, prepare, this_machine
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.runners.run.store.event_store import Store

BEFORE_LOCK = """
real = new_run.Lock
def held(path):
    hold()
    return real(path)
new_run.Lock = held
"""
BEFORE_STORE = """
real = session.Store
def held(path, **options):
    hold()
    return real(path, **options)
session.Store = held
"""
BEFORE_TABLES = """
real = session.Store
def held(path, **options):
    (path / "events.sqlite").touch()  # as SQLite does before its first transaction
    hold()
    return real(path, **options)
session.Store = held
"""
BEFORE_EVENTS = """
real = session.Session._open
async def held(self, sites, opened):
    hold()
    await real(self, sites, opened)
session.Session._open = held
"""
ENGINE = """
import sys, time
from pathlib import Path
from wfrun.runners.cli.main import main
from wfrun.runners.run import session
from wfrun.runners.run.directory import new_run
def hold():
    Path("held").touch()
    while not Path("go").exists():
        time.sleep(0.01)
{window}
sys.exit(main())
"""
WINDOWS = {
    "lock-without-store": BEFORE_STORE,
    "store-without-tables": BEFORE_TABLES,
    "documents-without-events": BEFORE_EVENTS,
}
every_window = pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)


def start(user: User, window: str) -> Engine:
    """A real engine that stops in a window of its start until the file ``go`` is there."""
    document = user.write([Job("a", f"echo a >> {user.folder / 'record'}")])
    words = [str(document), "--run-dir", "wfrun-runs/run"]
    engine = user.launch([sys.executable, "-c", ENGINE.format(window=window), *words])
    assert wait_until((user.folder / "held").exists), engine.told
    return engine


def go(user: User) -> None:
    (user.folder / "go").touch()


@pytest.mark.slow
@every_window
def test_readers_say_that_it_is_starting(
    user: User, window: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = start(user, window)
    starting = f"the run run is starting, driven by process {engine.pid} on "
    shown: list[tuple[str, ...]] = [("status", "run"), ("status",), ("launchers", "run")]
    for words in shown:
        done = user.ask(*words)
        assert done.status == 0, done.text
        assert starting in done.out
        assert "remove" not in done.text
    listed = user.ask("list")
    assert listed.status == 0
    assert listed.out.splitlines()[1].split() == ["run", "starting"]
    refused = [("results", "run"), ("logs", "run", "a"), ("simulate", "--from-run", "run")]
    for words in refused:
        done = user.ask(*words)
        assert done.status == 3, done.text
        assert starting in done.err
        assert "remove" not in done.text
        assert done.out == ""
    monkeypatch.chdir(user.folder)
    stands = wfrun.status("run")
    assert (stands.outcome, stands.tasks, stands.done, stands.makespan_s) == (None, 0, 0, None)
    with pytest.raises(TransientError, match="is starting, driven by"):
        read_state(RunDir(user.folder / "wfrun-runs" / "run"))
    go(user)
    assert engine.done().status == 0, engine.told
    assert lines_of(user.folder / "record") == ["a"]
    assert "1/1 tasks done" in user.ask("status").out


@pytest.mark.slow
@every_window
def test_resume_leaves_it_to_its_engine(user: User, window: str) -> None:
    engine = start(user, window)
    for run in ("run", "last"):
        done = user.ask("resume", run)
        assert done.status == 2
        assert f"the run run is being driven by process {engine.pid} on " in done.err
        assert "wfrun cancel wfrun-runs/run" in done.err
        assert "remove" not in done.text
    go(user)
    assert engine.done().status == 0, engine.told
    assert lines_of(user.folder / "record") == ["a"]


@pytest.mark.slow
@every_window
def test_a_request_to_cancel_is_honoured_when_it_starts(user: User, window: str) -> None:
    engine = start(user, window)
    done = user.ask("cancel", "run", "--drain")
    assert done.status == 0, done.text
    assert "the run is starting; it stops once its sites are open" in done.out
    go(user)
    ended = engine.done()
    status = user.ask("status").out
    if ended.status == 0:  # the task was started in the same turn as the request was read
        assert "1/1 tasks done" in status
    else:
        assert ended.status == 130, ended.text
        assert "cancelled" in status
        assert user.wfrun("resume").status == 0
    assert lines_of(user.folder / "record") == ["a"]


@pytest.mark.slow
@every_window
def test_never_started_is_a_run_whose_engine_is_gone(user: User, window: str) -> None:
    engine = start(user, window)
    engine.kill()
    for command in ("status", "launchers", "results", "resume"):
        done = user.ask(command, "wfrun-runs/run")
        assert done.status == 2, done.text
        assert "the run run was never started" in done.err
        assert "remove its directory" in done.err
    done = user.ask("cancel", "wfrun-runs/run")
    assert done.status == 2
    assert "never started" in done.err or "is not running" in done.err


@pytest.mark.slow
def test_a_directory_without_a_lock(user: User) -> None:
    """It becomes a run soon, or there is no run: nothing is known of it, so nothing is advised."""
    engine = start(user, BEFORE_LOCK)
    for command in ("status", "resume", "cancel", "results"):
        done = user.ask(command, "wfrun-runs/run")
        assert done.status == 2
        assert "there is no run 'wfrun-runs/run'" in done.err
        assert "remove" not in done.err
    go(user)
    assert engine.done().status == 0, engine.told
    assert user.ask("status", "run").status == 0


class Unstarted:
    """An engine in this process that holds the lock and has made the log; it has no event yet."""

    def __init__(self, folder: Path) -> None:
        self.run = RunDir(folder)
        self._lock = Lock(self.run.lock)
        self._store = Store(folder, create=True)

    def begin_and_end(self) -> None:
        (digest,) = self._store.put_workflows([make_workflow([Job("a", "true")])])
        settings, sites = ev.Settings("round-robin"), (SiteSpec("a", 1),)
        self._store.append(
            [
                ev.RunStarted(0.0, "r", settings, sites, (), 1),
                ev.WorkflowAdded(0.0, 0, "jobs", digest),
            ]
        )
        self._store.commit()
        self.end()

    def end(self) -> None:
        self._store.close()
        self._lock.release()


def at_first_call(
    monkeypatch: pytest.MonkeyPatch, name: str, function: Callable[[], object]
) -> None:
    """Call the function just before ``name`` of the module is called for the first time."""
    real = getattr(rundir, name)

    def call(*args: object) -> object:
        monkeypatch.setattr(rundir, name, real)
        function()
        return real(*args)

    monkeypatch.setattr(rundir, name, call)


def test_a_reader_waits_for_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locks: list[Lock] = []
    at_first_call(monkeypatch, "_pause", lambda: locks.append(Lock(RunDir(tmp_path).lock)))
    assert rundir.find(str(tmp_path)).path == tmp_path
    locks[0].release()


@pytest.mark.parametrize("moment", ["_pause", "is_driven"])
def test_an_engine_that_begins_while_a_reader_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """It has begun, ended and released the lock after the reader has seen a log without events."""
    engine = Unstarted(tmp_path)
    at_first_call(monkeypatch, moment, engine.begin_and_end)
    assert read_state(engine.run).tasks == 1


def test_an_engine_that_ends_while_a_reader_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Unstarted(tmp_path)
    at_first_call(monkeypatch, "_pause", engine.end)
    with pytest.raises(InvalidError, match="was never started"):
        read_state(engine.run)


def test_a_folder_of_something_else_is_no_run(tmp_path: Path) -> None:
    """No message advises to remove it."""
    (tmp_path / "lock").touch()
    (tmp_path / "thesis.tex").touch()
    for read in (lambda: rundir.find(str(tmp_path)), lambda: read_state(RunDir(tmp_path))):
        with pytest.raises(InvalidError, match="there is no run") as caught:
            read()
        assert "remove its directory" not in str(caught.value)


def test_a_reader_does_not_keep_an_engine_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks whether a run is driven takes no lock: an engine need not wait at all."""
    monkeypatch.setattr(lock, "LOCK_WAIT_S", 0.0)
    run = RunDir(tmp_path)
    Lock(run.lock).release()
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            rundir.is_driven(run)

    readers = [threading.Thread(target=ask) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(100):
            Lock(run.lock).release()
    finally:
        ended.set()
        for reader in readers:
            reader.join()


@pytest.mark.slow
def test_two_new_runs_in_one_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one leaves alone what the first has made there since it looked."""
    plan = prepare([make_workflow([Job("a", "true")])], this_machine(), ev.Settings("round-robin"))
    real = new_run._make

    def late(path: Path | None, name: str) -> tuple[Path, bool]:
        made = real(path, name)
        monkeypatch.setattr(new_run, "_make", real)
        first.start(plan, path, name)
        return made

    first, second = session.Session(), session.Session()
    monkeypatch.setattr(new_run, "_make", late)
    with pytest.raises(InvalidError, match="is being driven by"):
        second.start(plan, tmp_path / "run", "run")
    state = asyncio.run(first.drive())
    assert state.ended == "done"
    assert read_state(RunDir(tmp_path / "run")).done == 1


def small_plan() -> Plan:
    return prepare([make_workflow([Job("a", "true")])], this_machine(), ev.Settings("round-robin"))


def test_a_start_without_file_descriptors_leaves_the_log_of_the_winner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loser cannot even open the lock file, so it cannot know whose files there are."""
    real, limits = new_run._make, resource.getrlimit(resource.RLIMIT_NOFILE)

    def late(path: Path | None, name: str) -> tuple[Path, bool]:
        made = real(path, name)
        monkeypatch.setattr(new_run, "_make", real)
        first.start(small_plan(), path, name)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        return made

    first, second = session.Session(), session.Session()
    monkeypatch.setattr(new_run, "_make", late)
    try:
        with pytest.raises(InfeasibleError, match="Too many open files"):
            second.start(small_plan(), tmp_path / "run", "run")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert asyncio.run(first.drive()).ended == "done"
    assert read_state(RunDir(tmp_path / "run")).done == 1


async def test_a_start_that_fails_leaves_the_next_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another engine starts in the directory as soon as the lock is free."""
    (tmp_path / "file").touch()
    nowhere = Catalog((SiteSpec("a", 1, directory=str(tmp_path / "file" / "x")),))
    plan = prepare([make_workflow([Job("a", "true")])], nowhere, ev.Settings("round-robin"))
    first, second = session.Session(), session.Session()
    real = Lock.remove

    def remove(own: Lock) -> None:
        monkeypatch.setattr(Lock, "remove", real)
        real(own)
        second.start(small_plan(), tmp_path / "run", "run")

    first.start(plan, tmp_path / "run", "run")
    monkeypatch.setattr(Lock, "remove", remove)
    with pytest.raises(InfeasibleError, match="cannot be used"):
        await first.drive()
    assert (await second.drive()).ended == "done"
    assert read_state(RunDir(tmp_path / "run")).done == 1
