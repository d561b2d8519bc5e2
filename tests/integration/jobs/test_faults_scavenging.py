"""Faults while owners scavenge on a real cluster: each task is done once, and nothing is left."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from random import Random

import pytest

from tests.integration.jobs.coallocated import kill
from tests.integration.jobs.scavengers import Scavengers
from tests.testbed import faults, processes
from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev

MOMENTS = os.environ.get("WFRUN_FAULT_MOMENTS", "1")
"""Number of random moments for each fault."""


@pytest.mark.slow
@pytest.mark.testbed
@pytest.mark.parametrize("fault", ["launcher", "site", "engine", "connection"])
@pytest.mark.parametrize("seed", range(int(MOMENTS)))
def test_a_fault_at_a_random_moment(
    fault: str, seed: int, testbed: Testbed, tmp_path: Path
) -> None:
    """Beside another user, so that processors are given back and taken again."""
    random = Random(f"{fault} {seed}")
    run = Scavengers(testbed, tmp_path)
    run.write_sweeps("alpha", tasks=40, seconds=2)
    try:
        engine = run.start("--scavenge", random.choice(["persite", "all"]), "--retries", "0")
        processes.wait_until(lambda: run.count(ev.AttemptStarted) > 0, "the start")
        local = run.local_job("alpha", 8, 3)
        time.sleep(random.uniform(0.0, 8.0))  # A moment, not a condition: it is what is tested.
        if fault == "launcher":
            found = run.processes_at("alpha", "batch_launcher.py")
            kill(random.sample(found, min(1, len(found))))
        elif fault == "site":
            kill(run.processes_at("alpha", ""))
        elif fault == "connection":
            faults.cut(testbed, "alpha")
        else:
            engine.send_signal(signal.SIGKILL)
            engine.wait()
            engine = run.start()
        local.waited_s()
        run.done(engine, 300.0)
    finally:
        run.close()
    run.check_done("lost", "node", "signal", "preempted", "expired")
    run.check_quiet()
