"""Moldable jobs packed into one allocation, for the last completion and for the weighted sum of
completions.

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
"""An algorithm: takes jobs, processors, the dual approximation and a seed, and returns a list and
sizes."""

PACKERS: dict[str, Packer] = {
    "demt": demt,
    "gang": lambda jobs, processors, dual, seed: gang(jobs),
    "sequential": lambda jobs, processors, dual, seed: sequential(jobs),
    "list": lambda jobs, processors, dual, seed: shelf_list(jobs, dual),
    "lptf": lambda jobs, processors, dual, seed: weighted_list(jobs, dual),
    "saf": lambda jobs, processors, dual, seed: area_list(jobs, dual),
}
"""By name, as in ``wfrun jobs --pack``."""

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
