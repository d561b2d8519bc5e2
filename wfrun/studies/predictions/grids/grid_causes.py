"""Causes of differences from thesis section 7.4: one thing is changed at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from wfrun.parsers.logs import read_log
from wfrun.runners.metrics.grid_waits import grid_means
from wfrun.runners.simulate.grid.grids import AUVER, DAS3, Grid, generated_jobs, jobs_at_load
from wfrun.runners.simulate.grid.model import GridJob
from wfrun.runners.simulate.grid.schedulers import SCHEDULERS
from wfrun.runners.simulate.grid.simulation import simulate_grid
from wfrun.studies.common.claim import Claims
from wfrun.studies.common.numbers import number
from wfrun.studies.common.page import table
from wfrun.studies.predictions.part import PartSetting, Pictures, StudyPart

QUICK_PARTS = {"das3": 0.02, "auver": 0.07}
"""Share of the four months that the quick study simulates, by grid."""
QUICK_SEEDS, FULL_SEEDS = 1, 3


class GridChange(NamedTuple):
    """One thing that is changed."""

    title: str
    of: Callable[[Grid], Grid]


def _with_log(grid: Grid, **changes: object) -> Grid:
    return replace(grid, log=replace(grid.log, **changes))


def _with_speeds(grid: Grid, speeds: Sequence[float]) -> Grid:
    sites = zip(grid.sites, speeds, strict=True)
    return replace(grid, sites=tuple(replace(spec, speed_ratio=speed) for spec, speed in sites))


_BASE = GridChange("as in Table 7.6", lambda grid: grid)
_SPEEDS = [spec.speed_ratio for spec in DAS3.sites]

CHANGES: dict[str, dict[str, GridChange]] = {
    "das3": {
        "base": _BASE,
        "equal": GridChange("equal speeds", lambda grid: _with_speeds(grid, [1.0] * 5)),
        "narrow": GridChange("one processor a job", lambda grid: _with_log(grid, parallel=0.0)),
        "wide": GridChange("half of the applications parallel",
                       lambda grid: _with_log(grid, parallel=0.5)),
        "bursts": GridChange("larger bursts (sigma 1.5)",
                         lambda grid: _with_log(grid, burst_sigma=1.5)),
        "runtimes": GridChange("more unequal run times (sigma 2.5)",
                           lambda grid: _with_log(grid, sigma=2.5)),
        "load": GridChange("load of 70%", lambda grid: replace(grid, load=0.7)),
    },
    "auver": {
        "base": _BASE,
        "unequal": GridChange("unequal speeds", lambda grid: _with_speeds(grid, _SPEEDS)),
        "bursts": GridChange("smaller bursts (sigma 0.8)",
                         lambda grid: _with_log(grid, burst_sigma=0.8)),
        "alike": GridChange("run times of a burst more alike (0.1)",
                        lambda grid: _with_log(grid, spread=0.1)),
        "wide": GridChange("15% of the applications parallel",
                       lambda grid: _with_log(grid, parallel=0.15)),
        "load": GridChange("load of 30%", lambda grid: replace(grid, load=0.3)),
    },
}  # fmt: skip
"""The changes by grid and name."""

LOGS: dict[str, dict[str, tuple[float, float]]] = {
    "das3": {"KTH-SP2": (0.2, 1.0), "SDSC-SP2": (0.1, 1.0)},
    "auver": {"LPC-EGEE": (0.05, 0.3)},
}
"""Logs whose jobs replace the generated ones, by grid and title: the share of the log that is
simulated in the quick and in the full study. The jobs are scaled to the load of the grid. A log is
used only if it is among the workloads."""

_GRIDS = {grid.name: grid for grid in (DAS3, AUVER)}


class GridCauseCell(msgspec.Struct, frozen=True, kw_only=True):
    """One simulation."""

    grid: str
    change: str
    policy: str
    part: float
    seed: int


class GridCauseRow(GridCauseCell, frozen=True, kw_only=True):
    jobs: int
    wait_s: float
    slowdown: float


def cells(setting: PartSetting) -> list[GridCauseCell]:
    """All schedulers with each change."""
    seeds = QUICK_SEEDS if setting.quick else FULL_SEEDS
    made = [
        GridCauseCell(
            grid=grid, change=change, policy=policy,
            part=QUICK_PARTS[grid] if setting.quick else 1.0, seed=seed,
        )
        for grid, changes in CHANGES.items()
        for change in changes
        for seed in range(seeds)
        for policy in SCHEDULERS
    ]  # fmt: skip
    there = {workload.title for workload in setting.workloads if not workload.generated}
    logged = [
        GridCauseCell(
            grid=grid, change=title, policy=policy, part=part[0 if setting.quick else 1], seed=0
        )
        for grid, logs in LOGS.items()
        for title, part in logs.items()
        if title in there
        for policy in SCHEDULERS
    ]
    return made + logged


def run(setting: PartSetting, cell: GridCauseCell) -> GridCauseRow:
    """Simulate the changed grid."""
    if cell.change in CHANGES[cell.grid]:
        grid = CHANGES[cell.grid][cell.change].of(_GRIDS[cell.grid])
        jobs = _jobs(cell.grid, cell.change, cell.seed, cell.part)
    else:
        grid = _GRIDS[cell.grid]
        path = next(w.path for w in setting.workloads if w.title == cell.change and w.path)
        jobs = _logged(path, cell.grid, cell.part)
    scheduler = SCHEDULERS[cell.policy].make(grid.sites)
    means = grid_means(simulate_grid(jobs, grid.sites, scheduler))
    return GridCauseRow(
        **msgspec.structs.asdict(cell),
        jobs=means.jobs,
        wait_s=means.wait_s,
        slowdown=means.slowdown,
    )


@lru_cache(maxsize=1)  # the next cell often has the same
def _jobs(grid: str, change: str, seed: int, part: float) -> Sequence[GridJob]:
    return generated_jobs(CHANGES[grid][change].of(_GRIDS[grid]), seed, part=part)


@lru_cache(maxsize=1)
def _logged(path: str, grid: str, part: float) -> Sequence[GridJob]:
    jobs, _, _ = read_log(Path(path))
    return jobs_at_load(_GRIDS[grid], jobs[: round(len(jobs) * part)], _GRIDS[grid].load)


class CauseSamples:
    """Mean waits and slowdowns over the repetitions."""

    def __init__(self, setting: PartSetting, rows: Sequence[GridCauseRow], every: bool) -> None:
        self._rows = rows

    def changes(self, grid: str) -> dict[str, str]:
        """The titles of all changes of a grid, by name."""
        made = {name: change.title for name, change in CHANGES[grid].items()}
        names = dict.fromkeys(row.change for row in self._rows if row.grid == grid)
        return {name: made.get(name, f"jobs of {name} at this load") for name in names}

    def mean(self, grid: str, change: str, policy: str, measure: str) -> float:
        """Mean over the repetitions."""
        return fmean(
            getattr(row, measure)
            for row in self._rows
            if (row.grid, row.change, row.policy) == (grid, change, policy)
        )


def page(samples: CauseSamples, pictures: Pictures) -> Iterator[str]:
    """The section of the page, in Markdown."""
    yield ""
    yield "### What changes the waits"
    yield ""
    yield (
        "Mean waits in seconds where one thing differs from the simulations above. FCFS is FPF "
        "whose first job blocks the others of the global queue; ECT-Last2 for the whole grid "
        "predicts a job from those of its class at all clusters, by their speeds."
    )
    titles = [kind.title for kind in SCHEDULERS.values()]
    for grid in _GRIDS.values():
        yield from table(
            (grid.title, *titles),
            (
                (title, *(number(samples.mean(grid.name, name, policy, "wait_s"))
                          for policy in SCHEDULERS))
                for name, title in samples.changes(grid.name).items()
            ),
        )  # fmt: skip
    yield ""
    yield "Causes of differences from the thesis, and what tests them:"
    yield ""
    yield from _tested(samples)


class _Cause(NamedTuple):
    """A suspected cause, and the mean waits that test it, each as (grid, change, scheduler,
    description)."""

    text: str
    tests: tuple[tuple[str, str, str, str], ...]


_CAUSES = (
    _Cause(
        "On the AuverGrid ECT-Last2 waits longer than ECT-Perfect because predictions of one class "
        "differ between equal clusters: jobs queue where they are believed to be shorter. If so, "
        "classes over the whole grid remove the difference",
        (("auver", "base", "ect-perfect", "ECT-Perfect"),
         ("auver", "base", "ect-last2", "ECT-Last2"),
         ("auver", "base", "ect-last2-grid", "with classes over the whole grid")),
    ),
    _Cause(
        "On the DAS-3 FPF waits less than in the thesis because all jobs of its queue are "
        "eligible. If so, it waits longer than ECT-Perfect when the first job blocks the others",
        (("das3", "base", "ect-perfect", "ECT-Perfect"), ("das3", "base", "fpf", "FPF"),
         ("das3", "base", "fcfs", "FPF whose first job blocks"),
         ("das3", "wide", "ect-perfect", "half of the applications parallel: ECT-Perfect"),
         ("das3", "wide", "fpf", "FPF"), ("das3", "wide", "fcfs", "FPF whose first job blocks"),
         ("das3", "KTH-SP2", "ect-perfect", "KTH-SP2: ECT-Perfect"),
         ("das3", "KTH-SP2", "fpf", "FPF"),
         ("das3", "KTH-SP2", "fcfs", "FPF whose first job blocks")),
    ),
    _Cause(
        "LB is less bad than in the thesis because few generated jobs are wide: a wide job blocks "
        "the others of a queue without backfilling, which the load does not show. If so, LB has no "
        "disadvantage without parallel jobs, and a larger one with more of them",
        (("das3", "narrow", "ect-perfect", "one processor a job: ECT-Perfect"),
         ("das3", "narrow", "lb", "LB"),
         ("das3", "wide", "ect-perfect", "half of the applications parallel: ECT-Perfect"),
         ("das3", "wide", "lb", "LB")),
    ),
    _Cause(
        "Jobs of real parallel machines have such widths and run times. If these are the cause, "
        "the order of the thesis (ECT-Perfect, FPF, LB) is theirs",
        tuple(
            ("das3", log, scheduler, f"{log}: {title}" if scheduler == "ect-perfect" else title)
            for log in LOGS["das3"]
            for scheduler, title in (("ect-perfect", "ECT-Perfect"), ("fpf", "FPF"), ("lb", "LB"))
        ),
    ),
)  # fmt: skip


def _tested(samples: CauseSamples) -> Iterator[str]:
    """A line for each cause, with the waits that were simulated to test it."""
    for cause in _CAUSES:
        waits = [
            f"{words} {number(samples.mean(grid, change, policy, 'wait_s'))} s"
            for grid, change, policy, words in cause.tests
            if change in samples.changes(grid)
        ]
        if waits:
            yield f"- {cause.text}. Waits: {', '.join(waits)}."


def draw(samples: CauseSamples, folder: Path) -> dict[str, str]:
    """Draw nothing: the section is a table."""
    return {}


PART = StudyPart("grid-causes", GridCauseCell, GridCauseRow, cells, run, CauseSamples,
            Claims[CauseSamples](), page, draw)  # fmt: skip
