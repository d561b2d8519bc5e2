"""A batch system that ends a job signals its processes one after another: a shell whose command got
the signal first goes on, and ends well before it gets its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.sites.node.jobs.facts import put_facts
from tests.sites.node.launchers.batch_launcher_rig import Engine, kill, wait_for
from wfrun.sites.node import FOLDER, JOB_PROGRAMS
from wfrun.sites.node.jobs import cuts
from wfrun.testing.probe import request, shell

SHELL = "sh -c 'echo $$ >$0; exec sleep 600' $1; echo x >o"
"""A shell whose command is killed, and that goes on."""


class JobRig:
    """Runs ``job.py`` for one task, without a batch system."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.pid = directory / "pid"
        self.process: subprocess.Popen[bytes]
        for name in ("attempts", "batches", "bin", "exits", "files"):
            (directory / name).mkdir()
        for name in JOB_PROGRAMS:
            shutil.copy(FOLDER / name, directory / "bin")
        put_facts(directory)

    def start(self, script: str, *arguments: str, **environ: str) -> None:
        task = shell("cut-1", script, *(arguments or (str(self.pid),)), outputs={"o": "o"})
        (self.directory / "batches" / "b.jsonl").write_bytes(msgspec.json.encode(task) + b"\n")
        self.process = subprocess.Popen(
            ["sh", str(self.directory / "bin" / "job.sh"), str(self.directory), "b", "1"],
            env={**os.environ, **environ},
            start_new_session=True,
        )

    def task(self) -> int:
        """The process that the task waits for."""
        wait_for(lambda: self.pid.exists() and self.pid.read_text().endswith("\n"))
        return int(self.pid.read_text())

    def record(self) -> dict[str, Any]:
        self.process.wait(100)
        found: dict[str, Any] = json.loads((self.directory / "exits" / "cut-1.json").read_text())
        return found


@pytest.fixture
def job(tmp_path: Path) -> Iterator[JobRig]:
    rig = JobRig(tmp_path)
    yield rig
    rig.process.kill()
    rig.process.wait()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = Engine(tmp_path / "run")
    yield engine
    engine.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGXCPU])
def test_a_signal_that_reaches_the_job_after_its_task(job: JobRig, number: int) -> None:
    job.start(SHELL)
    kill(job.task(), number)
    time.sleep(0.05)
    job.process.send_signal(number)
    outcome = job.record()["outcome"]
    assert (outcome["cause"], outcome["exit_code"]) == ("lost", 0)
    assert not (job.directory / "files" / "o").exists(), "nothing of it is committed"


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGXCPU])
def test_a_warning_that_reaches_the_job_before_its_task(job: JobRig, number: int) -> None:
    job.start(SHELL)
    task = job.task()
    job.process.send_signal(number)
    time.sleep(0.05)
    kill(task, number)
    assert job.record()["outcome"]["cause"] == "lost"


def test_a_kill_that_reaches_the_job_after_its_task(job: JobRig) -> None:
    job.start(SHELL)
    kill(job.task(), signal.SIGKILL)
    time.sleep(0.05)
    job.process.kill()
    job.process.wait(100)
    assert not (job.directory / "exits" / "cut-1.json").exists()
    assert not (job.directory / "files" / "o").exists()


def test_a_task_that_survives_a_warning(job: JobRig) -> None:
    """Only the batch system knows whether it was cut later."""
    go = job.directory / "go"
    script = "trap '' USR1; echo $$ >$1; until [ -e $2 ]; do sleep 0.05; done; echo x >o"
    job.start(script, str(job.pid), str(go))
    job.task()
    job.process.send_signal(signal.SIGUSR1)
    time.sleep(cuts.WARNING_S + 0.2)
    go.touch()
    record = job.record()
    assert record["outcome"]["cause"] == "done"
    assert record["doubt"] == "its job had received a signal"


@pytest.mark.cases
@pytest.mark.parametrize(
    ("environ", "is_doubted"),
    [
        ({"WFRUN_JOB_WALLTIME_S": "2"}, True),
        ({"WFRUN_JOB_WALLTIME_S": "3600"}, False),
        ({"WFRUN_JOB_WALLTIME_S": "3600", "PBS_WALLTIME": "2"}, True),
        ({"SLURM_JOB_END_TIME": "2"}, True),
        ({"SLURM_JOB_END_TIME": "3600"}, False),
        ({}, False),
    ],
)
def test_an_end_near_the_walltime_is_doubted(
    job: JobRig, environ: dict[str, str], is_doubted: bool
) -> None:
    if "SLURM_JOB_END_TIME" in environ:
        left_s = float(environ["SLURM_JOB_END_TIME"])
        environ = {"SLURM_JOB_END_TIME": str(int(time.time() + left_s))}
        put_facts(job.directory, "slurm")
    job.start("echo x >o", **environ)
    record = job.record()
    assert record["outcome"]["cause"] == "done"
    assert ("doubt" in record) == is_doubted
    assert not is_doubted or "its walltime of" in record["doubt"]


