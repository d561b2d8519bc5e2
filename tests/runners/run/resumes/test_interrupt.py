"""Ctrl-C, SIGTERM and ``wfrun cancel``; a second engine; tasks that outlive their engine."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.runners.harness import Engine, Job, User, kill, lines_of, wait_until

ONE_SITE = "sites:\n  alpha: {slots: 2}\n"


def waiting(folder: Path, tasks: int) -> list[Job]:
    """Tasks that tell that they have begun, wait for the file ``go``, and tell that they are
    done."""
    script = (
        "echo t{n} >> {folder}/begun; while [ ! -e {folder}/go ]; do sleep 0.02; done; "
        "echo t{n} > t{n}.txt; echo t{n} >> {folder}/record"
    )
    return [
        Job(f"t{n}", script.format(n=n, folder=folder), (), [f"t{n}.txt"], [f"t{n}.txt"])
        for n in range(tasks)
    ]


def sleeping(folder: Path, tasks: int) -> list[Job]:
    """The same with tasks that outlast any test, unless ``go`` is there when they begin."""
    script = (
        "echo t{n} >> {folder}/begun; [ -e {folder}/go ] || sleep 1000; "
        "echo t{n} >> {folder}/record"
    )
    return [Job(f"t{n}", script.format(n=n, folder=folder)) for n in range(tasks)]


def begin(user: User, jobs: list[Job], *options: str) -> Engine:
    """Start a run on two slots, and wait until both are taken."""
    catalog = user.catalog(ONE_SITE)
    engine = user.start(user.write(jobs), "--sites", catalog, "--run-dir", "run", *options)
    assert wait_until(lambda: engine.ended or len(lines_of(user.folder / "begun")) == 2)
    assert not engine.ended, engine.told
    return engine


def go(user: User) -> None:
    (user.folder / "go").touch()


def resume(user: User, tasks: int) -> None:
    """To the end: each task's success once."""
    done = user.wfrun("resume", "run")
    assert done.status == 0, done.text
    record = Counter(lines_of(user.folder / "record"))
    assert record == Counter(f"t{n}" for n in range(tasks))
    assert user.is_alone()


def open_files(pid: int) -> set[Path]:
    """What a process has open."""
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            found.add(entry.readlink())
    return found


@pytest.mark.slow
def test_an_interrupt_while_the_event_loop_is_made(user: User) -> None:
    """It must not leave half a loop, which writes a traceback when it is freed."""
    early = (
        "import os, signal, sys\n"
        "from asyncio.selector_events import BaseSelectorEventLoop as Loop\n"
        "make = Loop.__init__\n"
        "def interrupted(loop, *given):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    make(loop, *given)\n"
        "Loop.__init__ = interrupted\n"
        "from wfrun.runners.cli.main import main\n"
        "sys.exit(main())\n"
    )
    words = ["run", str(user.write(sleeping(user.folder, 1))), "--run-dir", "run"]
    done = user.launch([sys.executable, "-c", early, *words]).done()
    assert done.status == 130, done.text
    assert "Traceback" not in done.text
    assert "Warning" not in done.text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_once_drains(user: User, number: signal.Signals) -> None:
    engine = begin(user, waiting(user.folder, 6))
    engine.signal(number)
    assert wait_until(lambda: "no further task is started" in engine.told)
    # It is told at once; on a busy disk it takes a moment until the request is durable.
    assert wait_until(lambda: "draining" in user.ask("status", "run").out)
    go(user)
    done = engine.done()
    assert done.status == 130, done.text
    assert "to continue: wfrun resume run" in done.out
    assert len(lines_of(user.folder / "record")) == 2
    assert len(lines_of(user.folder / "begun")) == 2
    assert len(list((user.folder / "run" / "outputs").iterdir())) == 2
    assert user.is_alone()
    resume(user, 6)
    assert len(list((user.folder / "run" / "outputs").iterdir())) == 6


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_twice_kills(user: User, number: signal.Signals) -> None:
    engine = begin(user, sleeping(user.folder, 6))
    engine.signal(number)
    assert wait_until(lambda: "no further task is started" in engine.told)
    assert not engine.ended
    engine.signal(number)
    done = engine.done()
    assert done.status == 130, done.text
    assert "running tasks are being ended" in done.err
    assert user.is_alone()
    assert lines_of(user.folder / "record") == []
    go(user)
    resume(user, 6)


