"""Measures how near the throttle that tunes itself is to the best fixed one.

For every workflow, policy and platform: the makespan with ``auto`` and without a throttle, relative
to the best of the throttles of 1/4 to 4 times the slots of the platform and none; means over
seeds. Then random layered workflows on one site: makespans relative to the lower bound, the longest
of the critical path and the work per core.

    python bench/throttle.py [--sizes 100,1000] [--policies heft,heft-p] [--seeds 5]

Workflows are generated. Documents of the WorkflowSim collection with as many tasks are measured,
too, where WFRUN_CORPUS names a folder that has them in ``dax/synthetic``.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from wfrun.engine import events as ev
from wfrun.engine.model import Catalog, LinkSpec, SiteSpec, Workflow
from wfrun.engine.tasks.graph import topological_order
from wfrun.parsers.generate import generate
from wfrun.parsers.read import read_workflow
from wfrun.runners.experiments.cells import Throttle
from wfrun.runners.simulate.simulation import Platform, simulate

ROOT = Path(__file__).parent.parent
CORPUS = Path(os.environ.get("WFRUN_CORPUS") or ROOT.parent / "shared" / "data")

FAMILIES = ("montage", "cybershake", "inspiral", "sipht", "epigenomics", "layered")
RATIOS = (0.25, 0.5, 1.0, 1.5, 2.0, 4.0)
"""Fixed throttles, relative to the slots of the platform."""
PLATFORMS: dict[str, Sequence[tuple[int, float]]] = {
    "8": [(8, 1.0)],
    "16": [(16, 1.0)],
    "64": [(64, 1.0)],
    "16, 16": [(16, 1.0), (16, 1.0)],
    "8, 32": [(8, 1.0), (32, 1.0)],
    "8, 16, 32": [(8, 1.0), (16, 1.0), (32, 1.0)],
    "16, 16 fast": [(16, 1.0), (16, 2.0)],
    "8 fast, 16, 64 slow": [(8, 2.0), (16, 1.0), (64, 0.5)],
    "8 very fast, 32": [(8, 4.0), (32, 1.0)],
}
"""Slots and speeds of the sites."""
BANDWIDTH_BYTES_PER_S, LATENCY_S = 100e6, 0.001
"""Of each link."""
DOCUMENTS = {100: ("*_100.xml",), 1000: ("*_1000.xml", "*_997.xml")}
"""Documents of the collection by number of tasks."""
GOAL = 1.02
"""Makespan relative to the best fixed throttle, mean over the platforms."""
BOUND_GOAL = 1.008
"""Makespan relative to the lower bound."""


def catalog_of(sites: Sequence[tuple[int, float]]) -> Catalog:
    names = [f"site{number}" for number in range(len(sites))]
    specs = (SiteSpec(n, slots, speed) for n, (slots, speed) in zip(names, sites, strict=True))
    links = (
        LinkSpec(a, b, BANDWIDTH_BYTES_PER_S, LATENCY_S) for a in names for b in names if a != b
    )
    return Catalog(tuple(specs), tuple(links))


def makespan_s(workflow: Workflow, catalog: Catalog, policy: str, throttle: Throttle) -> float:
    settings = ev.Settings(policy, throttle="none" if throttle is None else throttle)
    state = simulate([workflow], Platform(catalog), settings)
    if state.ended != "done":
        raise SystemExit(f"{workflow.name}, {policy}, {throttle}: the run ended as {state.ended}")
    return state.now_s


def subjects(sizes: Sequence[int], seeds: int) -> Iterator[tuple[str, list[Workflow]]]:
    """Workflows whose makespans are averaged, with a label."""
    for family in FAMILIES:
        for size in sizes:
            label = f"{family} {size}"
            yield label, [generate(family, size, seed) for seed in range(seeds)]
    for pattern in (pattern for size in sizes for pattern in DOCUMENTS.get(size, ())):
        for path in sorted((CORPUS / "dax" / "synthetic").glob(pattern)):
            yield path.stem, [read_workflow(path, emulate=True)]


def compare(workflows: Sequence[Workflow], policy: str, platform: str) -> dict[str, float]:
    """Mean makespans relative to the best fixed throttle."""
    catalog = catalog_of(PLATFORMS[platform])
    slots = sum(site.slots for site in catalog.sites)
    throttles: dict[str, Throttle] = {"none": None, "auto": "auto"}
    throttles |= {f"{ratio:g}": max(1, int(ratio * slots)) for ratio in RATIOS}
    means = {
        name: statistics.fmean(makespan_s(w, catalog, policy, throttle) for w in workflows)
        for name, throttle in throttles.items()
    }
    best = min(mean for name, mean in means.items() if name != "auto")
    return {name: mean / best for name, mean in means.items()}


def table_of(policy: str, sizes: Sequence[int], seeds: int) -> Table:
    names = ["none", *(f"{ratio:g}" for ratio in RATIOS), "auto"]
    table = Table(title=f"{policy}: makespan relative to the best fixed throttle of each platform")
    table.add_column("workflow", no_wrap=True)
    for heading in (*names, "worst of auto", "goal"):
        table.add_column(heading, justify="right")
    for label, workflows in subjects(sizes, seeds):
        found = {p: compare(workflows, policy, p) for p in PLATFORMS}
        means = [statistics.fmean(one[name] for one in found.values()) for name in names]
        worst = max(found, key=lambda p: found[p]["auto"])
        table.add_row(
            label,
            *(f"{mean:.3f}" for mean in means),
            f"{found[worst]['auto']:.3f} ({worst})",
            "met" if means[-1] <= GOAL else "not met",
        )
    return table


def lower_bound_s(workflow: Workflow, slots: int) -> float:
    runtimes_s = [task.runtime_s or 0.0 for task in workflow.tasks]
    end_s = [0.0] * len(runtimes_s)
    children = [tuple(children) for children in workflow.children()]
    for task in topological_order(workflow.parents, children):
        begin_s = max((end_s[parent] for parent in workflow.parents[task]), default=0.0)
        end_s[task] = begin_s + runtimes_s[task]
    return max(*end_s, sum(runtimes_s) / slots)


def table_of_bounds(policy: str, seeds: int) -> Table:
    table = Table(title=f"{policy}: random layered workflows on one site, of the lower bound")
    for heading in ("tasks", "slots", "none", "slots as throttle", "auto", "goal"):
        table.add_column(heading, justify="right")
    for tasks in (50, 100, 300):
        for slots in (2, 4, 8, 16):
            catalog = catalog_of([(slots, 1.0)])
            ratios: dict[Throttle, list[float]] = {None: [], slots: [], "auto": []}
            for seed in range(4 * seeds):
                workflow = generate("layered", tasks, seed)
                bound_s = lower_bound_s(workflow, slots)
                for throttle, values in ratios.items():
                    values.append(makespan_s(workflow, catalog, policy, throttle) / bound_s)
            means = [statistics.fmean(values) for values in ratios.values()]
            met = "met" if means[-1] <= BOUND_GOAL else "not met"
            table.add_row(str(tasks), str(slots), *(f"{mean:.3f}" for mean in means), met)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", default="100,1000", help="numbers of tasks")
    parser.add_argument("--policies", default="heft")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    console, policies = Console(), options.policies.split(",")
    for policy in policies:
        sizes = [int(size) for size in options.sizes.split(",")]
        console.print(table_of(policy, sizes, options.seeds))
    console.print(table_of_bounds(policies[0], options.seeds))
    print(f"goals: {GOAL} of the best fixed throttle, {BOUND_GOAL} of the lower bound")


if __name__ == "__main__":
    main()
