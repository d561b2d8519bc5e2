"""Run directories of other users, and those that others may write: nothing of theirs is executed
without a word of the user. And what other users may read of a run."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runners.harness import Job, User, assert_refused, lines_of, make_workflow
from wfrun.engine.errors import InvalidError
from wfrun.engine.events import Settings
from wfrun.runners.api import resume, status
from wfrun.runners.run.history_file import HistoryFile
from wfrun.runners.run.new_run import NewRun
from wfrun.runners.run.prepare import prepare, this_machine
from wfrun.runners.run.session import Session

OTHER = 65534
"""The user `nobody`."""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")


@pytest.fixture
def failed(user: User) -> Path:
    """The directory of a run of which a task has failed; it succeeds next time."""
    script = f"echo ran >> {user.folder}/record; [ -e {user.folder}/go ]"
    session = Session()
    settings = Settings("round-robin", retries=0)
    plan = prepare([make_workflow([Job("a", script)])], this_machine(), settings)
    session.start(plan, user.folder / "run", "run")
    assert asyncio.run(session.drive()).ended == "failed"
    (user.folder / "go").touch()
    return user.folder / "run"


@as_root
def test_a_run_of_another_user_is_not_driven(user: User, failed: Path) -> None:
    for path in (failed, failed / "events.sqlite"):
        os.chown(path, OTHER, OTHER)
    for command in (["resume", "run"], ["cancel", "run"], ["logs", "run", "a"]):
        done = user.wfrun(*command)
        assert_refused(done, 2, ["belongs to nobody, not to root", "--trust", "sudo -u nobody"])
    with pytest.raises(InvalidError, match="belongs to nobody"):
        resume(failed)
    assert lines_of(user.folder / "record") == ["ran"]
    assert status(failed).failed == 1  # reading executes nothing
    done = user.wfrun("resume", "run", "--trust")
    assert done.status == 0, done.text


@as_root
@pytest.mark.parametrize("name", ["events.sqlite", "events.sqlite-journal", "lock"])
def test_a_file_of_another_user_in_a_run(failed: Path, name: str) -> None:
    """A journal is played back into the log."""
    (failed / name).touch()
    os.chown(failed / name, OTHER, OTHER)
    with pytest.raises(InvalidError, match=f"{name} belongs to nobody"):
        resume(failed)
    assert status(failed).failed == 1


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


def test_modes_inside_a_private_directory_do_not_matter(failed: Path) -> None:
    """As with the umask 002, which old runs were made with."""
    for name in ("events.sqlite", "lock"):
        (failed / name).chmod(0o664)
    assert resume(failed).outcome == "done"


@as_root
@pytest.mark.parametrize(("owner", "mode"), [(OTHER, 0o755), (OTHER, 0o1777), (0, 0o777)])
def test_a_folder_of_runs_that_others_control(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int, mode: int
) -> None:
    """In /tmp anybody can make ./wfrun-runs first, and exchange what is in it."""
    monkeypatch.chdir(tmp_path)
    runs = Path("wfrun-runs")
    runs.mkdir()
    runs.chmod(mode)
    os.chown(runs, owner, owner)
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
