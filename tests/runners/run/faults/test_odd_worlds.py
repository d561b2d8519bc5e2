"""Runs in worlds that are not quite as they should be: closed streams, names that are not UTF-8,
a system clock that somebody sets, folders that nobody may write, file systems without locks."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.runners.harness import WFRUN, Job, User, lines_of, make_workflow, wait_until
from wfrun.engine import events as ev
from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.engine.events import Settings
from wfrun.runners.run.clock import WallClock
from wfrun.runners.run.directory.lock import Lock
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.directory.trust import OwnRun
from wfrun.runners.run.prepare.prepare import prepare, this_machine
from wfrun.runners.run.session import Session
from wfrun.runners.run.store.event_store import Store
from wfrun.runners.run.store.storable import storable


def one_task(folder: Path) -> list[Job]:
    return [Job("a", f"echo ran >> {folder}/record")]


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("option", ["", "--json"])
def test_closed_streams(user: User, closed: str, option: str) -> None:
    document = user.write(one_task(user.folder))
    done = subprocess.run(
        ["sh", "-c", f'"$0" "$1" --run-dir run {option} {closed}', str(WFRUN), str(document)],
        cwd=user.folder,
        env=user.environment,
        capture_output=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert lines_of(user.folder / "record") == ["ran"]


def test_a_run_directory_whose_name_is_not_utf8(user: User) -> None:
    folder = user.folder / "caf\udce9"
    done = user.wfrun(user.write(one_task(user.folder)), "--run-dir", folder)
    assert done.status == 0, done.err
    assert lines_of(user.folder / "record") == ["ran"]


def test_a_batch_system_that_prints_what_is_not_utf8(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it prints becomes a part of messages in events."""
    (user.folder / "bin").mkdir()
    for name in ("qsub", "qstat"):
        program = user.folder / "bin" / name
        program.write_text("#!/bin/sh\nprintf 'caf\\351 closed\\n' >&2; exit 1\n")
        program.chmod(0o755)
    (user.folder / ".profile").write_text(f"export PATH={user.folder}/bin:$PATH\n")
    monkeypatch.setenv("HOME", str(user.folder))
    site = {"kind": "pbs", "transport": "local", "slots": 2, "directory": str(user.folder / "s")}
    sites = user.catalog(json.dumps({"sites": {"here": site}}))
    document = user.write(one_task(user.folder))
    engine = user.start(document, "--sites", sites, "--run-dir", user.folder / "run", "--json")

    def pauses() -> list[dict[str, str]]:
        lines = engine.out.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if '"site-paused"' in line and line[-1] == "\n"]

    assert wait_until(lambda: engine.ended or bool(pauses()))
    assert not engine.ended, engine.told
    store = Store(user.folder / "run")
    logged = [event.reason for event in store.load() if isinstance(event, ev.SitePaused)]
    store.close()
    assert logged[0] == pauses()[0]["reason"]
    assert r"caf\udce9 closed" in logged[0]


def test_names_of_a_hostile_agent_in_an_event() -> None:
    counted = ev.SiteCounted(0.0, 0, 1, {"q\udcff": 3}, 1.0)
    assert storable(counted) == ev.SiteCounted(0.0, 0, 1, {r"q\udcff": 3}, 1.0)


def test_outputs_of_which_one_is_the_folder_of_another(user: User) -> None:
    """Collected into one folder the second would replace the first."""
    jobs = [Job("one", "true", (), ["a"], ["a"]), Job("two", "true", (), ["a/b"], ["a/b"])]
    with pytest.raises(InvalidError, match="'a' is an output of task one and also the folder of"):
        prepare([make_workflow(jobs)], this_machine(), Settings("round-robin"))


def test_a_system_clock_that_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = WallClock()
    before_s = clock.now()
    assert abs(before_s - time.time()) < 60
    monkeypatch.setattr(time, "time", lambda: before_s - 86400)
    assert before_s <= clock.now() < before_s + 60


@pytest.mark.slow
async def test_a_log_from_the_future_delays_nothing(tmp_path: Path) -> None:
    """The system's clock was a day ahead when the run was begun, and a task failed."""
    record = tmp_path / "record"
    session = Session()
    script = f"echo ran >> {record}; [ $(wc -l < {record}) -gt 1 ]"
    plan = prepare(
        [make_workflow([Job("a", script)])],
        this_machine(),
        Settings("round-robin", retries=1, retry_delay_s=0.1),
    )
    session.start(plan, tmp_path / "run", "x")
    session._clock.go_on_from(time.time() + 86400)
    stop = asyncio.get_running_loop().call_later

    def drain_at_failure(events: object) -> None:
        if session.state.retried:
            stop(0, session.cancel, "drain")

    session.observers.append(drain_at_failure)
    await session.drive()
    assert lines_of(record) == ["ran"]
    resumed = Session()
    resumed.resume(OwnRun(session.run, "resume"))
    state = await asyncio.wait_for(resumed.drive(), 30)
    assert state.ended == "done"
    store = Store(session.run.path)
    times_s = [event.at_s for event in store.load() if not isinstance(event, ev.TimerFired)]
    store.close()
    assert times_s == sorted(times_s)


def test_a_request_to_cancel_that_can_not_be_written(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "absent")
    with pytest.raises(InfeasibleError, match="the request to cancel cannot be written"):
        run.ask_to_cancel("drain")


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not said that somebody else drives the run."""

    def refuse(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(InfeasibleError, match=r"cannot be locked.*No locks available"):
        Lock(RunDir(tmp_path).lock)
