"""Grids of simulated workloads of bags: workloads × architectures × selection policies × policies ×
loads × seeds."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path

import msgspec

from wfrun.engine.events import Settings
from wfrun.engine.model import Catalog
from wfrun.parsers.generate.bots import generate_workload, with_estimates
from wfrun.parsers.generate.bots_log import bags_of_log, replay
from wfrun.parsers.generate.bots_records import BotWorkload
from wfrun.runners.experiments.bag_load import at_load_of_arrivals
from wfrun.runners.experiments.bag_rows import BagCell, BagRow, row_of
from wfrun.runners.experiments.processes import Progress, no_progress, run_missing
from wfrun.runners.experiments.results import Results
from wfrun.runners.simulate.bags import simulate_bags

POLICIES = ("ect", "fplt", "rr", "wqr", "dfplt", "ect-p", "stfr", "fpf")
"""The scheduling policies of thesis section 5.1.4: what ``all`` are for bags."""

TASKS = 60_000
"""Of a workload (thesis section 5.3.3: "an average of over 60,000 tasks")."""


class BagGrid(msgspec.Struct, frozen=True):
    """What is simulated: every combination of the tuples."""

    catalog: Catalog
    workloads: tuple[str, ...] = ("average",)
    """Rows of Table 5.3, and names of ``logs``."""
    logs: Mapping[str, str] = {}
    """Paths of workload logs by the names that they have in results."""
    tolerant: bool = False
    """Bad lines of logs are dropped."""
    architectures: tuple[str, ...] = ("csp",)
    selections: tuple[str, ...] = ("s-t",)
    policies: tuple[str, ...] = POLICIES
    replicas: int | None = None
    loads: tuple[float | None, ...] = (0.6,)
    tasks: int | None = None
    """None: TASKS of those that are generated, all that a log has of others."""
    seeds: tuple[int, ...] = (0,)

    def cells(self) -> list[BagCell]:
        """In the order in which they are simulated: those of one workload one after another."""
        return [
            BagCell(
                workload=workload,
                architecture=architecture,
                selection=selection,
                policy=policy,
                replicas=self.replicas,
                load=load,
                tasks=self.tasks or (None if workload in self.logs else TASKS),
                seed=seed,
            )
            for workload, seed, load, architecture, selection, policy in product(
                self.workloads,
                self.seeds,
                self.loads,
                self.architectures,
                self.selections,
                self.policies,
            )
        ]

    def identity(self) -> dict[str, str]:
        """What all cells have in common, as `Grid.identity` has it."""
        sites = [(s.name, s.slots, s.speed_ratio) for s in self.catalog.sites]
        words = ", ".join(s.name for s in self.catalog.sites[:SHOWN])
        if len(sites) > SHOWN:
            words += f", {len(sites) - SHOWN} more"
        digest = hashlib.sha256(msgspec.msgpack.encode(sites)).hexdigest()[:10]
        return {"sites": f"{words} #{digest}"}


SHOWN = 3
"""So many sites are named in a file of results."""


def log_name(path: Path) -> str:
    """What a log is called in results: its name, and a digest of what is in it."""
    return f"{path.name} #{hashlib.sha256(path.read_bytes()).hexdigest()[:10]}"


def workload_of(grid: BagGrid, cell: BagCell) -> BotWorkload:
    """The bags of a cell; those of one row or log are the same whatever the policies. Raises
    InvalidError."""
    sites = grid.catalog.sites
    path = grid.logs.get(cell.workload)
    if path is not None:
        log = _log(path, grid.tolerant)
        workload = replay(log, sites, load=cell.load, tasks=cell.tasks, seed=cell.seed)
        if cell.load is None:
            return workload
        return at_load_of_arrivals(workload, cell.load, sites)
    workload = generate_workload(
        sites,
        row=cell.workload,
        tasks=cell.tasks or TASKS,
        seed=cell.seed,
        median_size=cell.median_size,
    )
    workload = without_long_tasks(replace(workload, remarks=()))  # which are of longer ones
    if cell.mean_runtime_s is not None:
        factor = cell.mean_runtime_s / (workload.work_s / workload.tasks)
        workload = _with_runtimes(workload, lambda s: max(1.0, s * factor))
    workload = at_load_of_arrivals(workload, cell.load or 0.0, sites, cell.arrival)
    return with_estimates(workload, cell.inaccuracy, cell.seed)


LONGEST_SHARE = 0.5
"""Of the time in which the sites could do all tasks: none takes longer. The traces of the thesis
last for a month. Here arrivals are drawn together, and a task of hours would run for longer than
bags arrive: it would take a processor away rather than compete for one."""

LEAST_LONGEST_S = 300.0
"""Tasks as short as this are never cut."""


def without_long_tasks(workload: BotWorkload) -> BotWorkload:
    """The same bags, with tasks cut to LONGEST_SHARE of what all need together; says how many."""
    runtimes_s = sorted(s for bag in workload.bags for s in bag.runtime_s)
    longest_s = _longest_s(runtimes_s, workload.capacity)
    cut = sum(1 for s in runtimes_s if s > longest_s)
    if not cut:
        return workload
    work_s = sum(runtimes_s)
    shorter = _with_runtimes(workload, lambda s: min(s, longest_s))
    remark = (
        f"{cut} of {len(runtimes_s)} tasks are cut to {longest_s:,.0f} s, "
        f"{1 - shorter.work_s / work_s:.0%} of the work: they would outlast the arrivals"
    )
    return replace(shorter, remarks=(*workload.remarks, remark))


def _longest_s(runtimes_s: Sequence[float], capacity: float) -> float:
    """The run time that is LONGEST_SHARE of the work over the capacity once longer ones are cut to
    it. ``runtimes_s`` ascend."""
    longest_s = runtimes_s[-1]
    while True:
        work_s = sum(min(s, longest_s) for s in runtimes_s)
        shorter_s = max(LEAST_LONGEST_S, round(LONGEST_SHARE * work_s / capacity))
        if shorter_s >= longest_s:
            return longest_s
        longest_s = shorter_s


def _with_runtimes(workload: BotWorkload, change: Callable[[float], float]) -> BotWorkload:
    bags = []
    for bag in workload.bags:
        runtimes_s = array("d", [round(change(s), 2) for s in bag.runtime_s])
        bags.append(replace(bag, runtime_s=runtimes_s, estimate_s=runtimes_s))
    return replace(workload, bags=tuple(bags))


@lru_cache(maxsize=2)
def _log(path: str, tolerant: bool) -> BotWorkload:
    return bags_of_log(Path(path), tolerant=tolerant)


class BagSimulator:
    """Simulates cells of a grid, in whichever process it is sent to."""

    def __init__(self, grid: BagGrid) -> None:
        self._grid = grid
        self._last: tuple[BagCell, BotWorkload] | None = None

    def __call__(self, cell: BagCell) -> BagRow:
        settings = Settings(
            policy=cell.policy,
            selection=cell.selection,
            replicas=cell.replicas,
            seed=cell.seed,
        )
        catalog = self._grid.catalog
        return row_of(
            cell, simulate_bags(self._workload(cell), catalog, cell.architecture, settings)
        )

    def _workload(self, cell: BagCell) -> BotWorkload:
        """Kept for the next cell, which often has the same."""
        alike = msgspec.structs.replace(
            cell, architecture="", selection="", policy="", replicas=None
        )
        if self._last is None or self._last[0] != alike:
            self._last = alike, workload_of(self._grid, cell)
        return self._last[1]


def run_bag_grid(
    grid: BagGrid, results: Results[BagCell, BagRow], *, processes: int | None = None,
    progress: Progress = no_progress,
) -> None:  # fmt: skip
    """Simulate the cells that ``results`` does not have; see `run_missing`."""
    run_missing(grid.cells(), results, BagSimulator(grid), processes, progress)
