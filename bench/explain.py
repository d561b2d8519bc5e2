"""Measures `wfrun explain` on a run of many tasks.

    python bench/explain.py [--tasks N] [--rounds N]

A workflow of N tasks (100,000), half of which read a file of another one each, is simulated on two
sites, once for each of some policies. Then tasks from its start to its end are explained, as a user
does it, from the start of the command to its end: processor seconds, and seconds. The target is a
median of 0.5 s on an idle machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a script sees its own folder alone

from wfrun import File, Task, Workflow  # noqa: E402
from wfrun.engine.model import Catalog, SiteSpec  # noqa: E402
from wfrun.engine.settings import Settings  # noqa: E402
from wfrun.runners.simulate.simulated_run import simulate_into  # noqa: E402
from wfrun.runners.simulate.simulation import Platform  # noqa: E402

TARGET_S = 0.5
POLICIES = "all-clusters", "file-aware", "heft"
SITES = Catalog((SiteSpec("a", 20), SiteSpec("b", 30, 1.5)), ())
WFRUN = (sys.executable, "-m", "wfrun.runners.cli.main")


def pairs(count: int) -> Workflow:
    """Pairs of a task that writes a file and one that reads it."""
    files = [File(f"f{n}", size_bytes=10**6, producer=2 * n) for n in range(count)]
    tasks: list[Task] = []
    for n in range(count):
        tasks.append(Task(f"w{n}", "w", "w", outputs=(n,), runtime_s=1.0 + n % 7))
        tasks.append(Task(f"r{n}", "r", "r", inputs=(n,), runtime_s=2.0 + n % 5))
    parents = [() if n % 2 == 0 else (n - 1,) for n in range(2 * count)]
    return Workflow("pairs", "pairs.dax", tasks, files, parents)


def took(run: Path, task: str) -> tuple[float, float]:
    """Processor seconds and seconds of an explanation."""
    before, began_s = os.times(), time.monotonic()
    subprocess.run([*WFRUN, "explain", str(run), task], cwd=ROOT, check=True, capture_output=True)
    after = os.times()
    user_s = after.children_user - before.children_user
    return user_s + after.children_system - before.children_system, time.monotonic() - began_s


def main() -> int:
    """Print the table. Returns the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    workflow, worst_s = pairs(options.tasks // 2), 0.0
    print(f"{'policy':14} {'processor s':>12} {'median s':>9} {'longest s':>10}")
    for policy in POLICIES:
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            settings = Settings(policy, throttle=200 if policy != "heft" else None)
            simulate_into(run, [workflow], Platform(SITES), settings)
            step = max(1, len(workflow.tasks) // options.rounds)
            tasks = [task.id for task in workflow.tasks[step // 2 :: step]]
            times = [took(run, task) for task in tasks]
        processor_s, median_s = (statistics.median(column) for column in zip(*times, strict=True))
        longest_s = max(elapsed_s for _, elapsed_s in times)
        print(f"{policy:14} {processor_s:12.2f} {median_s:9.2f} {longest_s:10.2f}", flush=True)
        worst_s = max(worst_s, median_s)
    return 0 if worst_s <= TARGET_S else 1


if __name__ == "__main__":
    sys.exit(main())
