"""Thesis section 7.4: prediction-based grid scheduling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import msgspec

from wfrun.engine.model import SiteSpec
from wfrun.runners.metrics.grid_waits import grid_means, responses_s, slowdowns, waits_s
from wfrun.runners.simulate.grid import schedulers
from wfrun.runners.simulate.grid.grids import GRIDS, generated_jobs
from wfrun.runners.simulate.grid.model import GridJob, Scheduler
from wfrun.runners.simulate.grid.simulation import simulate_grid
from wfrun.studies.predictions.part import PartSetting
from wfrun.studies.predictions.runtimes.runtimes import shares

QUICK_PART, FULL_PART = 0.25, 1.0
"""Share of the four months of Table 7.5 that is simulated."""
QUICK_SEEDS, FULL_SEEDS = 3, 3

SCHEDULERS: dict[str, Callable[[Sequence[SiteSpec]], Scheduler]] = {
    **{schedulers.SCHEDULERS[name].title: schedulers.SCHEDULERS[name].make
       for name in schedulers.TABLE_7_6},
    "FPF, first blocks": schedulers.SCHEDULERS["fcfs"].make,
}  # fmt: skip
"""The policies of section 7.4.2. FPF keeps jobs in one global queue, and all of them are eligible;
in the last policy the first job of this queue blocks the others (FCFS). LB chooses the cluster with
the smallest load: processors of all running or queued jobs divided by those of the cluster (as
All-Clusters, section 6.1.3)."""

TIMES_S = tuple(float(f"{10 ** (step / 5):.3g}") for step in range(31))
"""Points at which the distributions of waits and responses are kept: 1 to 1,000,000 s."""
SLOWDOWNS = tuple(float(f"{10 ** (step / 10):.3g}") for step in range(41))
"""Points at which the distribution of the bounded slowdown is kept: 1 to 10,000."""


class GridCell(msgspec.Struct, frozen=True, kw_only=True):
    """One simulation."""

    grid: str
    policy: str
    part: float
    seed: int


class GridRow(GridCell, frozen=True, kw_only=True):
    """Measures of one simulation (`wfrun.runners.metrics.grid_waits.GridMeans`), and distributions
    at TIMES_S and SLOWDOWNS."""

    jobs: int
    response_s: float
    wait_s: float
    slowdown: float
    waited: float
    long_waits: float
    utilization: float
    share: tuple[float, ...]
    wait_shares: tuple[float, ...]
    response_shares: tuple[float, ...]
    slowdown_shares: tuple[float, ...]


def cells(setting: PartSetting) -> list[GridCell]:
    """All policies on the same workloads."""
    part, seeds = (QUICK_PART, QUICK_SEEDS) if setting.quick else (FULL_PART, FULL_SEEDS)
    return [
        GridCell(grid=grid, policy=policy, part=part, seed=seed)
        for grid in GRIDS
        for seed in range(seeds)
        for policy in SCHEDULERS
    ]


def run(setting: PartSetting, cell: GridCell) -> GridRow:
    """Simulate the grid."""
    jobs = _jobs(cell.grid, cell.seed, cell.part)
    sites = GRIDS[cell.grid].sites
    schedule = simulate_grid(jobs, sites, SCHEDULERS[cell.policy](sites))
    return GridRow(
        **msgspec.structs.asdict(cell),
        **msgspec.structs.asdict(grid_means(schedule)),
        wait_shares=shares(sorted(waits_s(schedule)), TIMES_S),
        response_shares=shares(sorted(responses_s(schedule)), TIMES_S),
        slowdown_shares=shares(sorted(slowdowns(schedule)), SLOWDOWNS),
    )


@lru_cache(maxsize=1)  # the next cell often has the same
def _jobs(grid: str, seed: int, part: float) -> Sequence[GridJob]:
    return generated_jobs(GRIDS[grid], seed, part=part)
