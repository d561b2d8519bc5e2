"""The experiments of section 4 of the paper, and the measures of their runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from wfrun.engine.jobs.packing import PACKERS, PackedJob, Packing, list_schedule
from wfrun.engine.jobs.packing.demt import demt
from wfrun.engine.jobs.packing.dual import Dual, dual_approximation
from wfrun.runners.simulate.packed.compare import weighted_bound
from wfrun.studies.common.verdict import Sample
from wfrun.studies.demt.workloads import CIRNE, PROCESSORS, SIGMA, WORKLOADS, make_jobs

ALGORITHMS = tuple(PACKERS)
DEMT, GANG, SEQUENTIAL, LIST, LPTF, SAF = ALGORITHMS
LISTS = (LIST, LPTF, SAF)
NAMES = dict(
    zip(ALGORITHMS, ("DEMT", "Gang", "Sequential", "List", "weighted LPTF", "SAF"), strict=True)
)

BASE, PRINTED, UNSHUFFLED, ACHIEVED = "base", "X as printed", "own order", "length of schedule"
RATIO = "weight over run time"
BALANCED, UNEVEN = "σ = 0", "σ = 2"
VARIANTS = {
    PRINTED: "the recurrence with X, which makes *highly* parallel jobs weakly parallel",
    UNSHUFFLED: "the batches of DEMT stay in their own order",
    ACHIEVED: "C*_max of DEMT is the length of the schedule of the dual approximation, not the "
    "length that it accepts",
    RATIO: "all jobs of DEMT by weight over run time, with the sizes of their batches, instead of "
    "batch by batch",
    BALANCED: "Downey's model with σ = 0",
    UNEVEN: "Downey's model with σ = 2",
}
_SIGMAS = {BALANCED: 0.0, UNEVEN: 2.0}
VARIED_TASKS = 100
"""Number of jobs in the runs of variants."""


class DemtCell(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that one run packs."""

    workload: str
    tasks: int
    seed: int
    variant: str = BASE


class DemtRow(DemtCell, frozen=True, kw_only=True):
    """The measures of a run. Tuples have a value for each of `ALGORITHMS`."""

    makespans: tuple[float, ...]
    weighted: tuple[float, ...]
    makespan_bound: float
    weighted_bound: float
    printed_bound: float
    """Lower bound of the weighted sum by the linear program as the paper prints it; 0 for a
    variant."""
    demt_s: float
    """Processor seconds of this machine that DEMT and the dual approximation took."""


class Scale(msgspec.Struct, frozen=True):
    """The size of the study: the number of repetitions and the numbers of jobs."""

    seeds: int
    tasks: tuple[int, ...]


FULL = Scale(40, (25, 50, 100, 200, 400))
QUICK = Scale(5, (25, 100))


def cells(scale: Scale) -> list[DemtCell]:
    """All runs of a study, one seed after the other."""
    return [cell for seed in range(scale.seeds) for cell in _repetition(scale, seed)]


def _repetition(scale: Scale, seed: int) -> Iterator[DemtCell]:
    for workload in WORKLOADS:
        for tasks in scale.tasks:
            yield DemtCell(workload=workload, tasks=tasks, seed=seed)
        for variant in variants_of(workload):
            yield DemtCell(workload=workload, tasks=VARIED_TASKS, seed=seed, variant=variant)


def variants_of(workload: str) -> list[str]:
    """The variants that change the jobs or the packing of a workload."""
    return [v for v in VARIANTS if (v in _SIGMAS) <= (workload == CIRNE)
            and (v != PRINTED or workload != CIRNE)]  # fmt: skip


