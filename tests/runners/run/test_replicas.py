"""Several copies of a task run, at several sites or at one: one of them counts, whatever is
killed."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from tests.amounts import some
from tests.runners.harness import Job, User, attempts_alive, kill, wait_until
from tests.runners.replicated import (
    check_committed_once,
    check_sandboxes,
    counted,
    events_of,
    first_done,
    telling,
)
from wfrun.engine import events as ev
from wfrun.engine.capabilities.replication.replication import Replication
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state

KILLS = 4
ONE_SITE = "sites:\n  alpha: {slots: 6}\n"
SITES = """
sites:
  alpha: {slots: 2}
  beta: {slots: 2, speed: 1.5}
  gamma: {slots: 1, speed: 0.5}
  delta: {slots: 1}
"""
HANGS = "case $PWD in */gamma/*) sleep 300;; esac"


def check_quiet(user: User, run: Path) -> None:
    assert user.is_alone()
    assert attempts_alive(read_state(RunDir(run)).run_id) == []


@pytest.mark.cases
@pytest.mark.parametrize(
    "options",
    [
        ("--policy", "wqr", "--replicas", "3"),
        ("--policy", "ect-p", "--replicas", "2"),
        ("--policy", "rr", "--replication", "stragglers"),
    ],
    ids="-".join,
)
def test_the_first_success_is_what_is_kept(user: User, options: tuple[str, ...]) -> None:
    """At one site all tasks hang: replicas elsewhere do them. What is cancelled is no failure,
    and leaves nothing."""
    run = user.folder / "run"
    jobs = [telling(f"t{n}", f"{HANGS}; sleep {0.6 if n % 5 == 0 else 0.05}") for n in range(20)]
    words = (user.write(jobs), "--sites", user.catalog(SITES), "--run-dir", run, "--keep", "all")
    done = user.wfrun(*words, "--selection", "s-bot", *options)
    assert done.status == 0, done.text
    check_committed_once(run, [job.id for job in jobs])
    check_sandboxes(run)
    check_quiet(user, run)
    state = read_state(RunDir(run))
    assert [site.failed for site in state.sites] == [0, 0, 0, 0]
    assert state.retried == 0
    replication = state.find(Replication)
    assert replication is not None
    assert replication.won >= 1, "what hung was done elsewhere"
    assert f"{replication.placed_total} replica" in done.out
    assert "superseded attempts used" in done.out


def test_a_replica_beside_a_hung_attempt_does_its_task(user: User) -> None:
    """At the only site, as when one of its nodes is bad; files of both have names of their own."""
    run = user.folder / "run"
    hangs = "case $WFRUN_ATTEMPT in *.1) sleep 300;; esac"
    jobs = [telling(f"t{n}", hangs if n % 2 else "true") for n in range(6)]
    words = (user.write(jobs), "--sites", user.catalog(ONE_SITE), "--run-dir", run)
    done = user.wfrun(*words, "--policy", "rr", "--selection", "s-bot")
    assert done.status == 0, done.text
    check_committed_once(run, [job.id for job in jobs])
    check_sandboxes(run)
    check_quiet(user, run)
    first = first_done(run)
    assert [first[n].endswith(".1") for n in (1, 3, 5)] == [False] * 3
    assert read_state(RunDir(run)).sites[0].failed == 0


@pytest.mark.cases
@pytest.mark.parametrize("seed", some(range(20), quick=2))
def test_killed_at_random(user: User, seed: int) -> None:
    """Engines and launchers, also both; each time the run is resumed, if it has to be."""
    random = Random(seed)
    run = user.folder / "run"
    jobs = [telling(f"t{n}", f"sleep {random.uniform(0, 0.8):.2f}") for n in range(40)]
    catalog = user.catalog(ONE_SITE if seed % 2 else SITES)
    words = (user.write(jobs), "--sites", catalog, "--run-dir", run)
    engine = user.start(
        *words, "--policy", "wqr", "--replicas", "3", "--retries", "9", "--retry-delay", "0.05"
    )
    assert wait_until(lambda: bool(user.tasks()))
    for _ in range(KILLS):
        time.sleep(random.uniform(0.3, 1.5))
        if random.random() < 0.5 and not engine.ended:
            launchers = sorted(user.launchers())
            kill(random.sample(launchers, min(len(launchers), random.randint(1, 2))))
        if random.random() < 0.8 and not engine.ended:
            engine.kill()
            engine = user.start("resume", run)
    done = engine.done()
    assert done.status == 0, done.text
    assert "Traceback" not in done.text
    check_committed_once(run, [job.id for job in jobs])
    check_quiet(user, run)


def test_dead_while_a_replica_is_being_cancelled(user: User) -> None:
    """The engine dies as soon as one of two attempts is done; the other may never have been told.
    The next engine ends it, and its file is nowhere."""
    run, go = user.folder / "run", user.folder / "go"
    waits = (
        f"case $PWD in */alpha/*) sleep 300;; *) while ! [ -e {go} ]; do sleep 0.01; done;; esac"
    )
    job = telling("t", waits)
    catalog = user.catalog("sites:\n  alpha: {slots: 1}\n  beta: {slots: 1}\n")
    engine = user.start(user.write([job]), "--sites", catalog, "--run-dir", run, "--policy", "rr")
    assert wait_until(lambda: len(user.tasks()) >= 2)
    go.touch()
    kept = (run / "sites" / "beta" / "files", run / "outputs")  # The run may be over by now.
    assert wait_until(lambda: any(p.is_file() for folder in kept for p in folder.rglob("*")))
    engine.kill()
    done = user.wfrun("resume", run)
    assert done.status == 0, done.text
    check_committed_once(run, ["t"])
    assert first_done(run)[0].endswith(".2")
    check_quiet(user, run)


@pytest.mark.parametrize("loses", [False, True], ids=["killed", "killed-and-files-lost"])
def test_consumers_read_what_counts(user: User, loses: bool) -> None:
    """Also after a resume, and where the files of what is done are gone."""
    run, go = user.folder / "run", user.folder / "go"
    random = Random(3)
    waits = f"while ! [ -e {go} ]; do sleep 0.02; done"
    above = [
        telling(f"a{n}", f"sleep {random.uniform(0, 0.6):.2f}", collect=False) for n in range(8)
    ]
    below = [telling(f"b{n}", waits, inputs=(f"a{n}.txt",)) for n in range(8)]
    jobs: list[Job] = [*above, *below]
    catalog = user.catalog(ONE_SITE if loses else SITES)
    words = (user.write(jobs), "--sites", catalog, "--run-dir", run)
    engine = user.start(*words, "--policy", "rr", "--replicas", "1")
    assert wait_until(lambda: (run / "events.sqlite").exists() and len(done_tasks(run)) >= 8)
    engine.kill()
    if loses:
        lost = list((run / "sites").glob("*/files/*-a[0-3].txt"))
        assert len(lost) >= 4
        for path in lost:
            path.unlink()
    go.touch()
    done = user.wfrun("resume", run)
    assert done.status == 0, done.text
    keys = counted(run)
    for number in range(8):
        made = [key for key in keys if key.split(".")[2] == str(number)]
        assert len(made) == 1 + (loses and number < 4)
        (own,) = (key for key in keys if key.split(".")[2] == str(8 + number))
        found = (run / "outputs" / f"b{number}.txt").read_text().split()
        assert found[:2] == [own, "end"]
        assert found[2] in made
        assert found[3:] == ["end"]
    check_quiet(user, run)


def done_tasks(run: Path) -> set[str]:
    return {
        event.key.split(".")[2]
        for event in events_of(run)
        if isinstance(event, ev.AttemptEnded) and event.outcome.cause == "done"
    }
