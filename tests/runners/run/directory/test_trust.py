"""Run directories of other users, and those that others may write: nothing of theirs is executed
without a word of the user. And what other users may read of a run."""

from __future__ import annotations

import asyncio
import os
import shlex
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runners.harness import WFRUN, Job, User, assert_refused, lines_of, make_workflow
from tests.sites.users import MALLORY, as_user, scratch
from wfrun.engine.errors import InvalidError
from wfrun.engine.events import Settings
from wfrun.runners.api import resume, status
from wfrun.runners.inspect.watch.asking import Asking
from wfrun.runners.run.directory.new_run import NewRun
from wfrun.runners.run.directory.run_directory import RunDir, is_driven
from wfrun.runners.run.directory.trust import OwnRun
from wfrun.runners.run.history.history_file import HistoryFile
from wfrun.runners.run.prepare.prepare import prepare, this_machine
from wfrun.runners.run.session import Session
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.runners.run.user_requests import CancelTask

__all__ = ["scratch"]
OTHER = 65534
"""The user `nobody`."""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")


def fail(run: Path, script: str) -> None:
    """Make a run of which a task has failed."""
    session = Session()
    settings = Settings("round-robin", retries=0)
    plan = prepare([make_workflow([Job("a", script)])], this_machine(), settings)
    session.start(plan, run, "run")
    assert asyncio.run(session.drive()).ended == "failed"


@pytest.fixture
def failed(user: User) -> Path:
    """The directory of a run of which a task has failed; it succeeds next time."""
    fail(user.folder / "run", f"echo ran >> {user.folder}/record; [ -e {user.folder}/go ]")
    (user.folder / "go").touch()
    return user.folder / "run"


@pytest.mark.slow
@as_root
def test_a_run_of_another_user_is_not_driven(user: User, failed: Path) -> None:
    for path in (failed, failed / "events.sqlite"):
        os.chown(path, OTHER, OTHER)
    user.write([Job("b", "true")])
    for command in (
        ["resume", "run"],
        ["add", "run", "jobs.dax"],
        ["cancel", "run"],
        ["control", "run", "--cancel", "a"],
        ["clean", "run", "--yes"],
        ["logs", "run", "a"],
    ):
        done = user.wfrun(*command)
        assert_refused(done, 2, ["belongs to nobody, not to root", "--trust", "sudo -u nobody"])
    with pytest.raises(InvalidError, match="belongs to nobody"):
        resume(failed)
    assert lines_of(user.folder / "record") == ["ran"]
    assert status(failed).failed == 1  # reading executes nothing
    done = user.wfrun("resume", "run", "--trust")
    assert done.status == 0, done.text


@pytest.mark.slow
@as_root
@pytest.mark.parametrize("name", ["events.sqlite", "events.sqlite-journal", "lock"])
def test_a_file_of_another_user_in_a_run(failed: Path, name: str) -> None:
    """A journal is played back into the log."""
    (failed / name).touch()
    os.chown(failed / name, OTHER, OTHER)
    with pytest.raises(InvalidError, match=f"{name} belongs to nobody"):
        resume(failed)
    assert status(failed).failed == 1


@pytest.mark.slow
@pytest.mark.parametrize("what", [".", "events.sqlite"])
def test_a_run_that_others_may_write_is_not_driven(failed: Path, what: str) -> None:
    failed.chmod(0o755)
    (failed / what).chmod(0o777 if what == "." else 0o666)
    with pytest.raises(InvalidError, match="other users may write") as caught:
        resume(failed)
    assert "chmod go-w" in str(caught.value)
    assert "--trust" in str(caught.value)
    assert status(failed).failed == 1
    (failed / what).chmod(0o755 if what == "." else 0o644)
    assert resume(failed).outcome == "done"


@pytest.mark.slow
def test_modes_inside_a_private_directory_do_not_matter(failed: Path) -> None:
    """As with the umask 002, which old runs were made with."""
    for name in ("events.sqlite", "lock"):
        (failed / name).chmod(0o664)
    assert resume(failed).outcome == "done"


