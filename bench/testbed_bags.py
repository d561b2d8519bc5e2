"""Repeats the selection policies of thesis chapter 5 for real, scaled in time, over three clusters.

Bags of several users, drawn as in the study `bags` but shorter, arrive at one engine. It runs
emulated tasks through launchers at two Slurm clusters and Grid Engine, by FPLT. The makespan of a
bag lasts from its arrival to the end of its last task; its NSL is the makespan over the sum of its
run times. Beside it stands a simulation of the same bags at three clusters of these sizes.

On this machine: root and the packages of docs/testbed.md.

    python bench/testbed_bags.py [--rounds 3] [--tasks 400] [--load 0.95] [--seed 0]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

# A script sees its own folder alone.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.shared.on_testbed import SLOTS, times_of, write_sites
from tests.testbed.fixture import bring_up_free
from tests.testbed.testbed import Testbed
from wfrun.engine.model import Catalog, SiteSpec
from wfrun.engine.settings import Settings
from wfrun.parsers.generate.bot_workload import BotWorkload
from wfrun.runners.experiments.cells import Cell
from wfrun.runners.experiments.subjects.workloads import Workloads
from wfrun.runners.run.prepare.prepare import prepare
from wfrun.runners.run.session import Session
from wfrun.runners.simulate.bags import document_of, simulate_bags
from wfrun.runners.simulate.simulation import Platform
from wfrun.sites.catalog import read_catalog

SELECTIONS = ("s-bot", "s-t", "s-u-t", "s-u-rr")
POLICY = "fplt"
"""As in figure 5.7."""
MEAN_RUN_S = 10.0
SITES = tuple(SiteSpec(name, slots) for name, slots in SLOTS.items())
LAUNCHERS = {"alpha": 4, "beta": 8, "gamma": 4}
"""Cores of a launcher at each site."""


class Measured(NamedTuple):
    """Of one run: means over its bags."""

    makespan_s: float
    nsl: float
    simulated_s: float
    simulated_nsl: float
    wait_s: float
    """Mean over the tasks of the time from the arrival of the bag to the start."""
    length_s: float
    """From the first arrival to the last end."""
    launchers_s: float
    """From the first arrival, at which launchers are requested, to the start of the last one."""


def workload_of(tasks: int, load: float, seed: int) -> BotWorkload:
    """The bags of a round. They do not depend on the selection policy."""
    cell = Cell(workload="average", policy=POLICY, load=load, tasks=tasks, seed=seed,
                mean_runtime_s=MEAN_RUN_S)  # fmt: skip
    return Workloads().workload_of(cell, SITES)


def measure(testbed: Testbed, workload: BotWorkload, selection: str) -> Measured:
    """Run the bags at the clusters, and simulate them."""
    work_s = [sum(bag.runtime_s) for bag in workload.bags]
    with tempfile.TemporaryDirectory(prefix="wfrun-bench-") as place:
        folder = Path(place)
        run(testbed, folder, workload, selection)
        times = times_of(folder / "run")
    ends_s = [0.0] * len(workload.bags)
    for (bag, _), ended_s in times.ended.items():
        ends_s[bag] = max(ends_s[bag], ended_s)
    made_s = [end_s - times.came[bag] for bag, end_s in enumerate(ends_s)]
    settings = Settings(policy=POLICY, selection=selection)
    simulated = simulate_bags(workload, Platform(Catalog(SITES)), "csp", settings)
    return Measured(
        *means(made_s, work_s),
        *means(simulated.makespans_s, work_s),
        statistics.mean(at_s - times.came[key[0]] for key, at_s in times.started.items()),
        max(ends_s) - times.came[0],
        times.launchers_s - times.came[0],
    )


def means(makespans_s: Sequence[float], work_s: Sequence[float]) -> tuple[float, float]:
    """Mean makespan, and mean NSL, of the bags."""
    nsl = [made_s / one_s for made_s, one_s in zip(makespans_s, work_s, strict=True)]
    return statistics.mean(makespans_s), statistics.mean(nsl)


def run(testbed: Testbed, folder: Path, workload: BotWorkload, selection: str) -> None:
    """Run the bags to their end."""
    more = {
        name: {
            "dispatch": "launchers",
            "launchers": {"cores": cores, "min": SLOTS[name] // cores, "backlog": SLOTS[name]},
        }
        for name, cores in LAUNCHERS.items()
    }
    catalog = read_catalog(write_sites(testbed, folder, **more))
    documents = [
        document_of(f"bag-{number}", bag, bag.estimate_s, 0)
        for number, bag in enumerate(workload.bags)
    ]
    settings = Settings(policy=POLICY, selection=selection, emulate=True)
    plan = prepare(documents, catalog, settings, at_sites=True, needs_files=False)
    session = Session()
    arrivals_s = [bag.arrival_s for bag in workload.bags]
    session.start(plan, folder / "run", "run", arrivals_s=arrivals_s)
    state = asyncio.run(session.drive())
    if state.ended != "done":
        raise RuntimeError(f"the run ended: {state.ended} {state.end_reason}")


def main() -> int:
    """Print the means of each policy, and beside them those of each round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=400)
    parser.add_argument("--load", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=0, help="of the first round")
    asked = parser.parse_args()
    found: dict[str, list[Measured]] = {name: [] for name in SELECTIONS}
    testbed = bring_up_free()
    try:
        for seed in range(asked.seed, asked.seed + asked.rounds):
            workload = workload_of(asked.tasks, asked.load, seed)
            print(f"{len(workload.bags)} bags in {workload.span_s:.0f} s", flush=True)
            for name in SELECTIONS:
                found[name].append(measure(testbed, workload, name))
                print(seed, name, found[name][-1], flush=True)
    finally:
        testbed.down()
    for name, runs in found.items():
        made_s, nsl, simulated_s, simulated_nsl, wait_s, length_s, launchers_s = (
            statistics.mean(column) for column in zip(*runs, strict=True)
        )
        each = ", ".join(f"{one.nsl:.2f}" for one in runs)
        print(
            f"{name:6} makespan {made_s:6.1f} s, simulated {simulated_s:6.1f} s  "
            f"NSL {nsl:5.2f} ({each}), simulated {simulated_nsl:5.2f}  "
            f"wait {wait_s:5.1f} s  length {length_s:.0f} s  launchers {launchers_s:.0f} s"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
