"""The grids of thesis section 7.4, and generated workloads with the properties of its traces."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.fitting.names import look_up
from wfrun.engine.model import SiteSpec
from wfrun.parsers.generate.grid_log import DAY_S, GridLogModel, generate_grid_log
from wfrun.parsers.logs import LoggedJob, scale_load
from wfrun.runners.simulate.grid.model import GridJob, grid_jobs


class Grid(msgspec.Struct, frozen=True):
    """A grid of the thesis, and the parameters of its workload."""

    name: str
    title: str
    sites: tuple[SiteSpec, ...]
    load: float
    """Share of the processors in use (Table 7.5)."""
    log: GridLogModel

    @property
    def capacity(self) -> float:
        """Total speed of the grid: the sum of processors times speed over all sites."""
        return sum(spec.slots * spec.speed_ratio for spec in self.sites)


def _sites(*clusters: tuple[str, int, float]) -> tuple[SiteSpec, ...]:
    return tuple(SiteSpec(name, slots, speed_ratio=ghz / 2.4) for name, slots, ghz in clusters)


DAS3 = Grid(
    "das3",
    "DAS-3 (research grid)",
    _sites(("C1", 85, 2.4), ("C2", 32, 2.6), ("C3", 41, 2.2), ("C4", 68, 2.4), ("C5", 46, 2.4)),
    0.30,
    GridLogModel(
        jobs=380_000, span_s=123 * DAY_S, mean_runtime_s=1_230.0, sigma=1.5, spread=0.3,
        longest_s=12 * 3600.0, users=331, parallel=0.15, burst_median=2.0, burst_sigma=1.0,
    ),
)  # fmt: skip
"""Sizes: Table 7.4. Speeds: the clock rates of Table 1.2 relative to 2.4 GHz; the thesis uses SPEC
CPU benchmarks, but does not give their values. Users and the fraction of parallel jobs: Table 7.1.
The mean run time is the response time of Table 7.6 minus the wait. The number of jobs is missing in
the text of Table 7.5; the number here gives about a load of 30%. The thesis does not give bursts
and the spread of run times. They are fitted: of ten settings these bring the wait and the slowdown
of ECT-Perfect nearest to Table 7.6, at the median of four seeds."""

AUVER = Grid(
    "auver",
    "AuverGrid (production grid)",
    _sites(("C1", 112, 2.4), ("C2", 84, 2.4), ("C3", 186, 2.4), ("C4", 38, 2.4), ("C5", 55, 2.4)),
    0.70,
    GridLogModel(
        jobs=90_000, span_s=122 * DAY_S, mean_runtime_s=34_436.0, sigma=3.0, spread=0.5,
        longest_s=72 * 3600.0, users=405, burst_median=6.0, burst_sigma=1.2,
    ),
)  # fmt: skip
"""Sizes: Table 7.4; in the thesis all nodes have equal speed. 90,000 sequential jobs: Table 7.5.
Their mean run time is derived from Table 7.6, and their bursts are fitted to it, as for the
DAS-3."""

GRIDS = {grid.name: grid for grid in (DAS3, AUVER)}


def grid_called(name: str) -> Grid:
    """The grid of that name. Raises InvalidError, which suggests the most similar name."""
    return look_up(GRIDS, name, "grid")


def generated_jobs(
    grid: Grid, seed: int, *, load: float | None = None, part: float = 1.0
) -> list[GridJob]:
    """Generate a workload with the properties of the grid's trace. ``load`` is the fraction of the
    grid that jobs use; None: that of the trace. ``part`` is the fraction of the trace to generate,
    in number of jobs and in time span. Raises InvalidError unless ``part`` is above 0 and at most
    1."""
    if not 0 < part <= 1:
        raise InvalidError(
            f"{part} is no part of a workload", hint="give a number above 0, up to 1"
        )
    model = msgspec.structs.replace(
        grid.log, jobs=round(grid.log.jobs * part), span_s=grid.log.span_s * part
    )
    log = generate_grid_log(model, seed)
    return jobs_at_load(grid, log, grid.load if load is None else load)


def jobs_at_load(grid: Grid, log: Sequence[LoggedJob], load: float | None) -> list[GridJob]:
    """Return the jobs of a log that fit the largest cluster. Times between submissions are scaled
    so that the jobs use the fraction ``load`` of the grid; None: times are not scaled. Raises
    InvalidError if fewer than two jobs fit."""
    widest = max(spec.slots for spec in grid.sites)
    fitting = [job for job in log if (job.size or 0) <= widest]
    if len(fitting) < 2:
        raise InvalidError(
            f"{len(fitting)} of the {len(log)} jobs fit the largest cluster ({widest} processors)",
            hint="take the log of a smaller cluster",
        )
    if load is None:
        return grid_jobs(fitting)
    return grid_jobs(scale_load(fitting, load, round(grid.capacity)))