@pytest.mark.parametrize(
    ("owner", "group", "mode"),
    [(OTHER, OTHER, 0o755), (OTHER, OTHER, 0o1777), (0, 0, 0o777), (0, OTHER, 0o2775)],
)
def test_a_folder_of_runs_that_others_control(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, owner: int, group: int, mode: int
) -> None:
    """In /tmp anybody can make ./wfrun-runs first, and exchange what is in it; in the directory of
    a project its group can."""
    monkeypatch.chdir(scratch)
    runs = Path("wfrun-runs")
    runs.mkdir()
    os.chown(runs, owner, group)
    runs.chmod(mode)
    with pytest.raises(InvalidError, match="exchange the files of the run"):
        NewRun(None, "x")
    assert not list(runs.iterdir())


@as_root
def test_a_given_directory_of_another_user(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o777)
    os.chown(folder, OTHER, OTHER)
    with pytest.raises(InvalidError, match="run belongs to nobody"):
        NewRun(folder, "x")
    assert not list(folder.iterdir())


@as_root
def test_a_folder_of_runs_is_closed_to_the_group(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with the umask 002 in the directory of a project, whose group new files get."""
    project = scratch / "project"
    project.mkdir()
    os.chown(project, 0, OTHER)
    project.chmod(0o2775)
    monkeypatch.chdir(project)
    before = os.umask(0o002)
    try:
        NewRun(None, "x").lock.release()
        NewRun(project / "deep" / "run", "x").lock.release()
        with pytest.raises(InvalidError, match="project can be changed by other users"):
            NewRun(project / "run", "x")
    finally:
        os.umask(before)
    assert mode_of(project / "wfrun-runs") == mode_of(project / "deep") == 0o2755


@pytest.mark.slow
@as_root
def test_watch_asks_nothing_of_a_run_of_another_user(failed: Path) -> None:
    run = RunDir(failed)
    state = read_state(run)
    for owner, is_refused in ((0, False), (OTHER, True)):
        os.chown(failed, owner, owner)
        asking = Asking(run)
        asking.ask(CancelTask(0, 0), state)
        assert asking.line is not None
        assert ("belongs to nobody" in asking.line.plain) is is_refused
        assert not asking.awaits_answer
    assert not run.requests.exists()


@pytest.mark.slow
@as_root
def test_a_path_that_another_user_exchanges(scratch: Path, failed: Path) -> None:
    """It leads to a run of this user's, or to one with commands of theirs, at any moment."""
    theirs, path = scratch / "theirs", scratch / "run"
    fail(theirs, f"echo ran >> {scratch}/stolen; exit 1")
    subprocess.run(["chown", "-R", f"{MALLORY}:{MALLORY}", theirs], check=True)
    (scratch / "stolen").unlink()
    code = (
        f"import ctypes, os; c = ctypes.CDLL(None); os.symlink({str(failed)!r}, {str(path)!r})\n"
        "print(flush=True)\n"
        f"while True: c.renameat2(-100, {str(path).encode()!r}, -100, {str(theirs).encode()!r}, 2)"
    )
    attack = as_user(MALLORY, f"exec python3 -c {shlex.quote(code)}")
    with subprocess.Popen(attack, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            for _ in range(50):
                with pytest.raises(InvalidError, match="a run executes commands"):
                    resume(path)
        finally:
            process.kill()
    assert not (scratch / "stolen").exists()
    assert lines_of(failed.parent / "record") == ["ran"]


@pytest.mark.slow
@as_root
@pytest.mark.parametrize("is_link", [False, True])
def test_a_folder_of_runs_of_another_user(scratch: Path, failed: Path, is_link: bool) -> None:
    """What it calls a run may be one of this user's, elsewhere."""
    runs = scratch / "wfrun-runs"
    if is_link:
        runs.symlink_to(failed.parent)
    else:
        runs.mkdir()
        (runs / "run").symlink_to(failed)
        os.lchown(runs / "run", MALLORY, MALLORY)
    os.lchown(runs, MALLORY, MALLORY)
    commands = ("resume", "cancel", "clean last --yes", "logs last a", "control --cancel a")
    for command in commands:
        done = subprocess.run(
            [WFRUN, *command.split()], cwd=scratch, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2, done.stderr
        assert "other users could exchange wfrun-runs/run" in done.stderr
        assert "--trust" in done.stderr
    assert status(failed).failed == 1
    assert lines_of(failed.parent / "record") == ["ran"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lock", "events.sqlite"])
def test_what_is_opened_is_judged(failed: Path, name: str) -> None:
    """By the lock and the store themselves, however a file came to the path."""
    own = OwnRun(RunDir(failed), "resume")

    def refuse(path: Path, found: os.stat_result) -> None:
        assert os.path.samestat(found, os.lstat(path))
        if path.name == name:
            raise InvalidError(f"{path.name} is refused")

    own.judge = refuse
    with pytest.raises(InvalidError, match=f"{name} is refused"):
        Session().resume(own)
    assert lines_of(failed.parent / "record") == ["ran"]
    assert not is_driven(own)


@pytest.fixture
def loose() -> Iterator[None]:
    """The umask with which everybody may write everything."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("loose")
@pytest.mark.parametrize("exists", [False, True])
def test_modes_of_a_run(tmp_path: Path, exists: bool) -> None:
    """The log and all that a run keeps is the user's; outputs follow the umask."""
    folder, history = tmp_path / "run", tmp_path / "state" / "wfrun" / "history.sqlite"
    if exists:
        folder.mkdir(mode=0o775)
    session = Session(history=HistoryFile(history))
    jobs = [Job("a", "echo x > out; chmod 666 out", (), ["out"], ["out"])]
    settings = Settings("ect", selection="s-t")
    session.start(prepare([make_workflow(jobs)], this_machine(), settings), folder, "run")
    session.run.ask_to_cancel("drain")
    assert mode_of(session.run.cancel_request) == 0o600
    session.run.cancel_request.unlink()
    seen: dict[str, int] = {}

    def note(_: object) -> None:
        seen.update({path.name: mode_of(path) for path in folder.iterdir()})

    session.observers.append(note)
    assert asyncio.run(session.drive()).ended == "done"
    note(None)
    assert mode_of(folder) == (0o755 if exists else 0o700)
    assert seen["events.sqlite"] == seen["events.sqlite-journal"] == seen["lock"] == 0o600
    kept = set(seen) - {"outputs"}
    assert {name for name in kept if seen[name] & 0o077} <= {"sites"}
    assert not any(mode_of(path) & 0o077 for path in (folder / "sites").iterdir())
    assert mode_of(folder / "outputs") == 0o777
    assert mode_of(folder / "sites" / "local") == 0o700
    assert mode_of(history) == 0o600
    assert mode_of(history.parent) == 0o700


@as_root
def test_another_user_reads_only_what_is_shown(user: User, failed: Path) -> None:
    """Once the owner opens the directory, outputs can be read, and nothing else."""
    (failed / "outputs").mkdir(exist_ok=True)
    for path in (failed, *failed.parents):
        if path == Path("/tmp"):
            break
        path.chmod(path.stat().st_mode | 0o011)
    for name, allowed in (("events.sqlite", False), ("lock", False), ("outputs", True)):
        done = subprocess.run(
            ["setpriv", f"--reuid={OTHER}", "--clear-groups", "ls", str(failed / name)]
            if allowed
            else ["setpriv", f"--reuid={OTHER}", "--clear-groups", "cat", str(failed / name)],
            capture_output=True,
            check=False,
        )
        assert (done.returncode == 0) == allowed, done.stderr
