"""What the study simulates: strategies, grids, periods, and one change at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice

import msgspec
from msgspec.structs import replace

from wfrun.engine.errors import InvalidError
from wfrun.engine.policies.placement.allocation import STRATEGIES, Strategy
from wfrun.engine.prediction.estimates import UserEstimate
from wfrun.runners.metrics.grid import GRID_METRICS, MeasuredSchedule
from wfrun.runners.metrics.jobs import JobTiming
from wfrun.runners.simulate.grid.model import GridJob, Scheduler
from wfrun.runners.simulate.grid.simulation import simulate_grid
from wfrun.studies.allocation.variants import READING, VARIANTS, AllocationVariant
from wfrun.studies.grids.jgc_grids import WEEK_S, Logs, jobs_of, sites

NAMES = tuple(strategy.symbol for strategy in STRATEGIES)
"""The strategies in the order of Table 1."""
BY_NAME: dict[str, type[Strategy]] = {strategy.symbol: strategy for strategy in STRATEGIES}
FULL_WEEKS = 26
"""Number of weeks of the paper's results. The paper's Grid1 has 22,770 jobs a site; the first 26
weeks of our versions of the logs have 22,916."""
QUICK_WEEKS = 12

WEEKLY = ("t_w", "SD_b", "SWCT_w", "ρ")
"""The metrics that an outcome states for each week, in addition to the whole period."""


class AllocationCase(msgspec.Struct, frozen=True, kw_only=True):
    """One simulation."""

    grid: str
    strategy: str
    variant: str | None
    """The change (a key of ``VARIANTS``); None if nothing is changed."""
    weeks: int
    """Number of weeks, from the first on, whose jobs are simulated."""


class AllocationOutcome(AllocationCase, frozen=True, kw_only=True):
    jobs: tuple[int, ...]
    """Number of jobs submitted in each week."""
    values: tuple[float, ...]
    """The metrics, in the order of ``GRID_METRICS``."""
    weekly: tuple[float, ...]
    """The metrics ``WEEKLY`` over the jobs submitted in the first week, then those of the second
    week, and so on. All times count from the start of the simulation."""


def cases(weeks: int, grids: Sequence[str]) -> list[AllocationCase]:
    """All simulations; those with the same jobs are adjacent. Grid1 is simulated with all changes,
    other grids only with the changes of the other reading (``READING``)."""
    changed = [(which, name) for which, one in VARIANTS.items() for name in one.strategies]
    read = [(which, name) for name, which in READING.items()]
    return [
        AllocationCase(grid=grid, strategy=name, variant=variant, weeks=weeks)
        for grid in grids
        for variant, name in [
            *((None, name) for name in NAMES),
            *(changed if grid == "Grid1" else read),
        ]
    ]


def run_case(case: AllocationCase, logs: dict[str, Logs]) -> AllocationOutcome:
    """Simulate a case with the jobs of its grid. ``logs`` has the logs by grid. Raises InvalidError
    for a log that cannot be read, or a week without jobs."""
    weeks = _weeks(logs[case.grid], case.weeks)
    empty = next((number for number, week in enumerate(weeks, 1) if not week), None)
    if empty is not None:
        raise InvalidError(
            f"{case.grid} has no jobs in week {empty}",
            hint="take the complete logs of the Parallel Workloads Archive",
        )
    jobs = [job for week in weeks for job in week]
    change = AllocationVariant("", ()) if case.variant is None else VARIANTS[case.variant]
    if change.raises_requests:
        jobs = [_with_request(job) for job in jobs]
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
    timings = iter([JobTiming(job.submit_s, begun, e, job.cores, at) for job, begun, e, at in rows])
    parts = [list(islice(timings, len(week))) for week in weeks]
    slots = [site.slots for site in places]

    def measured(some: Sequence[JobTiming], symbols: Iterable[str]) -> tuple[float, ...]:
        whole = MeasuredSchedule(some, slots, origin_s=0.0)
        return tuple(GRID_METRICS[symbol].value(whole) for symbol in symbols)

    return AllocationOutcome(
        **msgspec.structs.asdict(case),
        jobs=tuple(map(len, weeks)),
        values=measured([one for part in parts for one in part], GRID_METRICS),
        weekly=tuple(value for part in parts for value in measured(part, WEEKLY)),
    )


def _with_request(job: GridJob) -> GridJob:
    """The job with its request raised to its run time if the request is shorter."""
    return replace(job, estimate_s=max(job.estimate_s or 0.0, job.runtime_s))


@lru_cache(maxsize=1)  # the next case often has the same
def _weeks(logs: Logs, count: int) -> list[list[GridJob]]:
    """The jobs by week, each week in order of submission."""
    found: list[list[GridJob]] = [[] for _ in range(count)]
    for job in jobs_of(logs, count):
        found[int(job.submit_s // WEEK_S)].append(job)
    return found