@pytest.mark.parametrize(("walltime_s", "near_s"), [(5, 2), (100, 10), (86400, 30)])
def test_how_near_an_end_is_doubted(walltime_s: float, near_s: float) -> None:
    assert cuts.near_of(walltime_s) == near_s


@pytest.mark.cases
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_that_reaches_a_launcher_after_its_task(
    engine: Engine, tmp_path: Path, number: int
) -> None:
    pid = tmp_path / "pid"
    engine.start(walltime_s=3600)
    launcher = engine.accept()["pid"]
    engine.run(shell("cut-1", SHELL, str(pid), outputs={"o": "o"}))
    wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"))
    time.sleep(5.0)  # the longer a task has run, the longer its end is doubted
    kill(int(pid.read_text()), number)
    time.sleep(0.04)
    kill(launcher, number)
    (end,) = engine.until_ended("cut-1")
    assert (end["cause"], end["exit_code"]) == ("lost", 0)
    assert not (engine.directory / "files" / "o").exists()


@pytest.mark.slow
def test_a_task_that_ends_well_before_the_time_of_its_launcher_is_over(engine: Engine) -> None:
    """What the launcher ends itself does not put the ends of others in doubt."""
    engine.start(cores=2, walltime_s=9)
    left_s = engine.accept()["left_s"]
    engine.run(shell("cut-1", "sleep 600"), shell("cut-2", f"sleep {left_s - 0.5}"))
    ends = engine.until_ended("cut-1", "cut-2")
    assert [end["cause"] for end in ends] == ["expired", "done"]


def test_short_tasks_of_a_launcher_are_not_delayed(engine: Engine) -> None:
    engine.start(walltime_s=3600)
    engine.accept()
    keys = [f"cut-{n}" for n in range(50)]
    engine.run(*[request(key, "true") for key in keys])
    assert {end["cause"] for end in engine.until_ended(*keys)} == {"done"}


# -- memory

GROUPS = Path("/sys/fs/cgroup/memory")
EATER = "import os; x = b'x' * (300 << 20)"


@pytest.fixture
def limited() -> Iterator[list[str]]:
    """Words that run a command within 120 MiB of memory."""
    group = GROUPS / f"wfrun-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(120 << 20))
    except OSError as error:
        pytest.skip(f"no control group for memory: {error}")
    yield ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$0" "$@"']
    wait_for(lambda: not (group / "cgroup.procs").read_text())
    group.rmdir()


def test_a_command_that_is_killed_at_the_memory_limit_of_a_job(
    limited: list[str], job: JobRig
) -> None:
    """Its shell goes on, and only the kernel's count says that it was killed."""
    words = [*limited, "sh", str(job.directory / "bin" / "job.sh"), str(job.directory), "b", "1"]
    task = shell("cut-1", '"$1" -c "$2"; echo x >o', sys.executable, EATER, outputs={"o": "o"})
    (job.directory / "batches" / "b.jsonl").write_bytes(msgspec.json.encode(task) + b"\n")
    job.process = subprocess.Popen(words, start_new_session=True)
    outcome = job.record()["outcome"]
    assert (outcome["cause"], outcome["exit_code"]) == ("memory", 0)
    assert "killed for lack of memory" in outcome["message"]
    assert not (job.directory / "files" / "o").exists()


def test_a_command_that_is_killed_at_the_memory_limit_of_a_launcher(
    limited: list[str], engine: Engine
) -> None:
    engine.start(cores=2, walltime_s=3600, prefix=limited)
    engine.accept()
    eat = '"$1" -c "$2"'
    engine.run(
        request("cut-0", "true"),
        shell("cut-1", f"{eat}; sleep 1; echo x >o", sys.executable, EATER, outputs={"o": "o"}),
    )
    ends = engine.until_ended("cut-0", "cut-1")
    assert [end["cause"] for end in ends] == ["done", "memory"]
    engine.run(shell("cut-2", f"exec {eat}", sys.executable, EATER), shell("cut-3", "sleep 3"))
    ends = engine.until_ended("cut-2", "cut-3")
    assert [end["cause"] for end in ends] == ["memory", "done"], "it is clear which was killed"
    assert not (engine.directory / "files" / "o").exists()
