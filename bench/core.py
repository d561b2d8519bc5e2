"""Measures processor time and memory of the core per task, without I/O.

Steps a layered workflow from its first to its last event over the five sites of the DAS-3, for
every placement policy and for two sizes. The events come from ``wfrun.testing.FakeWorld``; only
processor time inside ``Core.step`` counts. Memory is the growth of the resident set of a fresh
process from before the workflow is made to its peak, the world's own future events included.

    python bench/core.py [--tasks 100000] [--rounds 3] [--family layered]
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from wfrun.engine import events as ev
from wfrun.engine.core.actions import Action
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.parsers.generate import generate
from wfrun.sites.catalog import read_catalog
from wfrun.testing.fake_world import FakeWorld

SECONDS_GOAL = 10.0
GROWTH_GOAL = 1.3
MEMORY_GOAL_BYTES = 2000
CATALOG = Path(__file__).parent.parent / "examples" / "das3.yaml"


def measure(policy: str, family: str, tasks: int) -> dict[str, float]:
    """One run in this process: seconds inside the core, and bytes of memory a task."""
    catalog = read_catalog(CATALOG)
    before = _kilobytes("VmRSS")
    workflow = generate(family, tasks, seed=1)
    count = len(workflow.tasks)
    gc.collect()
    gc.freeze()  # as a session does
    world = FakeWorld([workflow], catalog, ev.Settings(policy=policy), keep_log=False)
    step = world.core.step
    spent_s = 0.0

    def timed(event: ev.Event) -> tuple[list[ev.Event], list[Action]]:
        nonlocal spent_s
        begun_s = time.thread_time()
        result = step(event)
        spent_s += time.thread_time() - begun_s
        return result

    world.core.step = timed  # type: ignore[method-assign]
    if world.run() != "done":
        raise SystemExit(f"{policy}: the run ended as {world.core.state.ended}")
    return {
        "seconds": spent_s,
        "us_per_task": spent_s / count * 1e6,
        "bytes_per_task": (_kilobytes("VmHWM") - before) * 1024 / count,
    }


def _kilobytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def in_fresh_process(policy: str, family: str, tasks: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", policy, "--family", family]
    output = subprocess.run(
        [*command, "--tasks", str(tasks)], check=True, capture_output=True, text=True
    ).stdout
    result: dict[str, float] = json.loads(output)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--family", default="layered")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.family, options.tasks)))
        return
    small = options.tasks // 10
    table = Table(title=f"The core on {options.family}, five sites (medians of {options.rounds})")
    table.add_column("policy", no_wrap=True)
    for heading in (f"s for {options.tasks}", f"µs/task at {small}", f"µs/task at {options.tasks}",
                    "growth", "bytes/task", "goals"):  # fmt: skip
        table.add_column(heading, justify="right")
    for policy in PLACEMENT:
        rounds = [
            (
                in_fresh_process(policy, options.family, small),
                in_fresh_process(policy, options.family, options.tasks),
            )
            for _ in range(options.rounds)
        ]
        seconds = statistics.median(large["seconds"] for _, large in rounds)
        growth = statistics.median(b["us_per_task"] / a["us_per_task"] for a, b in rounds)
        memory = statistics.median(large["bytes_per_task"] for _, large in rounds)
        met = seconds <= SECONDS_GOAL and growth <= GROWTH_GOAL and memory <= MEMORY_GOAL_BYTES
        table.add_row(
            policy,
            f"{seconds:.2f}",
            f"{statistics.median(a['us_per_task'] for a, _ in rounds):.1f}",
            f"{statistics.median(b['us_per_task'] for _, b in rounds):.1f}",
            f"{growth:.2f}",
            f"{memory:.0f}",
            "met" if met else "not met",
        )
    Console().print(table)
    print(f"goals: {SECONDS_GOAL:.0f} s, growth {GROWTH_GOAL}, {MEMORY_GOAL_BYTES} bytes a task")


if __name__ == "__main__":
    main()
