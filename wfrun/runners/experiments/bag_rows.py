"""What is compared when workloads of bags are simulated, and what is measured of each."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Literal

import msgspec

from wfrun.runners.simulate.bags import BagRun

SIZES: tuple[tuple[int, str], ...] = (
    (1, "1"),
    (2, "2-4"),
    (5, "5-9"),
    (10, "10-19"),
    (20, "20-49"),
    (50, "50-99"),
    (100, "100-199"),
    (200, "200-499"),
    (500, "500-999"),
    (1000, "1000+"),
)
"""Classes of bags by size (thesis section 5.2.4), each by its least, and single tasks."""


class BagCell(msgspec.Struct, frozen=True):
    """One simulated run of a workload of bags."""

    workload: str
    """A row of Table 5.3, or a log."""
    architecture: str
    selection: str
    policy: str
    replicas: int | None
    """Most replicas of a task; None: as many as the policy has."""
    load: float | None
    """Share of all processors that is busy until the last arrival if nothing waits
    (`wfrun.runners.experiments.bag_load`); None: as it is in the log."""
    tasks: int | None
    """In all, about; None: those of the log."""
    seed: int
    arrival: Literal["realistic", "at-once", "even"] = "realistic"
    median_size: float | None = None
    """Of the bags; this and the next: None: those of the model."""
    mean_runtime_s: float | None = None
    inaccuracy: float = 0.0
    """Of estimates, in percent: each is off by up to that share of the run time."""


class BagRow(BagCell, frozen=True):
    """What came of a cell; the first two measures are those of thesis section 5.3.2."""

    makespan_s: float = 0.0
    """Mean over the bags, from their arrival to the end of their last task."""
    nsl: float = 0.0
    """Mean of the bags' makespan over the sum of their run times on the reference processor."""
    bags: int = 0
    done: int = 0
    """Tasks; all of them."""
    completed_share: float = 0.0
    """Of the tasks, those that were done by the last arrival."""
    utilization: float = 0.0
    """Share of all processors that was in use until the last arrival."""
    replicas_started: int = 0
    """Attempts beyond the first of each task."""
    wasted_share: float = 0.0
    """Of the processor time used, that of attempts which were not the first of their task to be
    done."""
    last_arrival_s: float = 0.0
    last_end_s: float = 0.0
    class_bags: tuple[float, ...] = ()
    """By class of SIZES: number of bags, and the means of makespan and NSL; 0 without a bag."""
    class_makespan_s: tuple[float, ...] = ()
    class_nsl: tuple[float, ...] = ()


def row_of(cell: BagCell, run: BagRun) -> BagRow:
    """The metrics of a workload that has been simulated."""
    nsl = [m / work for m, work in zip(run.makespans_s, run.work_s, strict=True)]
    classes = [size_class(size) for size in run.sizes]
    counts = [classes.count(number) for number in range(len(SIZES))]
    tally, state = run.tally, run.state
    tasks = sum(run.sizes)
    slots = sum(site.spec.slots for site in state.sites)
    return BagRow(
        **msgspec.structs.asdict(cell),
        makespan_s=_mean(run.makespans_s),
        nsl=_mean(nsl),
        bags=len(run.sizes),
        done=tasks,
        completed_share=tally.done_in_time / tasks,
        utilization=tally.used_in_time_s / (slots * tally.until_s) if tally.until_s else 0.0,
        replicas_started=tally.placed - tasks,
        wasted_share=tally.wasted_s / tally.used_s if tally.used_s else 0.0,
        last_arrival_s=tally.until_s,
        last_end_s=state.now_s,
        class_bags=tuple(map(float, counts)),
        class_makespan_s=_means_by(classes, run.makespans_s),
        class_nsl=_means_by(classes, nsl),
    )


def size_class(size: int) -> int:
    """The number of the class in SIZES that a bag of so many tasks is in."""
    return max(number for number, (least, _) in enumerate(SIZES) if size >= least)


def _means_by(classes: Sequence[int], values: Sequence[float]) -> tuple[float, ...]:
    groups: list[list[float]] = [[] for _ in SIZES]
    for number, value in zip(classes, values, strict=True):
        groups[number].append(value)
    return tuple(_mean(group) if group else 0.0 for group in groups)


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)
