"""The engine dies, at any moment, and ``wfrun resume`` goes on: every task succeeds once."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.amounts import some
from tests.runners.harness import (
    Engine,
    Job,
    User,
    attempts_alive,
    kill,
    lines_of,
    wait_until,
)
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state

LAYERS, WIDTH = 10, 20
TASKS = LAYERS * WIDTH
KILLS = 3
SLOTS = 5
SITES = """
sites:
  alpha: {slots: 2}
  beta: {slots: 2, speed: 1.2}
  gamma: {slots: 1, speed: 0.8}
links:
  - {between: [alpha, beta], bandwidth: 100 MB/s, latency: 2 ms}
  - {between: [alpha, gamma], latency: 5 ms}
"""
POLICIES = [
    "round-robin",
    "single-cluster",
    "all-clusters",
    "file-aware",
    "coarsening",
    "cluster-min",
    "heft",
    "heft-p",
    "file-aware",
    "all-clusters",
]
SCRIPT = "{{ echo {id}; cat {inputs} </dev/null; }} | sort -u > {out}; echo {id} >> {record}"
LAST = "while ! [ -e {go} ]; do sleep 0.02; done; echo last >> {record}"
"""Keeps a run from its end until its test, however slow, has killed what it is to kill."""


def layered(record: Path, random: Random) -> tuple[list[Job], dict[str, set[str]]]:
    """200 tasks, and what each writes into its output: its own id and those of all tasks that it
    depends on. The last thing that a task does is to append its id to the record. One more task
    comes after all and waits for ``release``."""
    jobs: list[Job] = []
    contents: dict[str, set[str]] = {}
    above: list[str] = []
    for layer in range(LAYERS):
        here = [f"t{layer}-{n}" for n in range(WIDTH)]
        for task in here:
            parents = random.sample(above, random.randint(1, 3)) if above else []
            contents[task] = {task}.union(*(contents[parent] for parent in parents))
            inputs = [f"{parent}.txt" for parent in parents]
            script = SCRIPT.format(
                id=task, inputs=" ".join(inputs), out=f"{task}.txt", record=record
            )
            final = [f"{task}.txt"] if layer == LAYERS - 1 else []
            jobs.append(Job(task, script, inputs, [f"{task}.txt"], final))
        above = here
    script = LAST.format(go=gate(record), record=record)
    jobs.append(Job("last", script, parents=[job.id for job in jobs]))
    return jobs, contents


def gate(record: Path) -> Path:
    return record.with_name("go")


def release(record: Path) -> None:
    """Let the last task end."""
    gate(record).touch()


def wait_for(engine: Engine, record: Path, tasks: int) -> None:
    """Until this number of tasks are done."""
    assert wait_until(lambda: engine.ended or len(lines_of(record)) >= tasks)
    assert not engine.ended, engine.told


def check_outputs(run: Path, contents: dict[str, set[str]]) -> None:
    final = {f"t{LAYERS - 1}-{n}" for n in range(WIDTH)}
    assert {path.stem for path in (run / "outputs").iterdir()} == final
    for task in final:
        found = (run / "outputs" / f"{task}.txt").read_text().split()
        assert found == sorted(contents[task])


def check_quiet(user: User, run: Path) -> None:
    """Nothing of the run is left, neither launchers nor tasks."""
    assert user.is_alone()
    assert attempts_alive(read_state(RunDir(run)).run_id) == []


@pytest.mark.cases
@pytest.mark.parametrize(("seed", "policy"), some(enumerate(POLICIES), quick=3))
def test_killed_at_three_random_moments(user: User, seed: int, policy: str) -> None:
    """Ten runs, which makes thirty moments."""
    random = Random(seed)
    record, run = user.folder / "record", user.folder / "run"
    jobs, contents = layered(record, random)
    document, catalog = user.write(jobs), user.catalog(SITES)
    throttle = ("--throttle", "8") if seed % 2 else ()
    engine = user.start(
        document, "--sites", catalog, "--policy", policy, "--run-dir", run, *throttle
    )
    for tasks in sorted(random.sample(range(1, TASKS), KILLS)):
        wait_for(engine, record, tasks)
        time.sleep(random.uniform(0, 0.05))
        engine.kill()
        engine = user.start("resume", run)
    release(record)
    done = engine.done()
    assert done.status == 0, done.text
    assert Counter(lines_of(record)) == Counter(job.id for job in jobs)
    check_outputs(run, contents)
    check_quiet(user, run)


@pytest.mark.cases
@pytest.mark.parametrize("seed", range(4))
def test_killed_before_anything_is_done(user: User, seed: int) -> None:
    """Either it was started, and can be resumed, or nothing ran and the user is told so."""
    record, run = user.folder / "record", user.folder / "run"
    jobs = [Job(f"t{n}", f"echo t{n} >> {record}") for n in range(20)]
    engine = user.start(user.write(jobs), "--run-dir", run)
    assert wait_until(run.exists)
    time.sleep(Random(seed).uniform(0, 0.1))
    engine.kill()
    done = user.wfrun("resume", run)
    if done.status == 2:
        assert "never started" in done.err or "there is no run" in done.err
        assert lines_of(record) == []
        done = user.wfrun(user.folder / "jobs.dax", "--run-dir", user.folder / "again")
    assert done.status == 0, done.text
    assert Counter(lines_of(record)) == Counter(job.id for job in jobs)
    assert user.is_alone()


@pytest.mark.parametrize("seed", some(range(3), quick=1))
def test_everything_is_killed(user: User, seed: int) -> None:
    """Engine, launchers and tasks, as when the machine goes down. A task that is killed at its
    last act runs again; nothing else does."""
    random = Random(seed)
    record, run = user.folder / "record", user.folder / "run"
    jobs, contents = layered(record, random)
    engine = user.start(user.write(jobs), "--sites", user.catalog(SITES), "--run-dir", run)
    wait_for(engine, record, random.randrange(10, TASKS))
    engine.kill()
    user.cut_power()
    release(record)
    done = user.wfrun("resume", run)
    assert done.status == 0, done.text
    times = Counter(lines_of(record))
    assert set(times) == {job.id for job in jobs}
    assert times.total() - len(jobs) <= SLOTS, "more tasks ran twice than can have been running"
    check_outputs(run, contents)
    check_quiet(user, run)


@pytest.mark.slow
def test_launchers_are_killed_while_the_engine_lives(user: User) -> None:
    """They are started again; what they ran is lost and tried again."""
    record, run = user.folder / "record", user.folder / "run"
    jobs, contents = layered(record, Random(7))
    engine = user.start(user.write(jobs), "--sites", user.catalog(SITES), "--run-dir", run)
    for tasks in (20, 120):
        wait_for(engine, record, tasks)
        kill(user.launchers())
    release(record)
    done = engine.done()
    assert done.status == 0, done.text
    assert set(lines_of(record)) == {job.id for job in jobs}
    check_outputs(run, contents)
    check_quiet(user, run)
