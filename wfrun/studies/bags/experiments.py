"""The experiments of thesis section 5.4: the simulated runs, and their results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.fitting.information import Knowledge
from wfrun.engine.policies.placement import placement_class
from wfrun.parsers.generate.bots_model import ROWS
from wfrun.runners.experiments.cells import Cell, Row
from wfrun.runners.experiments.experiment import Experiment
from wfrun.runners.experiments.subjects.workloads import (
    POLICIES,
    TASKS,
    LogOfBags,
    Workloads,
    log_of_bags,
)
from wfrun.runners.metrics.samples import Summary, summarize
from wfrun.runners.simulate.das3_grid5000 import das3_grid5000
from wfrun.runners.simulate.simulation import Platform
from wfrun.studies.common.verdict import Sample

SELECTIONS = ("s-t", "s-bot", "s-u-prio", "s-u-t", "s-u-bot", "s-u-grr", "s-u-rr")
ARCHITECTURES = ("csp", "sep-c", "fcondor")
ARRIVALS = ("realistic", "even", "at-once")

BASE_LOAD = 0.6
"""Load of the generated workloads in the experiments of Table 5.4 that do not vary the load."""

BASE = Cell(workload="average", selection="s-t", policy="fplt", load=BASE_LOAD, tasks=TASKS)
"""Common values of the experiments of Table 5.4; each experiment varies some of them."""

MONITORING_S = 10.0
"""Period of the monitoring service of csp in seconds (section 5.1.2). The thesis does not state it;
the page shows the results with other periods."""

REAL_LOAD = 0.25
STAND_IN = "grid5000"
"""Workload in place of a missing log: the row of Table 5.3 for the larger of the two grids."""


class BagsScale(msgspec.Struct, frozen=True):
    """The size of the study."""

    tasks: int
    seeds: int
    loads: tuple[float, ...]
    """Loads of sections 5.4.1, 5.4.4 and 5.4.5."""
    median_sizes: tuple[float, ...]
    mean_runtimes_s: tuple[float, ...]
    inaccuracies: tuple[float, ...]
    """Inaccuracies of estimates in percent, in addition to 0, which is always simulated."""
    rows: tuple[str, ...]
    """Rows of Table 5.3 that are simulated in addition to the row of the average system."""
    cause_tasks: int = 20_000
    """Number of tasks of the simulations with changes: the smallest number of section 5.3.3."""
    cause_seeds: int = 1


QUICK = BagsScale(
    tasks=TASKS // 16,
    seeds=1,
    loads=(0.2, 0.4, 0.5, 0.6, 0.8, 0.95),
    median_sizes=(10, 30, 50),
    mean_runtimes_s=(180, 1800, 10800),
    inaccuracies=(100, 10_000),
    rows=("das-2", "lcg"),
)
FULL = BagsScale(
    tasks=TASKS,
    seeds=5,
    loads=(0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 0.95),
    median_sizes=(10, 20, 30, 40, 50),
    mean_runtimes_s=(180, 600, 1800, 3600, 10800),
    inaccuracies=(10, 100, 500, 1000, 10_000),
    rows=tuple(name for name in ROWS if name != BASE.workload),
    cause_seeds=3,
)
"""The full study: 7 loads, at least 5 values of everything else, and over 1,200 simulations, as in
the thesis."""

DISTINCT = tuple(name for name in POLICIES if name != "dfplt")
"""The policies without DFPLT. In the thesis DFPLT is equal to FPLT, because the speeds of sites do
not change. Here it learns the speeds, and is simulated only under the loads of section 5.4.1."""


def subject_of(log: LogOfBags | None) -> Workloads:
    """The workloads of the study, with its monitoring period."""
    return Workloads(logs=() if log is None else (log,), monitoring_s=MONITORING_S)


def experiment_of(log: LogOfBags | None) -> Experiment:
    """The experiment that the cells of the study belong to."""
    return Experiment(
        subject=subject_of(log),
        platform=Platform(das3_grid5000()),
        policies=POLICIES,
    )


def log_of(corpus: Path | None) -> LogOfBags | None:
    """The log of bags in ``corpus``; None without a corpus. Raises InvalidError for a corpus
    without a log of bags."""
    if corpus is None:
        return None
    for path in sorted(corpus.rglob("LPC-EGEE*.swf*")):
        return log_of_bags(path)
    raise InvalidError(
        "there is no log of bags of tasks in this folder",
        source=str(corpus),
        hint="it should hold LPC-EGEE-2004-1.2-cln.swf.gz of the Parallel Workloads Archive",
    )


def real_cell(scale: BagsScale, workload: str) -> Cell:
    """The run of section 5.4.1 under real load."""
    return msgspec.structs.replace(BASE, workload=workload, load=REAL_LOAD, tasks=scale.tasks)


def cells(scale: BagsScale, real: str) -> list[Cell]:
    """All simulated runs of the study, each once, in the order of the experiments. ``real`` is the
    workload of the real load."""
    made: dict[Cell, None] = {}
    for seed in range(scale.seeds):
        for changes in _variations(scale, real):
            cell = msgspec.structs.replace(BASE, **{"tasks": scale.tasks, "seed": seed, **changes})
            made[cell] = None
    return list(made)


def _variations(scale: BagsScale, real: str) -> Iterator[dict[str, object]]:
    for policy in POLICIES:
        yield {"workload": real, "load": REAL_LOAD, "policy": policy}
    for load, policy in product(scale.loads, POLICIES):
        yield {"load": load, "policy": policy}
    for load, selection in product(scale.loads, SELECTIONS):
        yield {"load": load, "selection": selection}
    for load, architecture in product(scale.loads, ARCHITECTURES):
        yield {"load": load, "architecture": architecture}
    for arrival, policy in product(ARRIVALS, DISTINCT):
        yield {"arrival": arrival, "policy": policy}
    for size, policy in product(scale.median_sizes, DISTINCT):
        yield {"median_size": size, "policy": policy}
    for runtime_s, policy in product(scale.mean_runtimes_s, DISTINCT):
        yield {"mean_runtime_s": runtime_s, "policy": policy}
    for inaccuracy, policy in product(scale.inaccuracies, DISTINCT):
        if uses_estimates(policy):
            yield {"inaccuracy": inaccuracy, "policy": policy}
    for row, policy in product(scale.rows, DISTINCT):
        yield {"workload": row, "policy": policy}


def uses_estimates(policy: str) -> bool:
    """Whether a policy uses the users' estimates of run times. With other policies, runs that
    differ only in the inaccuracy of estimates are equal."""
    return placement_class(policy).information.task_runtime is Knowledge.KNOWN


class BagSamples:
    """The measures of each cell in all repetitions. In the methods, ``measure`` is a field of
    `Row`, and ``changes`` are fields of `Cell` with values that differ from those of BASE."""

    def __init__(self, rows: Sequence[Row], scale: BagsScale, real: str) -> None:
        self.scale = scale
        self.real = real
        self._groups: dict[Cell, list[Row]] = {}
        for row in rows:
            self._groups.setdefault(_without_seed(row), []).append(row)

    def of(self, measure: str, **changes: object) -> Summary:
        """Mean and confidence interval of a measure over the repetitions."""
        return self.sample(measure, **changes).summary

    def sample(self, measure: str, **changes: object) -> Sample:
        """The value of each repetition, by its seed."""
        return Sample({row.seed: getattr(row, measure) for row in self._rows(changes)})

    def sample_of_size(self, size: int, measure: str, **changes: object) -> Sample:
        """Mean of a measure over the bags of a size class, by seed. ``size`` is an index of SIZES.
        Repetitions without bags of this class are absent."""
        return Sample(
            {
                row.seed: getattr(row, f"class_{measure}")[size]
                for row in self._rows(changes)
                if row.class_bags[size]
            }
        )

    def mean(self, measure: str, **changes: object) -> float:
        """The mean over the repetitions."""
        return self.of(measure, **changes).mean

    def of_size(self, size: int, measure: str, **changes: object) -> float | None:
        """Mean of a measure over the bags of a size class in all repetitions; None if there are no
        such bags. ``size`` is an index of SIZES."""
        rows = self._rows(changes)
        counts = [row.class_bags[size] for row in rows]
        if not sum(counts):
            return None
        values: list[float] = [getattr(row, f"class_{measure}")[size] for row in rows]
        return sum(n * value for n, value in zip(counts, values, strict=True)) / sum(counts)

    def bags_of_size(self, size: int, **changes: object) -> float:
        """Number of bags of a size class, mean over the repetitions. ``size`` is an index of
        SIZES."""
        return summarize(row.class_bags[size] for row in self._rows(changes)).mean

    def _rows(self, changes: Mapping[str, object]) -> list[Row]:
        cell = msgspec.structs.replace(BASE, **{"tasks": self.scale.tasks, **changes})
        if not uses_estimates(cell.policy):
            cell = msgspec.structs.replace(cell, inaccuracy=0.0)
        return self._groups[_without_seed(cell)]


def _without_seed(cell: Cell) -> Cell:
    values = {name: getattr(cell, name) for name in Cell.__struct_fields__}
    return Cell(**{**values, "seed": -1})
