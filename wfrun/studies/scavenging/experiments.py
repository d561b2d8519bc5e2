"""The experiments of section 4.3.2 of the thesis, and the measures of their runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random

import msgspec

from wfrun.engine.jobs.scavenging.simulation import Scavenged, simulate
from wfrun.studies.coallocation.paper import NODES
from wfrun.studies.common.verdict import Sample
from wfrun.studies.scavenging import paper
from wfrun.studies.scavenging.sharing import (
    EACH_NODE,
    IN_TURN,
    ONE_OWNER,
    WHOLE_SITES,
    division_of,
)
from wfrun.studies.scavenging.workload import (
    BY_SIZE,
    KEPT,
    LARGEST_FIRST,
    PACED,
    SMALLEST_FIRST,
    WORST_FIT,
    GridLoad,
    GridUserJob,
    Windows,
    grid_jobs,
    left_idle,
)

WBLOCK, WBURST = "wblock", "wburst"
WORKLOADS = (WBLOCK, WBURST)
PER_SITE, ALL = "persite", "all"


class ScavengingSetting(msgspec.Struct, frozen=True):
    """Parameters that the text leaves open. `run_s`, `gap_s`, `local_share` and `task_s` are
    calibrated such that our means meet those of the PerSite column of Table 4.1."""

    run_s: float = 180.0
    """Run time of grid jobs in seconds. With the default, each node that a block loads runs three
    jobs, one after another."""
    gap_s: float = 20.0
    job_nodes: int = 1
    arrivals: str = KEPT
    random_run: bool = False
    spread: str = WORST_FIT
    local_share: float = 0.4
    """Share of the nodes of each site that local users hold."""
    local_uneven: bool = False
    """Whether the share that local users hold differs between sites. It is then drawn at random,
    with the mean `local_share`."""
    poll_s: float = paper.POLL_S
    start_s: float = paper.START_S
    task_s: float = 600.0
    task_spread: float = 0.2
    """Maximum deviation of the run times of tasks, relative to their mean. Run times are uniformly
    distributed."""
    first_s: float = 600.0
    """Start of the first block or burst, in seconds."""
    reading: str = IN_TURN
    """The reading of Equipartition-All; see `division_of`."""
    apart_s: float = 0.0
    """Seconds between the arrivals of two owners."""
    burst_run_s: float = paper.BURST_S
    """Seconds for which the jobs of a burst keep their nodes."""

    def load(self, workload: str) -> GridLoad:
        """The grid jobs of a workload, WBlock or WBurst."""
        if workload == WBLOCK:
            windows = Windows(self.first_s, paper.BLOCK_PERIOD_S, paper.BLOCK_S)
            return GridLoad(
                windows, self.run_s, self.job_nodes, self.spread, self.arrivals, self.gap_s,
                self.random_run,
            )  # fmt: skip
        windows = Windows(self.first_s, paper.BURST_PERIOD_S, self.burst_run_s)
        return GridLoad(windows, self.burst_run_s, self.job_nodes, self.spread)


BASE = "base"
LENGTHS_S = (600.0, 300.0, 180.0, 120.0, 60.0)
JOB_NODES = (1, 8, 16)
POLLS_S = (10.0, 60.0)
WAYS = {"kept": (KEPT, False), "paced": (PACED, False), "paced, exponential": (PACED, True)}
"""(rule by which grid jobs arrive, whether their run times are exponential), by name."""


def grid_name(run_s: float, nodes: int, way: str, poll_s: float) -> str:
    """The name of a variant of the grid."""
    return f"{run_s:g} s, {nodes} nodes, {way}, poll {poll_s:g} s"


GRID = {
    grid_name(run_s, nodes, way, poll_s): ScavengingSetting(
        run_s=run_s, job_nodes=nodes, arrivals=arrivals, random_run=random_run, poll_s=poll_s
    )
    for run_s, nodes, (way, (arrivals, random_run)), poll_s in product(
        LENGTHS_S, JOB_NODES, WAYS.items(), POLLS_S
    )
}
"""Variants of the grid jobs of WBlock: their run times and sizes, the rule by which they arrive,
and the period after which scavengers notice free nodes."""

SITES, SITES_LARGEST = "All gives whole sites", "whole sites, load at the largest"
OWNER = "All gives idle nodes to one owner, drawn"
WHOLE_BLOCK = "jobs last the whole block"
VARIANTS = {
    SITES: ScavengingSetting(reading=WHOLE_SITES),
    "whole sites, jobs of 8 nodes at intervals": ScavengingSetting(
        reading=WHOLE_SITES, run_s=165.0, job_nodes=8, arrivals=PACED, random_run=True
    ),
    SITES_LARGEST: ScavengingSetting(reading=WHOLE_SITES, spread=LARGEST_FIRST),
    "whole sites, load at the smallest": ScavengingSetting(
        reading=WHOLE_SITES, spread=SMALLEST_FIRST
    ),
    "whole sites, load by size": ScavengingSetting(reading=WHOLE_SITES, spread=BY_SIZE),
    "whole sites, uneven local load": ScavengingSetting(reading=WHOLE_SITES, local_uneven=True),
    OWNER: ScavengingSetting(reading=ONE_OWNER),
    "one owner, drawn; jobs of 8 nodes at intervals": ScavengingSetting(
        reading=ONE_OWNER, run_s=165.0, job_nodes=8, arrivals=PACED, random_run=True
    ),
    "All gives each idle node to an owner, drawn": ScavengingSetting(reading=EACH_NODE),
    "owners come 1 s apart": ScavengingSetting(apart_s=1.0),
    "owners come 60 s apart": ScavengingSetting(apart_s=60.0),
    "owners come 60 s apart, load at the largest": ScavengingSetting(
        apart_s=60.0, spread=LARGEST_FIRST
    ),
    "load at the largest": ScavengingSetting(spread=LARGEST_FIRST),
    "load at the smallest": ScavengingSetting(spread=SMALLEST_FIRST),
    "load by size": ScavengingSetting(spread=BY_SIZE),
    "uneven local load": ScavengingSetting(local_uneven=True),
    "no local load": ScavengingSetting(local_share=0.0),
    "local load 20%": ScavengingSetting(local_share=0.2),
    WHOLE_BLOCK: ScavengingSetting(run_s=600.0),
    "jobs of 8 nodes at intervals": ScavengingSetting(
        run_s=165.0, job_nodes=8, arrivals=PACED, random_run=True
    ),
    "run times of grid jobs are exponential": ScavengingSetting(random_run=True),
    "bursts keep their nodes for 4 min": ScavengingSetting(burst_run_s=240.0),
    "first block at 0": ScavengingSetting(first_s=0.0),
    "idle nodes noticed at once": ScavengingSetting(poll_s=0.0),
    "tasks of 300 s": ScavengingSetting(task_s=300.0),
    "tasks of 900 s": ScavengingSetting(task_s=900.0),
    "run times of tasks from 0 to double": ScavengingSetting(task_spread=1.0),
    "a launcher starts in 30 s": ScavengingSetting(start_s=30.0),
}
"""Variants that are simulated for both workloads and policies."""


class ScavengingCell(msgspec.Struct, frozen=True, kw_only=True):
    """One simulated run."""

    workload: str
    policy: str
    seed: int
    variant: str = BASE


class ScavengingRow(ScavengingCell, frozen=True, kw_only=True):
    """The measures of a run. Tuples have a value for each owner; the owner with the most nodes on
    average is first."""

    throughput: tuple[float, ...]
    """Tasks completed per minute."""
    preemptions: tuple[int, ...]
    nodes: tuple[float, ...]
    """Mean number of nodes that an owner holds."""
    started: int
    """Total number of nodes of all grid jobs that started."""


class ScavengingScale(msgspec.Struct, frozen=True):
    """The size of the study: numbers of repetitions, and the variants."""

    seeds: int
    varied_seeds: int
    grid_seeds: int
    variants: tuple[str, ...]
    """Names of `VARIANTS`."""


FULL = ScavengingScale(40, 40, 5, tuple(VARIANTS))
QUICK = ScavengingScale(4, 2, 1, tuple(VARIANTS))


def cells(scale: ScavengingScale) -> list[ScavengingCell]:
    """All runs of a study, one seed after the other."""
    found = []
    for seed in range(scale.seeds):
        variants = [BASE, *(scale.variants if seed < scale.varied_seeds else ())]
        for variant, workload, policy in product(variants, WORKLOADS, (PER_SITE, ALL)):
            found.append(
                ScavengingCell(workload=workload, policy=policy, seed=seed, variant=variant)
            )
        for variant in GRID if seed < scale.grid_seeds else ():
            found.append(
                ScavengingCell(workload=WBLOCK, policy=PER_SITE, seed=seed, variant=variant)
            )
    return found


def setting_of(variant: str) -> ScavengingSetting:
    """The setting of a variant."""
    return VARIANTS.get(variant) or GRID.get(variant) or ScavengingSetting()


def simulated(cell: ScavengingCell) -> tuple[list[GridUserJob], list[Scavenged]]:
    """The grid jobs of a run, and the result of each owner. The order of the sites is drawn for
    each seed. Idle nodes of sites are given away in this order, and of sites that a policy finds
    equal the first is taken."""
    setting = setting_of(cell.variant)
    random = Random(f"scavenging {cell.seed}")
    nodes = random.sample(list(NODES.values()), len(NODES))
    local = _local(nodes, setting, random)
    jobs = grid_jobs(nodes, local, setting.load(cell.workload), paper.HOUR_S, random)
    changes = left_idle(nodes, local, jobs, setting.poll_s)
    policy = PER_SITE if cell.policy == PER_SITE else division_of(setting.reading, random)
    tasks = [Random(f"{cell.seed} {owner}") for owner in range(paper.OWNERS)]
    low_s, high_s = (setting.task_s * (1 + sign * setting.task_spread) for sign in (-1, 1))
    return jobs, simulate(
        changes,
        [owner * setting.apart_s for owner in range(paper.OWNERS)],
        policy,
        lambda owner: tasks[owner].uniform(low_s, high_s),
        paper.HOUR_S,
        start_s=setting.start_s,
    )


def _local(nodes: Sequence[int], setting: ScavengingSetting, random: Random) -> list[int]:
    shares = [setting.local_share] * len(nodes)
    if setting.local_uneven:
        weights = [random.uniform(0.0, 1.0) for _ in nodes]
        used = sum(w * n for w, n in zip(weights, nodes, strict=True)) / sum(nodes)
        shares = [min(1.0, setting.local_share * weight / used) for weight in weights]
    return [round(share * count) for share, count in zip(shares, nodes, strict=True)]


def run_cell(cell: ScavengingCell) -> ScavengingRow:
    """Simulate one run, and measure it."""
    jobs, owners = simulated(cell)
    owners.sort(key=lambda one: -one.processor_s)
    return ScavengingRow(
        **msgspec.structs.asdict(cell),
        throughput=tuple(one.done * 60.0 / paper.HOUR_S for one in owners),
        preemptions=tuple(one.preemptions for one in owners),
        nodes=tuple(one.processor_s / paper.HOUR_S for one in owners),
        started=sum(job.nodes for job in jobs),
    )


@dataclass(frozen=True)
class ScavengingSamples:
    """The rows of one variant."""

    rows: Sequence[ScavengingRow]
    variant: str = BASE

    def of(self, workload: str, policy: str, measure: Callable[[ScavengingRow], float]) -> Sample:
        """The value of a function of the row, for each run of a workload and a policy."""
        return Sample({row.seed: measure(row) for row in self.some(workload, policy)})

    @property
    def seeds(self) -> list[int]:
        """The seeds of the base, ascending."""
        return sorted({row.seed for row in self.rows if row.variant == BASE})

    def some(self, workload: str, policy: str) -> list[ScavengingRow]:
        """The rows of a workload and a policy in this variant."""
        wanted = (workload, policy, self.variant)
        return [row for row in self.rows if (row.workload, row.policy, row.variant) == wanted]

    def varied(self, variant: str) -> ScavengingSamples:
        """The rows of another variant."""
        return ScavengingSamples(self.rows, variant)


def owner_value(measure: str, place: int) -> Callable[[ScavengingRow], float]:
    """The function that returns the measure of one owner of a row. ``place`` is the owner's index
    in the order of mean nodes, the most first."""
    return lambda row: float(getattr(row, measure)[place])


def total(measure: str) -> Callable[[ScavengingRow], float]:
    """The function that returns the sum of the measure over the owners of a row."""
    return lambda row: float(sum(getattr(row, measure)))


def ratio(measure: str) -> Callable[[ScavengingRow], float]:
    """The function that returns, for a row, the largest measure of an owner divided by the
    smallest. A smallest measure below 1/60 (one task an hour) counts as 1/60."""
    return lambda row: max(getattr(row, measure)) / max(min(getattr(row, measure)), 1 / 60)
