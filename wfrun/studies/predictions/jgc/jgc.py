"""JGC paper, section 6.2: allocation of jobs with predictions made from the history of their users.

Source: J. M. Ramírez-Alcaraz et al., "Job allocation strategies with user run time estimates for
online scheduling in hierarchical Grids", Journal of Grid Computing 9, 2011. Figures 6 to 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.policies.placement.allocation.schedules import Mst, Mwt
from wfrun.engine.prediction.estimates import (
    HISTORY_MODELS,
    MAX_WINDOW,
    ConstantFactor,
    MeanAccuracy,
    UniformHalves,
    UniformRange,
    UserEstimate,
    UserHistory,
)
from wfrun.engine.prediction.job import Predictor
from wfrun.engine.protocols import Placement
from wfrun.runners.metrics.grid import GRID_METRICS, MeasuredSchedule
from wfrun.runners.metrics.jobs import JobTiming
from wfrun.runners.simulate.grid.model import GridJob, Scheduler
from wfrun.runners.simulate.grid.simulation import simulate_grid
from wfrun.studies.grids.jgc_grids import Logs, jobs_of, sites
from wfrun.studies.grids.jgc_grids import logs_of as logs_among
from wfrun.studies.predictions.part import PartSetting

QUICK_WEEKS, FULL_WEEKS = 1, 26
"""Number of weeks of the logs that are simulated. The paper's Grid1 has 22,770 jobs a site on
average; the first 26 weeks have 22,916."""
QUICK_WINDOWS = (1, 5, 10)

STRATEGIES: dict[str, type[Placement]] = {"MST": Mst, "MWT": Mwt}
ACTUAL, ESTIMATE = "p", "p'"
"""Models without a window: the run time itself, which is the reference, and the user's estimate."""
FIGURES = ("M1", "M2", "M3", "M4")
"""The models that the paper's figures show."""
OTHERS: dict[str, Callable[[], Predictor]] = {
    "M9": MeanAccuracy,
    "M10": lambda: ConstantFactor(0.5),
    "M11": lambda: UniformRange(0),
    "M12": lambda: UniformHalves(0),
}
"""Models that use no history of the user: C1, C2 with half of the estimate, U1 and U2. The paper
evaluates them and M5 to M8, but does not show their results."""
METRICS = ("t_w", "SD_b", "SWCT_w")
"""The three metrics of section 2 by their symbols: mean wait, mean bounded slowdown, and sum of
completion times weighted by work."""


class JgcCell(msgspec.Struct, frozen=True, kw_only=True):
    """One simulation of Grid1."""

    strategy: str
    model: str
    """The model of the run times that the allocation and the queues use."""
    window: int
    """Parameter k of the model; 0 if it has none."""
    weeks: int


class JgcRow(JgcCell, frozen=True, kw_only=True):
    """The metrics of section 2."""

    jobs: int
    wait_s: float
    """Mean wait (t_w)."""
    slowdown: float
    """Mean bounded slowdown (SD_b)."""
    weighted_completion: float
    """Sum of the completion times, weighted by work (SWCT_w)."""
    utilization: float


def logs_of(setting: PartSetting) -> Logs | None:
    """The logs of Grid1; None if one is missing."""
    return logs_among({workload.title: workload.path for workload in setting.workloads})


def cells(setting: PartSetting) -> list[JgcCell]:
    """Each strategy with each model and window; none if a log of Grid1 is missing."""
    if logs_of(setting) is None:
        return []
    weeks = QUICK_WEEKS if setting.quick else FULL_WEEKS
    windows = QUICK_WINDOWS if setting.quick else tuple(range(1, MAX_WINDOW + 1))
    few = QUICK_WINDOWS[1:2] if setting.quick else QUICK_WINDOWS
    versions = [(ACTUAL, 0), (ESTIMATE, 0)]
    versions += [
        (model, window)
        for model in HISTORY_MODELS
        for window in (windows if model in FIGURES else few)
    ]
    versions += [(model, 0) for model in OTHERS]
    return [
        JgcCell(strategy=strategy, model=model, window=window, weeks=weeks)
        for strategy in STRATEGIES
        for model, window in versions
    ]


def run(setting: PartSetting, cell: JgcCell) -> JgcRow:
    """Simulate Grid1 with EASY at the sites. Raises InvalidError without its logs."""
    logs = logs_of(setting)
    if logs is None:
        raise InvalidError("a log of Grid1 of the JGC paper is missing")
    return measured(cell, jobs_of(logs, cell.weeks))


def measured(cell: JgcCell, jobs: Sequence[GridJob]) -> JgcRow:
    """Simulate these jobs in Grid1."""
    scheduler = Scheduler(
        STRATEGIES[cell.strategy], predictor_of(cell), per_site=False, corrected=False
    )
    places = sites()
    schedule = simulate_grid(jobs, places, scheduler, "easy")
    rows = zip(jobs, schedule.start_s, schedule.end_s, schedule.site, strict=True)
    timings = [
        JobTiming(job.submit_s, start, end, job.cores, site) for job, start, end, site in rows
    ]
    measured = MeasuredSchedule(timings, [site.slots for site in places], origin_s=0.0)
    wait_s, slowdown, weighted = (GRID_METRICS[symbol].value(measured) for symbol in METRICS)
    return JgcRow(
        strategy=cell.strategy,
        model=cell.model,
        window=cell.window,
        weeks=cell.weeks,
        jobs=len(jobs),
        wait_s=wait_s,
        slowdown=slowdown,
        weighted_completion=weighted,
        utilization=GRID_METRICS["U"].value(measured),
    )


def predictor_of(cell: JgcCell) -> Predictor | None:
    """The predictor of the cell's model; None if run times are known."""
    if cell.model == ACTUAL:
        return None
    if cell.model == ESTIMATE:
        return UserEstimate()
    if cell.model in OTHERS:
        return OTHERS[cell.model]()
    return UserHistory(HISTORY_MODELS[cell.model], cell.window)


def degradation(row: JgcRow, ideal: JgcRow) -> tuple[float, float, float]:
    """Degradation of each metric relative to known run times, in percent (section 6)."""
    return (
        100 * row.wait_s / ideal.wait_s - 100,
        100 * row.slowdown / ideal.slowdown - 100,
        100 * row.weighted_completion / ideal.weighted_completion - 100,
    )


def mean_degradation(row: JgcRow, ideal: JgcRow) -> float:
    """Mean degradation over the three metrics, in percent: Figures 6 and 7."""
    return sum(degradation(row, ideal)) / len(METRICS)


def mean_degradation_over(rows: Sequence[JgcRow], ideal: JgcRow) -> float:
    """Mean of `mean_degradation` over windows: Figure 8."""
    return sum(mean_degradation(row, ideal) for row in rows) / len(rows)
