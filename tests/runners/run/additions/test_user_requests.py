"""Requests of the user to a running engine: ``wfrun control``, and the files that it writes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.engine.explain.test_idleness import ALPHA, tasks
from tests.engine.explain.test_idleness import Run as Idle
from tests.runners.harness import Engine, User, lines_of, wait_until
from tests.runners.run.resumes.test_interrupt import go, waiting
from wfrun.engine import events as ev
from wfrun.engine.errors import InvalidError
from wfrun.engine.exchange import Outcome
from wfrun.runners.run import user_requests as ur
from wfrun.runners.run.directory.lock import Lock
from wfrun.runners.run.directory.run_directory import RunDir

TWO_SITES = "sites:\n  alpha: {slots: 1}\n  beta: {slots: 1}\n"


def begin(user: User, tasks: int) -> Engine:
    """Start a run, and wait until both of its slots are taken."""
    document = user.write(waiting(user.folder, tasks), "jobs.dax")
    catalog = user.catalog(TWO_SITES)
    engine = user.start(
        document, "--sites", catalog, "--run-dir", "run", "--policy", "round-robin",
        "--throttle", "2",
    )  # fmt: skip
    assert wait_until(lambda: engine.ended or len(lines_of(user.folder / "begun")) == 2)
    assert not engine.ended, engine.told
    return engine


def control(user: User, *words: str) -> str:
    done = user.ask("control", "run", *words)
    assert done.status == 0, done.text
    return done.out


def refused(user: User, *words: str) -> str:
    done = user.ask("control", "run", *words)
    assert done.status == 2, done.text
    return done.err


def events(user: User) -> list[dict[str, object]]:
    return [json.loads(line) for line in user.ask("events", "run", "--json").out.splitlines()]


def sites_of(user: User) -> dict[object, object]:
    """The site of each task that is done."""
    found = events(user)
    placed = {e["key"]: e for e in found if e["event"] == "attempt-placed"}
    ended = [e for e in found if e["event"] == "attempt-ended"]
    done = [e["key"] for e in ended if e["outcome"]["cause"] == "done"]  # type: ignore[index]
    return {placed[key]["task"]: placed[key]["site"] for key in done}


def test_a_pause_outlives_the_engine_and_running_tasks_go_on(user: User) -> None:
    engine = begin(user, 6)
    there = control(user, "--pause", "beta")
    assert there == "site beta gets no more tasks; those that run there go on\n"
    assert not list((user.folder / "run" / "requests").iterdir())
    assert "beta: paused by the user" in user.ask("status", "run").out
    engine.kill()
    go(user)
    done = user.wfrun("resume", "run")
    assert done.status == 0, done.text
    assert "paused by the user" in done.text
    places = sites_of(user)
    assert len(places) == 6
    assert list(places.values()).count(1) == 1  # the task that ran there
    assert sorted(lines_of(user.folder / "record")) == [f"t{n}" for n in range(6)]


@pytest.mark.slow
def test_a_site_is_freed_again(user: User) -> None:
    engine = begin(user, 6)
    control(user, "--pause", "alpha", "--pause", "beta")
    assert "site alpha is paused by the user" in refused(user, "--pause", "alpha")
    assert control(user, "--free", "alpha") == "site alpha gets tasks again\n"
    go(user)
    assert wait_until(lambda: len(lines_of(user.folder / "record")) == 6)
    assert engine.done().status == 0


def test_a_cancelled_task_ends_and_what_follows_is_blocked(user: User) -> None:
    jobs = waiting(user.folder, 2)
    after = jobs[0]._replace(id="after", inputs=["t0.txt"], outputs=(), collect=())
    document = user.write([*jobs, after], "jobs.dax")
    engine = user.start(document, "--sites", user.catalog(TWO_SITES), "--run-dir", "run")
    assert wait_until(lambda: engine.ended or len(lines_of(user.folder / "begun")) == 2)
    told = control(user, "--cancel", "t0")
    assert told == "task t0 is cancelled, and what depends on it is blocked\n"
    assert "task 't0' was cancelled already" in refused(user, "--cancel", "t0")
    assert "was cancelled by the user" in user.ask("explain", "run", "t0").out
    go(user)
    done = engine.done()
    assert done.status == 1
    assert "1 task cancelled by the user: t0" in done.text
    assert "1 task cancelled by the user: t0" in user.ask("failures", "run").out
    assert lines_of(user.folder / "record") == ["t1"]
    assert user.is_alone()


@pytest.mark.slow
def test_a_raised_task_runs_next(user: User) -> None:
    engine = begin(user, 12)
    control(user, "--raise", "t9")
    go(user)
    assert engine.done().status == 0
    order = [e["task"] for e in events(user) if e["event"] == "attempt-placed"]
    assert order[:4] == [0, 1, 9, 2]


def test_what_cannot_be_done_is_said(user: User) -> None:
    engine = begin(user, 3)
    assert "did you mean beta? sites of the run: alpha, beta" in refused(user, "--pause", "betta")
    assert "run run has no task 't7'" in refused(user, "--cancel", "t7")
    assert "the run has no workflow named 'x'" in refused(user, "--raise-workflow", "x")
    assert "nothing is asked for" in refused(user)
    assert "'t0' is at a site already, and keeps its place" in refused(user, "--raise", "t0")
    assert "site beta is not paused by the user" in refused(user, "--free", "beta")
    go(user)
    assert engine.done().status == 0
    said = refused(user, "--pause", "beta")
    assert "the run run is not running: nothing would take the request" in said
    assert "wfrun resume run" in said


@pytest.mark.slow
def test_a_request_to_an_engine_that_died_is_dropped(user: User) -> None:
    engine = begin(user, 2)
    engine.kill()
    folder = user.folder / "run" / "requests"
    folder.mkdir()
    (folder / "1.json").write_text(json.dumps({"request": "pause-site", "site": "alpha"}))
    go(user)
    done = user.wfrun("resume", "run")
    assert done.status == 0, done.text
    assert not [e for e in events(user) if e["event"] == "site-held"]


@pytest.mark.slow
def test_a_file_that_is_no_request_stops_nothing(user: User) -> None:
    engine = begin(user, 2)
    folder = user.folder / "run" / "requests"
    folder.mkdir()
    os.mkfifo(folder / "1.json")
    (folder / "2.json").symlink_to("/etc/passwd")
    (folder / "3.json").write_text("{")
    (folder / "4.json").write_text(" " * 5000)
    (folder / "5.json").write_text(json.dumps({"request": "cancel-task", "workflow": 9, "task": 0}))
    others = folder / "6.json"
    others.write_text(json.dumps({"request": "pause-site", "site": "alpha"}))
    others.chmod(0o666)
    assert wait_until(lambda: not list(folder.glob("*.json")))
    assert Path("/etc/passwd").exists()
    go(user)
    done = engine.done()
    assert done.status == 0
    assert done.err.count("is not carried out") == 6
    assert not [e for e in events(user) if e["event"] == "site-held"]


def test_a_request_that_is_refused_by_the_engine_is_not_reported_as_taken(tmp_path: Path) -> None:
    """The task may end between the check of the user's command and the engine's."""
    core = Idle(tasks(1), ALPHA).core
    (tmp_path / "run").mkdir()
    run = RunDir(tmp_path / "run")
    lock = Lock(run.lock)
    try:
        written = ur.write(run, ur.CancelTask(0, 0))
        assert not ur.is_taken(run, written)
        core.step(ev.AttemptEnded(5.0, "r.0.0.1", Outcome("done")))
        assert ur.RequestReader(run, core.state).read(6.0) == []
        with pytest.raises(InvalidError, match="task 't0' is done"):
            ur.is_taken(run, written)
        assert not list(run.requests.iterdir())
    finally:
        lock.release()
    with pytest.raises(InvalidError, match="is not running"):
        ur.write(run, ur.CancelTask(0, 0))


def test_requests_are_small_and_have_known_fields(tmp_path: Path) -> None:
    core = Idle(tasks(1), ALPHA).core
    (tmp_path / "run").mkdir()
    run = RunDir(tmp_path / "run")
    lock = Lock(run.lock)
    try:
        ur.write(run, ur.PauseSite("alpha"))
        (path,) = run.requests.iterdir()
        said = path.read_bytes()
        for content, is_taken in (
            (said.ljust(ur.MAX_BYTES + 1), False),
            (said.replace(b"{", b'{"command":"x",', 1), False),
            (said.ljust(ur.MAX_BYTES), True),
        ):
            path.write_bytes(content)
            assert len(ur.RequestReader(run, core.state).read(6.0)) == is_taken, content
    finally:
        lock.release()


@pytest.mark.slow
def test_a_request_of_another_user_is_refused(user: User) -> None:
    if os.geteuid():
        pytest.skip("only root can make a file of another user")
    engine = begin(user, 2)
    draft = user.folder / "draft"
    draft.write_text(json.dumps({"request": "pause-site", "site": "alpha"}))
    os.chown(draft, 12345, 12345)
    folder = user.folder / "run" / "requests"
    folder.mkdir()
    draft.rename(folder / "1.json")
    assert wait_until(lambda: not (folder / "1.json").exists())
    go(user)
    done = engine.done()
    assert "only the user of the run may write" in done.err
    assert not [e for e in events(user) if e["event"] == "site-held"]
