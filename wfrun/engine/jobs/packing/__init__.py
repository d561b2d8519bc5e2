"""Packing of moldable jobs into one allocation, by two criteria: the makespan and the weighted sum
of completion times.

Source: P.-F. Dutot, L. Eyraud, G. Mounié, D. Trystram, *Bi-criteria Algorithm for Scheduling Jobs
on Cluster Platforms*, SPAA 2004.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wfrun.engine.jobs.packing.bounds import LinearProgram, weighted_program
from wfrun.engine.jobs.packing.demt import demt
from wfrun.engine.jobs.packing.dual import Dual, dual_approximation
from wfrun.engine.jobs.packing.job import (
    PackedJob,
    PackedSchedule,
    Packing,
    assign,
    list_schedule,
    list_starts,
)
from wfrun.engine.jobs.packing.lists import (
    area_list,
    gang,
    sequential,
    shelf_list,
    weighted_list,
)
from wfrun.engine.jobs.packing.online import pack_arrivals

Packer = Callable[[Sequence[PackedJob], int, Dual, int], Packing]
"""A packing algorithm. Arguments: jobs, number of processors, dual approximation, seed."""

PACKERS: dict[str, Packer] = {
    "demt": demt,
    "gang": lambda jobs, processors, dual, seed: gang(jobs),
    "sequential": lambda jobs, processors, dual, seed: sequential(jobs),
    "list": lambda jobs, processors, dual, seed: shelf_list(jobs, dual),
    "lptf": lambda jobs, processors, dual, seed: weighted_list(jobs, dual),
    "saf": lambda jobs, processors, dual, seed: area_list(jobs, dual),
}
"""Packing algorithms by name, as in ``wfrun jobs --pack``."""

__all__ = [
    "PACKERS",
    "Dual",
    "LinearProgram",
    "PackedJob",
    "PackedSchedule",
    "Packer",
    "Packing",
    "assign",
    "dual_approximation",
    "list_schedule",
    "list_starts",
    "pack_arrivals",
    "weighted_program",
]
