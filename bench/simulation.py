"""Measures the speed of simulated runs, and how their cost grows.

First Montage of 1,000 tasks on the five sites of the DAS-3 under every policy: tasks placed, run
and reported a second of processor time, in one process. Then layered workflows of 10,000, 100,000
and, with ``--large``, 1,000,000 tasks, each in a fresh process: processor time of the simulation
alone, and the peak of the process's memory, the workflow included.

    python bench/simulation.py [--rounds 5] [--policy round-robin] [--large]

Montage_1000 of the WorkflowSim collection is used where WFRUN_CORPUS names a folder that has it in
``dax/synthetic``, else one that is generated.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from wfrun.engine import events as ev
from wfrun.engine.model import Workflow
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.parsers.generate import generate
from wfrun.parsers.read import read_workflow
from wfrun.runners.simulate.simulation import Platform, simulate
from wfrun.sites.catalog import read_catalog

ROOT = Path(__file__).parent.parent
CATALOG = ROOT / "examples" / "das3.yaml"
CORPUS = Path(os.environ.get("WFRUN_CORPUS") or ROOT.parent / "shared" / "data")

TASKS_PER_S_GOAL = 20_000
GOALS = {100_000: (12.0, 500e6), 1_000_000: (180.0, 4e9)}
"""Seconds of processor time and bytes of memory by number of tasks."""
GROWTH_GOAL = 1.5
"""Processor time per task, relative to that of 10,000 tasks."""


def montage() -> Workflow:
    """The workflow of the first table."""
    path = CORPUS / "dax" / "synthetic" / "Montage_1000.xml"
    # Its files have several producers, of which emulation takes the declared parent.
    return read_workflow(path, emulate=True) if path.exists() else generate("montage", 1000, seed=1)


def simulated_s(workflow: Workflow, policy: str) -> float:
    """Processor time of one run."""
    world = Platform(read_catalog(CATALOG))
    begun_s = time.process_time()
    state = simulate([workflow], world, ev.Settings(policy=policy))
    spent_s = time.process_time() - begun_s
    if state.ended != "done":
        raise SystemExit(f"{policy}: the run ended as {state.ended}")
    return spent_s


def table_of_policies(rounds: int) -> Table:
    """Policies take turns, so that noise hits all alike."""
    workflow = montage()
    spent_s: dict[str, list[float]] = {policy: [] for policy in PLACEMENT}
    for _ in range(rounds):
        for policy in PLACEMENT:
            spent_s[policy].append(simulated_s(workflow, policy))
    table = Table(
        title=f"{workflow.name}, {len(workflow.tasks)} tasks, five sites (medians of {rounds})"
    )
    table.add_column("policy", no_wrap=True)
    for heading in ("ms", "tasks/s", "best", "goal"):
        table.add_column(heading, justify="right")
    for policy, times_s in spent_s.items():
        median_s = statistics.median(times_s)
        rate = len(workflow.tasks) / median_s
        table.add_row(
            policy,
            f"{median_s * 1e3:.1f}",
            f"{rate:,.0f}",
            f"{len(workflow.tasks) / min(times_s):,.0f}",
            "met" if rate >= TASKS_PER_S_GOAL else "not met",
        )
    return table


def measure(policy: str, tasks: int) -> dict[str, float]:
    """One run in this process."""
    workflow = generate("layered", tasks, seed=1)
    spent_s = simulated_s(workflow, policy)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"tasks": len(workflow.tasks), "seconds": spent_s, "bytes": peak_bytes}


def in_fresh_process(policy: str, tasks: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", str(tasks), "--policy", policy]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result: dict[str, float] = json.loads(output)
    return result


def table_of_sizes(policy: str, rounds: int, *, large: bool) -> Table:
    sizes = [10_000, 100_000, *([1_000_000] if large else [])]
    table = Table(title=f"layered, {policy}, five sites (medians; the largest is run once)")
    for heading in ("tasks", "s", "µs/task", "growth", "MB", "goals"):
        table.add_column(heading, justify="right")
    first_us = 0.0
    for size in sizes:
        results = [
            in_fresh_process(policy, size) for _ in range(1 if size == 1_000_000 else rounds)
        ]
        seconds = statistics.median(result["seconds"] for result in results)
        peak_bytes = statistics.median(result["bytes"] for result in results)
        us = seconds / results[0]["tasks"] * 1e6
        first_us = first_us or us
        goal_s, goal_bytes = GOALS.get(size, (float("inf"), float("inf")))
        met = seconds <= goal_s and peak_bytes <= goal_bytes and us <= GROWTH_GOAL * first_us
        table.add_row(
            f"{size:,}",
            f"{seconds:.2f}",
            f"{us:.1f}",
            f"{us / first_us:.2f}",
            f"{peak_bytes / 1e6:.0f}",
            "met" if met else "not met",
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--policy", default="round-robin", help="of the second table")
    parser.add_argument("--large", action="store_true", help="1,000,000 tasks too")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.policy, options.one)))
        return
    console = Console()
    console.print(table_of_policies(options.rounds))
    console.print(table_of_sizes(options.policy, min(3, options.rounds), large=options.large))
    print(
        f"goals: {TASKS_PER_S_GOAL:,} tasks/s; "
        + "; ".join(f"{n:,} tasks in {s:.0f} s, {b / 1e6:.0f} MB" for n, (s, b) in GOALS.items())
        + f"; growth {GROWTH_GOAL}"
    )


if __name__ == "__main__":
    main()
