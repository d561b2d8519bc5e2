"""Measures how long a workload of bags takes to simulate: 60,000 tasks, 20 clusters, each policy.

python bench/bags.py [--rounds N] [--load X] [--tasks N] [--architecture NAME]
"""

from __future__ import annotations

import argparse
import statistics
import time

from rich.console import Console
from rich.table import Table

from wfrun.engine.events import Settings
from wfrun.runners.experiments.cells import Cell
from wfrun.runners.experiments.subjects.workloads import POLICIES, TASKS, Workloads, row_of
from wfrun.runners.simulate.bags import simulate_bags
from wfrun.runners.simulate.das3_grid5000 import das3_grid5000
from wfrun.runners.simulate.simulation import Platform

GOAL_S = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--load", type=float, default=0.6)
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--architecture", default="csp")
    options = parser.parse_args()
    platform = Platform(das3_grid5000())
    cell = Cell(workload="average", policy="", load=options.load, tasks=options.tasks)
    begun_s = time.process_time()
    workload = Workloads().workload_of(cell, platform.catalog.sites)
    made_s = time.process_time() - begun_s
    table = Table(
        title=f"{workload.tasks:,} tasks in {len(workload.bags):,} bags on 20 clusters, load "
        f"{options.load:g}, {options.architecture}, s-t (medians of {options.rounds})"
    )
    table.add_column("policy", no_wrap=True)
    for heading in ("CPU s", "best", "attempts", "µs/attempt", "goal"):
        table.add_column(heading, justify="right")
    for policy in POLICIES:
        spent_s = []
        for _ in range(options.rounds):
            begun_s = time.process_time()
            run = simulate_bags(
                workload, platform, options.architecture, Settings(policy=policy, selection="s-t")
            )
            spent_s.append(time.process_time() - begun_s)
        attempts = (row_of(cell, run).replicas_started or 0) + workload.tasks
        median_s = statistics.median(spent_s)
        table.add_row(
            policy,
            f"{median_s:.2f}",
            f"{min(spent_s):.2f}",
            f"{attempts:,}",
            f"{median_s / attempts * 1e6:.0f}",
            "met" if median_s <= GOAL_S else "not met",
        )
    Console().print(table)
    print(f"goal: {GOAL_S:g} s for each policy; the workload itself takes {made_s:.2f} s to make")


if __name__ == "__main__":
    main()