def run_cell(cell: DemtCell) -> DemtRow:
    """Pack the jobs of one run by all algorithms."""
    jobs = make_jobs(
        cell.workload, cell.tasks, cell.seed,
        as_printed=cell.variant == PRINTED, sigma=_SIGMAS.get(cell.variant, SIGMA),
    )  # fmt: skip
    begun_s = time.process_time()
    dual = dual_approximation(jobs, PROCESSORS)
    packings = {DEMT: demt(jobs, PROCESSORS, _length(dual, cell.variant), cell.seed,
                           *([0] if cell.variant == UNSHUFFLED else []))}  # fmt: skip
    demt_s = time.process_time() - begun_s
    if cell.variant == RATIO:
        packings[DEMT] = _by_ratio(jobs, packings[DEMT])
    for name in ALGORITHMS[1:]:
        packings[name] = PACKERS[name](jobs, PROCESSORS, dual, cell.seed)
    schedules = [list_schedule(jobs, packings[name], PROCESSORS) for name in ALGORITHMS]
    printed = (
        weighted_bound(jobs, PROCESSORS, dual, as_printed=True) if cell.variant == BASE else 0.0
    )
    return DemtRow(
        **msgspec.structs.asdict(cell),
        makespans=tuple(schedule.makespan_s for schedule in schedules),
        weighted=tuple(schedule.weighted_s(jobs) for schedule in schedules),
        makespan_bound=dual.lower_s,
        weighted_bound=weighted_bound(jobs, PROCESSORS, dual),
        printed_bound=printed,
        demt_s=demt_s,
    )


def _by_ratio(jobs: Sequence[PackedJob], packing: Packing) -> Packing:
    def ratio(number: int) -> float:
        return jobs[number].weight / jobs[number].times_s[packing.places[number]]

    return packing._replace(order=tuple(sorted(packing.order, key=ratio, reverse=True)))


def _length(dual: Dual, variant: str) -> Dual:
    if variant != ACHIEVED:
        return dual
    return dual._replace(shelves=dual.shelves._replace(length_s=dual.schedule.makespan_s))


MAKESPAN, WEIGHTED = "C_max", "Σ w C"
CRITERIA = (MAKESPAN, WEIGHTED)


@dataclass(frozen=True)
class DemtSamples:
    """The rows of a study by point. A point is a workload, a number of jobs and a variant."""

    rows: Sequence[DemtRow]

    @property
    def tasks(self) -> list[int]:
        """The numbers of jobs of the points without a variant, ascending."""
        return sorted({row.tasks for row in self.rows if row.variant == BASE})

    @property
    def seeds(self) -> int:
        """The number of repetitions."""
        return len({row.seed for row in self.rows})

    def of(self, workload: str, tasks: int, variant: str = BASE) -> list[DemtRow]:
        """The runs of a point."""
        return [
            row for row in self.rows
            if (row.workload, row.tasks, row.variant) == (workload, tasks, variant)
        ]  # fmt: skip

    def ratio(
        self, workload: str, tasks: int, algorithm: str, criterion: str, variant: str = BASE
    ) -> float:
        """The sum of the criterion over the runs of a point, divided by the sum of its lower bound
        (section 4.2)."""
        rows = self.of(workload, tasks, variant)
        return sum(value(r, algorithm, criterion) for r in rows) / sum(
            bound(r, criterion) for r in rows
        )

    def sample(
        self, workload: str, tasks: int, algorithm: str, criterion: str, variant: str = BASE
    ) -> Sample:
        """The criterion of each run, divided by the mean lower bound of the point. The mean of the
        sample therefore equals `ratio`."""
        rows = self.of(workload, tasks, variant)
        mean = sum(bound(row, criterion) for row in rows) / len(rows)
        return Sample({row.seed: value(row, algorithm, criterion) / mean for row in rows})

    def single(self, algorithm: str, criterion: str) -> list[float]:
        """The criterion divided by its lower bound, for each run without a variant."""
        return [
            value(row, algorithm, criterion) / bound(row, criterion)
            for row in self.rows
            if row.variant == BASE
        ]


def value(row: DemtRow, algorithm: str, criterion: str) -> float:
    """The criterion of one run."""
    values = row.makespans if criterion == MAKESPAN else row.weighted
    return values[ALGORITHMS.index(algorithm)]


def bound(row: DemtRow, criterion: str) -> float:
    """The lower bound of the criterion in one run."""
    return row.makespan_bound if criterion == MAKESPAN else row.weighted_bound
