"""Whatever is killed, again and again, at any moment: every task succeeds once."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from random import Random

import pytest

from tests.integration.clusters import Grid
from tests.integration.launchers.test_launchers_faults import launchers
from tests.runners.harness import Engine, kill
from tests.soak.audit import check_record

TASKS = 150
SITES = ("alpha", "beta")
VICTIMS = ("engine", "agent.py", "batch_launcher.py", "job.py", "task")


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_random(grid: Grid, seed: int) -> None:
    random = Random(seed)
    grid.bag(TASKS, 0.3)
    keys = {"channels": "spool"} if seed % 3 == 1 else {}
    catalog = grid.catalog(*SITES, changes=dict.fromkeys(SITES, launchers(**keys)))
    engine = grid.start(catalog, "--retries", "12", "--retry-delay", "0.05")
    grid.wait_begun(engine, 8)
    while len(grid.done()) < 0.9 * TASKS and not engine.ended:
        engine = kill_one(grid, engine, random)
        time.sleep(random.uniform(1, 3))
    grid.check(grid.finish(engine), once=False)
    check_record(grid, grid.events())


def kill_one(grid: Grid, engine: Engine, random: Random) -> Engine:
    """One of all that a run consists of. Returns the engine that lives then."""
    victim = random.choice(VICTIMS)
    if victim == "engine":
        engine.kill()
        return grid.resume()
    found = grid.processes_at(random.choice(SITES))
    if victim == "task":
        pids = [pid for pid, line in found if "echo begin:" in line]
        with contextlib.suppress(ProcessLookupError):  # It has ended.
            for pid in random.sample(pids, min(1, len(pids))):
                os.killpg(os.getpgid(pid), signal.SIGKILL)
        return engine
    pids = [pid for pid, line in found if victim in line and "python" in line]
    kill(random.sample(pids, min(1, len(pids))))
    return engine
