"""Parallel jobs that wait behind another user's flood move to other clusters, each exactly once,
although jobs cannot be cancelled and the engine dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml

from tests.testbed import faults, processes
from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev
from wfrun.runners.run.store.event_store import Store

JOBS = 12
FLOOD = ["-o", "/dev/null", "--nice=-5000", "-p", "main", "-N", "4", "--ntasks-per-node", "4"]
WFRUN = "import sys; from wfrun.runners.cli.main import main; sys.exit(main())"


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", WFRUN, *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def log_of(run: Path) -> list[ev.Event]:
    store = Store(run)
    try:
        return list(store.load())
    finally:
        store.close()


def prepare(testbed: Testbed, folder: Path) -> None:
    entries = yaml.safe_load(testbed.layout.catalog.read_text())["sites"]
    chosen = {name: {**entries[name], "poll_min": 0.5} for name in ("alpha", "gamma")}
    folder.joinpath("sites.yaml").write_text(yaml.safe_dump({"sites": chosen}))
    ran = testbed.layout.directory / "ran"
    ran.touch()
    ran.chmod(0o666)
    jobs = "".join(f"  - {{job: j{number}}}\n" for number in range(JOBS))
    folder.joinpath("jobs.yaml").write_text(
        f"command: [sh, -c, 'sleep 2; echo {{job}} {{size}} >> {ran}; cat data']\nstdout: out\n"
        f"inputs: [data]\nppn: 4\nwalltime: {{4: 60, 8: 60}}\njobs:\n{jobs}"
    )
    folder.joinpath("data").write_text("data\n")


@pytest.mark.slow
@pytest.mark.testbed
def test_jobs_leave_a_flooded_queue_exactly_once(testbed: Testbed, tmp_path: Path) -> None:
    prepare(testbed, tmp_path)
    moves = ["--size", "binary", "--reallocate", "mct-reg", "--every", "3s", "--min-gain", "5"]
    engine = start(
        tmp_path, "jobs", "jobs.yaml", "--sites", "sites.yaml", "--run-dir", "run", "-q", *moves
    )
    run = tmp_path / "run"
    at_alpha = testbed.layout.environment(testbed.layout.site("alpha"))

    def seen(kind: type[ev.Event]) -> int:
        assert engine.poll() is None
        return (
            sum(isinstance(e, kind) for e in log_of(run)) if (run / "events.sqlite").exists() else 0
        )

    processes.wait_until(lambda: seen(ev.AttemptStarted) > 0, "the first job")
    for _ in range(2):
        processes.run(["sbatch", *FLOOD, "-t", "2", "--wrap", "sleep 40"], at_alpha)
    faults.misbehave(testbed, "alpha", "scancel", "refuse")
    processes.wait_until(lambda: seen(ev.JobsReallocated) > 0, "moves")
    os.kill(engine.pid, signal.SIGKILL)
    engine.wait()
    engine = start(tmp_path, "resume", "run", "-q")
    assert engine.wait(120) == 0
    processes.run(["scancel", "-u", "root"], at_alpha, check=False)
    time.sleep(5)  # jobs that could not be cancelled start, and find their attempts claimed
    ran = (testbed.layout.directory / "ran").read_text().splitlines()
    assert Counter(line.split()[0] for line in ran) == {f"j{n}": 1 for n in range(JOBS)}
    assert all((run / f"outputs/j{n}/out").read_text() == "data\n" for n in range(JOBS))
