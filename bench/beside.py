"""Measures the core and simulations beside those of another commit, in one run.

    git clone . ../before && git -C ../before checkout d9f5f0a
    python bench/beside.py ../before [--rounds 7]

Both run the same workflows in fresh processes that take turns: a layered workflow of 20,000 tasks
through the core alone, as `core.py` measures it, and Montage_1000 in simulations. A ratio is the
least time of this checkout over the least time of the other one, so that noise counts little. What
this checkout does for real files, which a simulation has none of, is measured apart.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent.parent
CORPUS = Path(os.environ.get("WFRUN_CORPUS") or HERE.parent / "shared" / "data")

CORE = """
import gc, sys, time
from wfrun.engine import events as ev
from wfrun.parsers.generate import generate
try:
    from wfrun.sites.catalog import read_catalog
    from wfrun.testing.fake_world import FakeWorld as World
except ImportError:
    from wfrun.parsers.catalog import read_catalog
    from wfrun.testing.world import World
policy, options = sys.argv[1], eval(sys.argv[2])
workflow = generate("layered", 20000, seed=1)
gc.collect()
gc.freeze()
catalog = read_catalog("examples/das3.yaml")
world = World([workflow], catalog, ev.Settings(policy=policy), keep_log=False, **options)
step, spent_s = world.core.step, 0.0
def timed(event):
    global spent_s
    begun_s = time.thread_time()
    result = step(event)
    spent_s += time.thread_time() - begun_s
    return result
world.core.step = timed
assert world.run() == "done"
print(spent_s / len(workflow.tasks) * 1e6)
"""
"""Prints microseconds of the core for each task."""

SIMULATION = """
import sys
sys.path.insert(0, "bench")
import simulation
workflow = simulation.montage()
times_s = [simulation.simulated_s(workflow, sys.argv[1]) for _ in range(4)]
print(min(times_s) / len(workflow.tasks) * 1e6)
"""
"""Prints microseconds of a simulation for each task."""


def measured(checkout: Path, program: str, *words: str) -> float:
    """The number that a program prints, run with the code of a checkout."""
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        check=True, capture_output=True, text=True, cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout), "WFRUN_CORPUS": str(CORPUS)},
    )  # fmt: skip
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("before", type=Path, help="a checkout of the other commit")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    before = options.before.resolve()
    simulated, real = "{'own_outputs': False}", "{'own_outputs': True}"
    rows: list[tuple[str, str, str, tuple[str, ...], float]] = []
    for policy in ("cluster-min", "heft", "round-robin"):
        rows.append((f"core, {policy}", CORE, policy, (simulated,), 1.0))
        rows.append((f"core with real files, {policy}", CORE, policy, (real,), 1.0))
    for policy in ("cluster-min", "heft", "file-aware", "single-cluster", "round-robin"):
        rows.append((f"Montage_1000, {policy}", SIMULATION, policy, (), 1 / 1.2))
    table = Table(title=f"µs a task, least of {options.rounds}")
    table.add_column("what", no_wrap=True)
    for heading in ("before", "now", "ratio", "at most"):
        table.add_column(heading, justify="right")
    for what, program, policy, now, most in rows:
        pairs = [
            (
                measured(before, program, policy, *(["{}"] if now else [])),
                measured(HERE, program, policy, *now),
            )
            for _ in range(options.rounds)
        ]
        least = [min(times) for times in zip(*pairs, strict=True)]
        ratio = least[1] / least[0]
        table.add_row(what, *(f"{us:.1f}" for us in least), f"{ratio:.2f}", f"{most:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
