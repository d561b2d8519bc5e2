"""Repeats experiments on parallel jobs for real, scaled in time, over three clusters.

Jobs of a generated log arrive at two Slurm clusters and Grid Engine, sleep for their run times, and
are sent by:

1. strategies of the Journal of Grid Computing paper (2011): MPL and LBal_S, which know sizes alone,
   and MST and MCT, which ask for plans;
2. MCT with and without reallocation (RR-7365), by MCT with cancellation.

Users request two to five times the run time. The bounded slowdown has a bound of 1 s. On this
machine: root and the packages of docs/testbed.md.

    python bench/testbed_jobs.py [--rounds 3] [--jobs 100] [--load 0.9]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import NamedTuple

# A script sees its own folder alone.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.shared.on_testbed import SLOTS, WFRUN, times_of, write_sites
from tests.testbed.fixture import bring_up_free

SIZES = (1, 2, 4)
MEAN_RUN_S, LONGEST_S = 12.0, 60.0
SCALE = 0.01
"""Of the log: its jobs run for hours."""
VARIANTS: dict[str, tuple[str, ...]] = {
    "mpl": ("--allocate", "mpl"),
    "lbal-s": ("--allocate", "lbal-s"),
    "mst": ("--allocate", "mst"),
    "mct": ("--allocate", "mct"),
    "mct, reallocated": (
        "--allocate", "mct", "--reallocate", "mct-can", "--every", "10s", "--min-gain", "1s",
    ),
}  # fmt: skip


class Measured(NamedTuple):
    """Of one run: means over its jobs."""

    wait_s: float
    response_s: float
    slowdown: float
    moves: int


def log(jobs: int, load: float, seed: int) -> str:
    """A log in SWF whose jobs use this share of the clusters while they arrive."""
    random = Random(seed)
    lines, at_s = ["; Version: 2.2"], 0.0
    between_s = statistics.mean(SIZES) * MEAN_RUN_S / (load * sum(SLOTS.values()))
    for number in range(1, jobs + 1):
        run_s = min(LONGEST_S, max(1.0, random.expovariate(1 / MEAN_RUN_S)))
        asked_s = run_s * random.uniform(2, 5)
        size = random.choice(SIZES)
        at, run, asked = (round(value / SCALE) for value in (at_s, run_s, asked_s))
        lines.append(f"{number} {at} 0 {run} {size} -1 -1 {size} {asked} -1 1 1 1 1 1 -1 -1 -1")
        at_s += random.expovariate(1 / between_s)
    return "\n".join(lines) + "\n"


def measure(folder: Path, options: tuple[str, ...]) -> Measured:
    """Run the log."""
    argv = [sys.executable, "-c", WFRUN, "jobs", "log.swf", "--sites", "sites.yaml", "-q"]
    argv += ["--emulate", "--arrivals", "--time-scale", str(SCALE), "--run-dir", "run", *options]
    subprocess.run(argv, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=900)
    times = times_of(folder / "run")
    came, started, ended = times.came, times.started, times.ended
    responses = {job: ended[job] - came[job[0]] for job in ended}
    runs = {job: max(1.0, ended[job] - started[job]) for job in ended}
    return Measured(
        statistics.mean(started[job] - came[job[0]] for job in ended),
        statistics.mean(responses.values()),
        statistics.mean(max(1.0, responses[job] / runs[job]) for job in ended),
        times.moves,
    )


def main() -> int:
    """Print the means of each variant, and beside them those of each round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--load", type=float, default=0.9)
    asked = parser.parse_args()
    found: dict[str, list[Measured]] = {name: [] for name in VARIANTS}
    testbed = bring_up_free()
    try:
        for seed in range(asked.rounds):
            for name, options in VARIANTS.items():
                with tempfile.TemporaryDirectory(prefix="wfrun-bench-") as place:
                    folder = Path(place)
                    (folder / "log.swf").write_text(log(asked.jobs, asked.load, seed))
                    write_sites(testbed, folder)
                    found[name].append(measure(folder, options))
                print(seed, name, found[name][-1], flush=True)
    finally:
        testbed.down()
    for name, runs in found.items():
        means = [statistics.mean(column) for column in zip(*runs, strict=True)]
        each = ", ".join(f"{run.slowdown:.2f}" for run in runs)
        print(
            f"{name:18} wait {means[0]:6.1f} s  response {means[1]:6.1f} s  "
            f"slowdown {means[2]:5.2f} ({each})  moves {means[3]:.1f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