def test_an_impatient_user(user: User) -> None:
    """Further ones change nothing, neither before the end nor while the summary is printed."""
    engine = begin(user, sleeping(user.folder, 3))
    while not engine.ended:
        engine.signal(signal.SIGINT)
        time.sleep(0.02)
    done = engine.done()
    assert done.status == 130
    assert "Traceback" not in done.text
    assert user.is_alone()


@pytest.mark.slow
def test_interrupted_while_the_document_is_read(user: User) -> None:
    document = user.folder / "large.dax"
    made = user.ask("generate", "montage", "--tasks", "20000", "-o", document)
    assert made.status == 0, made.text
    engine = user.start(document, "--emulate", "--run-dir", "run")
    assert wait_until(lambda: document in open_files(engine.pid))
    engine.signal(signal.SIGINT)
    done = engine.done()
    assert done.status == 130, done.text
    assert not (user.folder / "run").exists()


@pytest.mark.slow
def test_tasks_that_ignore_sigterm_are_killed(user: User) -> None:
    script = f"trap '' TERM INT; echo t >> {user.folder}/begun; sleep 1000 & wait; sleep 1000"
    engine = begin(user, [Job("t0", script), Job("t1", script)])
    for _ in range(2):
        engine.signal(signal.SIGINT)
        time.sleep(0.2)
    assert engine.done().status == 130
    assert user.is_alone()


def test_interrupted_while_files_move(user: User) -> None:
    """Nothing runs yet that could be waited for."""
    (user.folder / "big.bin").write_bytes(bytes(1_000_000))
    catalog = user.catalog(
        "sites:\n  alpha: {slots: 2}\nlinks:\n  - {from: origin, to: alpha, bandwidth: 10 kB/s}\n"
    )
    record = user.folder / "record"
    document = user.write([Job("t0", f"cat big.bin > /dev/null; echo t0 >> {record}", ["big.bin"])])
    engine = user.start(document, "--sites", catalog, "--run-dir", "run")
    assert wait_until(lambda: bool(user.launchers()))
    assert wait_until(lambda: "1 staging" in user.ask("status", "run").out)
    engine.signal(signal.SIGINT)
    assert engine.done().status == 130
    assert lines_of(record) == []
    assert user.is_alone()


def test_cancel(user: User) -> None:
    engine = begin(user, sleeping(user.folder, 6))
    done = user.wfrun("cancel", "run")
    assert (done.status, done.out) == (0, "asked run to stop\nstopped\n")
    assert engine.done().status == 130
    assert user.is_alone()
    again = user.wfrun("cancel", "run")
    assert again.status == 2
    assert "the run run is not running: there is nothing to cancel" in again.err
    go(user)
    resume(user, 6)


def test_cancel_drain(user: User) -> None:
    engine = begin(user, waiting(user.folder, 6))
    done = user.wfrun("cancel", "run", "--drain")
    assert (done.status, done.out) == (0, "asked run to stop\n")
    assert wait_until(lambda: "draining" in user.ask("status", "run").out)
    go(user)
    assert engine.done().status == 130
    assert len(lines_of(user.folder / "record")) == 2
    resume(user, 6)


def test_a_request_to_cancel_does_not_stop_the_next_engine(user: User) -> None:
    """It was made of an engine that died before it saw it."""
    engine = begin(user, waiting(user.folder, 3))
    engine.kill()
    (user.folder / "run" / "cancel").write_text("kill")
    go(user)
    resume(user, 3)


