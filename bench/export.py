"""Measures `wfrun export` on a run of many tasks.

    python bench/export.py [--tasks N]

A workflow of N tasks (100,000), half of which read a file of another one each, is simulated on two
sites. Then it is exported in each format: processor seconds, maximum memory, and size. The first
row is `wfrun stats`, which also reads the whole log. The target is 15 processor seconds and 400 MB
for each format.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from multiprocessing import Process
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a script sees its own folder alone

from bench.explain import SITES, WFRUN, pairs  # noqa: E402
from wfrun.engine.settings import Settings  # noqa: E402
from wfrun.runners.simulate.simulated_run import simulate_into  # noqa: E402
from wfrun.runners.simulate.simulation import Platform  # noqa: E402

TARGET_S, TARGET_MB = 15.0, 400.0
OUTPUTS = {
    "w.json": "wfformat", "w-crate": "ro-crate", "w.zip": "ro-crate", "w.csv": "trace",
    "w.gwf": "trace", "w.swf": "trace",
}  # fmt: skip


def measured(words: list[str]) -> tuple[float, float]:
    """Processor seconds and maximum memory in MB of a command of wfrun."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    argv, actions = [*WFRUN, *words], [(os.POSIX_SPAWN_DUP2, quiet, 1)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pid = os.posix_spawn(argv[0], argv, environment, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    os.close(quiet)
    if status:
        raise SystemExit(f"{' '.join(words)}: exit status {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def simulated(run: Path, tasks: int) -> None:
    simulate_into(run, [pairs(tasks // 2)], Platform(SITES), Settings("all-clusters"))


def size_mb(path: Path) -> float:
    files = [path] if path.is_file() else path.iterdir()
    return sum(file.stat().st_size for file in files) / 1e6


def main() -> int:
    """Print the table. Returns the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = folder / "run"
        # In a process of its own: a child begins with the maximum memory of this one.
        simulation = Process(target=simulated, args=(run, options.tasks))
        simulation.start()
        simulation.join()
        print(f"{'':10} {'processor s':>12} {'memory MB':>10} {'size MB':>8}")
        base = measured(["stats", str(run), "--json"])
        print(f"{'stats':10} {base[0]:12.1f} {base[1]:10.0f}", flush=True)
        is_met = True
        for output, form in OUTPUTS.items():
            path = folder / output
            words = ["export", str(run), "--format", form, "-o", str(path)]
            processor_s, memory_mb = measured(words)
            print(f"{output:10} {processor_s:12.1f} {memory_mb:10.0f} {size_mb(path):8.1f}",
                  flush=True)  # fmt: skip
            is_met = is_met and processor_s <= TARGET_S and memory_mb <= TARGET_MB
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
