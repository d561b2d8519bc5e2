"""What the study simulates: strategies, grids, periods, and one change at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from wfrun.engine.errors import InvalidError
from wfrun.engine.policies.placement.allocation import STRATEGIES, Strategy
from wfrun.engine.prediction.estimates import UserEstimate
from wfrun.runners.experiments.metrics.grid import GRID_METRICS, GridSchedule, grid_metrics
from wfrun.runners.experiments.metrics.jobs import JobTiming
from wfrun.runners.simulate.grid.model import GridJob, Scheduler
from wfrun.runners.simulate.grid.simulation import simulate_grid
from wfrun.runners.studies.allocation.variants import VARIANTS, Variant
from wfrun.runners.studies.jgc_grids import WEEK_S, Logs, jobs_of, sites

NAMES = tuple(strategy.symbol for strategy in STRATEGIES)
"""The strategies in the order of Table 1."""
BY_NAME: dict[str, type[Strategy]] = {strategy.symbol: strategy for strategy in STRATEGIES}
WHOLE_WEEKS = 26
"""The period of the paper's results: Grid1 has 22,770 jobs a site there, and 22,916 in the first 26
weeks of our versions of the logs."""


class Scale(NamedTuple):
    """How much is simulated."""

    weeks: int
    """Repetitions: weeks, each alone in an idle grid."""
    whole: bool
    """Whether the whole period is simulated, too."""
    changed: int
    """Number of weeks of each changed simulation."""


QUICK = Scale(weeks=12, whole=False, changed=4)
FULL = Scale(weeks=44, whole=True, changed=12)
"""The shortest logs, KTH and CTC, have 47 weeks."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One simulation."""

    grid: str
    strategy: str
    variant: str | None
    """What is changed (``VARIANTS``); None: nothing."""
    week: int
    """1 is the first; 0: the first 26 weeks in one simulation."""


class Outcome(Case, frozen=True, kw_only=True):
    jobs: int
    values: tuple[float, ...]
    """The metrics, in the order of ``GRID_METRICS``."""


def cases(scale: Scale, grids: Sequence[str]) -> list[Case]:
    """All simulations; those with the same jobs follow each other."""
    found = []
    for week in (*range(1, scale.weeks + 1), *([0] if scale.whole else [])):
        for grid in grids:
            for name in NAMES:
                found.append(Case(grid=grid, strategy=name, variant=None, week=week))
            if grid != "Grid1" or not 0 < week <= scale.changed:
                continue
            for variant, change in VARIANTS.items():
                for name in change.strategies:
                    found.append(Case(grid=grid, strategy=name, variant=variant, week=week))
    return found


def run_case(case: Case, logs: dict[str, Logs], weeks: int) -> Outcome:
    """Simulate. ``logs`` are those of each grid, of which the first ``weeks`` are read. Raises
    InvalidError for a log that cannot be read, or a week without jobs."""
    jobs = _jobs(logs[case.grid], weeks, case.week)
    if not jobs:
        raise InvalidError(
            f"{case.grid} has no jobs in week {case.week}",
            hint="take the complete logs of the Parallel Workloads Archive",
        )
    change = Variant("", ()) if case.variant is None else VARIANTS[case.variant]
    if change.raises_requests:
        jobs = tuple(_with_request(job) for job in jobs)
    scheduler = Scheduler(
        change.policies.get(case.strategy, BY_NAME[case.strategy]),
        None if change.knows_runtimes else UserEstimate(),
        per_site=False,
        corrected=False,
        estimates=change.estimates,
    )
    places = sites(case.grid)
    schedule = simulate_grid(jobs, places, scheduler, "easy")
    rows = zip(jobs, schedule.start_s, schedule.end_s, schedule.site, strict=True)
    timings = [JobTiming(job.submit_s, begun, end, job.cores, at) for job, begun, end, at in rows]
    metrics = grid_metrics(GridSchedule(timings, [site.slots for site in places], origin_s=0.0))
    return Outcome(
        **msgspec.structs.asdict(case),
        jobs=len(jobs),
        values=tuple(metrics[symbol] for symbol in GRID_METRICS),
    )


def _with_request(job: GridJob) -> GridJob:
    """A job that has requested at least the time that it runs."""
    return replace(job, estimate_s=max(job.estimate_s or 0.0, job.runtime_s))


@lru_cache(maxsize=1)  # the next case often has the same
def _jobs(logs: Logs, weeks: int, week: int) -> tuple[GridJob, ...]:
    jobs = jobs_of(logs, weeks)
    length_s = WEEK_S if week else WHOLE_WEEKS * WEEK_S
    start_s = (week - 1) * length_s if week else 0.0
    return tuple(
        replace(job, submit_s=job.submit_s - start_s)
        for job in jobs
        if start_s <= job.submit_s < start_s + length_s
    )