def test_status_and_list(user: User) -> None:
    jobs = waiting(user.folder, 6)
    catalog = user.catalog(ONE_SITE)
    engine = user.start(user.write(jobs, "some.dax"), "--sites", catalog)
    assert wait_until(lambda: len(lines_of(user.folder / "begun")) == 2)
    assert wait_until(lambda: "2 running" in user.ask("status").out)
    status = user.ask("status")
    assert status.status == 0
    assert "run wfrun-runs/some-1" in status.out
    assert "running: 0/6 tasks done, 2 running" in status.out
    assert "to continue" not in status.out
    listed = user.ask("list").out.splitlines()
    assert listed[1].split()[:5] == ["some-1", "running", "6", "0", "0"]
    engine.kill()
    assert "interrupted: 0/6 tasks done" in user.ask("status", "some-1").out
    assert "to continue: wfrun resume wfrun-runs/some-1" in user.ask("status", "last").out
    assert "interrupted" in user.ask("list").out
    go(user)
    assert user.wfrun("resume").status == 0
    assert "done: 6/6 tasks done" in user.ask("status").out
    listed = user.ask("list").out.splitlines()
    assert listed[1].split()[:5] == ["some-1", "done", "6", "6", "0"]


@pytest.mark.parametrize("words", [("resume", "run"), ("run", "jobs.dax", "--run-dir", "run")])
def test_a_second_engine_is_refused(user: User, words: tuple[str, ...]) -> None:
    engine = begin(user, waiting(user.folder, 4))
    done = user.wfrun(*words)
    assert done.status == 2
    assert "Traceback" not in done.text
    if words[0] == "resume":
        host = os.uname().nodename
        assert f"the run run is being driven by process {engine.pid} on {host}" in done.err
        assert "wfrun cancel run" in done.err
    else:
        assert "run already holds a run" in done.err
    go(user)
    assert engine.done().status == 0
    assert len(lines_of(user.folder / "record")) == 4


def test_resuming_a_run_that_is_done_starts_nothing(user: User) -> None:
    go(user)
    document = user.write(waiting(user.folder, 2))
    engine = user.start(document, "--run-dir", "run", "--keep", "all")
    assert engine.done().status == 0
    done = user.wfrun("resume", "run")
    assert done.status == 0
    assert "done: 2/2 tasks done" in done.out
    assert len(lines_of(user.folder / "record")) == 2
    assert len(list((user.folder / "run" / "sites").glob("*/files/*"))) == 2


def test_tasks_end_while_the_engine_is_dead(user: User) -> None:
    """Their exit records are found; what was queued starts with the next engine."""
    begin(user, waiting(user.folder, 6)).kill()
    go(user)
    assert user.is_alone()
    assert len(lines_of(user.folder / "record")) == 2
    resume(user, 6)
    assert len(lines_of(user.folder / "begun")) == 6


def test_tasks_that_still_run_are_adopted(user: User) -> None:
    """The next engine waits for what the last one started, and starts only the rest."""
    begin(user, waiting(user.folder, 4)).kill()
    engine = user.start("resume", "run")
    assert wait_until(lambda: "2 running" in user.ask("status", "run").out)
    assert len(user.launchers()) == 2
    go(user)
    done = engine.done()
    assert done.status == 0, done.text
    assert Counter(lines_of(user.folder / "begun")) == Counter(f"t{n}" for n in range(4))
    assert Counter(lines_of(user.folder / "record")) == Counter(f"t{n}" for n in range(4))
    assert user.is_alone()


def test_adopted_tasks_can_be_cancelled(user: User) -> None:
    begin(user, sleeping(user.folder, 4)).kill()
    engine = user.start("resume", "run")
    assert wait_until(lambda: "2 running" in user.ask("status", "run").out)
    assert user.wfrun("cancel", "run").status == 0
    assert engine.done().status == 130
    assert user.is_alone()
    assert lines_of(user.folder / "record") == []


def test_a_launcher_that_dies_with_adopted_tasks(user: User) -> None:
    """They are lost, and tried again."""
    begin(user, waiting(user.folder, 4)).kill()
    old = user.launchers()
    engine = user.start("resume", "run")
    assert wait_until(lambda: len(user.launchers()) == 2)
    kill(old)
    go(user)
    done = engine.done()
    assert done.status == 0, done.text
    assert set(lines_of(user.folder / "record")) == {f"t{n}" for n in range(4)}
    assert user.is_alone()
