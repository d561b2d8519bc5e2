"""What tasks do to the launcher of a local site costs nothing: every task succeeds once, and
nothing is left behind."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.runners.harness import Job, User, attempts_alive, kill, lines_of, wait_until
from wfrun.engine import events as ev
from wfrun.engine.capabilities.health import Health
from wfrun.engine.core.state import RunState
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.runners.run.store.event_store import Store


def failures(run: Path) -> Counter[str]:
    store = Store(run)
    try:
        ended = [e for e in store.load() if isinstance(e, ev.AttemptEnded)]
    finally:
        store.close()
    return Counter(e.outcome.cause for e in ended if e.outcome.cause != "done")


def check_quiet(user: User) -> RunState:
    """Nothing is left; returns the state of the run."""
    state = read_state(RunDir(user.folder / "run"))
    assert user.is_alone()
    assert attempts_alive(state.run_id) == []
    return state


def peak_bytes(pid: int) -> int:
    """The most memory that a living process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def test_a_site_that_can_run_nothing_does_not_eat_the_bag(user: User) -> None:
    record = user.folder / "record"
    script = "case $PWD in */bad/*) exit 127;; esac; echo {id} >> {record}"
    jobs = [Job(f"t{n}", script.format(id=f"t{n}", record=record)) for n in range(1000)]
    sites = user.catalog("sites:\n  bad: {slots: 2}\n  good: {slots: 2}\n")
    words = ("--sites", sites, "--run-dir", "run", "--policy", "round-robin")
    done = user.wfrun(user.write(jobs), *words)
    assert done.status == 0, done.text
    assert Counter(lines_of(record)) == Counter(job.id for job in jobs)
    found = failures(user.folder / "run")
    assert set(found) == {"exit", "cancelled"}
    assert 20 <= found["exit"] <= 250, found
    health = check_quiet(user).find(Health)
    assert health is not None
    breaker = health.sites[0].breaker
    assert breaker is not None
    assert "failures in a row, the last by exit" in breaker.reason


@pytest.mark.parametrize("way", ["kept", "packed"])
def test_a_task_prints_100_megabytes_and_others_leave_daemons(user: User, way: str) -> None:
    """Neither launcher nor engine needs memory for it, and what is left behind ends at once."""
    record, go = user.folder / "record", user.folder / "go"
    loud = f"head -c 100000000 /dev/zero | tr '\\0' x; echo loud >> {record}"
    daemon = "setsid sh -c 'sleep 901 & sleep 902' </dev/null >/dev/null 2>&1 & sleep 0.1"
    jobs = [Job("loud", loud), Job("last", f"while ! [ -e {go} ]; do sleep 0.05; done")]
    jobs += [Job(f"d{n}", f"{daemon}; echo d{n} >> {record}") for n in range(8)]
    words = ["--run-dir", "run", *(["--pack-logs"] if way == "packed" else [])]
    sites = user.catalog("sites:\n  alpha: {slots: 3}\n")
    engine = user.start(user.write(jobs), "--sites", sites, *words)
    assert wait_until(lambda: engine.ended or len(lines_of(record)) == 9), engine.told

    assert wait_until(lambda: len(user.tasks()) <= 2)  # the last one and its sleep
    (launcher,) = user.launchers()
    assert peak_bytes(launcher) < 40e6
    assert peak_bytes(engine.pid) < 200e6
    go.touch()
    done = engine.done()
    assert done.status == 0, done.text
    printed = user.ask("logs", "run", "loud").out.count("x")
    assert printed == 10**8
    check_quiet(user)


def test_the_processes_of_tasks_are_killed(user: User) -> None:
    """It is these tasks that fail, and nothing else."""
    record, held = user.folder / "record", user.folder / "held"
    script = "[ -e {folder}/go ] || {{ echo {id} >> {held}; sleep 60; }}; echo {id} >> {record}"
    jobs = [
        Job(f"t{n}", script.format(id=f"t{n}", folder=user.folder, held=held, record=record))
        for n in range(20)
    ]
    sites = user.catalog("sites:\n  alpha: {slots: 4}\n")
    words = ("--sites", sites, "--run-dir", "run", "--retry-delay", "0.05")
    engine = user.start(user.write(jobs), *words)
    assert wait_until(lambda: engine.ended or len(lines_of(held)) == 4), engine.told
    (user.folder / "go").touch()
    kill(sorted(user.tasks()))  # shells before their children, or they might end first
    done = engine.done()
    assert done.status == 0, done.text
    assert Counter(lines_of(record)) == Counter(job.id for job in jobs)
    assert failures(user.folder / "run") == {"signal": 4}
    check_quiet(user)
