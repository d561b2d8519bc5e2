"""Comparison of all packing algorithms on the same jobs, by makespan and weighted sum of completion
times, with lower bounds of both.

HiGHS (scipy) computes the lower bound of the weighted sum of completion times.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from wfrun.engine.errors import InfeasibleError
from wfrun.engine.jobs.packing import (
    PACKERS,
    Dual,
    PackedJob,
    PackedSchedule,
    Packing,
    dual_approximation,
    list_schedule,
    pack_arrivals,
    weighted_program,
)


class Bounds(NamedTuple):
    """Lower bounds of both criteria for jobs that are all present at the start."""

    makespan_s: float
    weighted_s: float | None
    """Weighted sum of completion times. None: scipy is absent or fails, or the jobs arrive over
    time."""
    printed_s: float | None
    """Value of the linear program as printed in the paper. It may exceed the optimum. None as for
    ``weighted_s``."""


class PackingComparison(NamedTuple):
    """The schedules of all algorithms, and the lower bounds."""

    schedules: dict[str, PackedSchedule]
    """The schedule of each algorithm, by its name in `PACKERS`."""
    bounds: Bounds


def compare(
    jobs: Sequence[PackedJob], arrivals_s: Sequence[float] | None, processors: int, seed: int
) -> PackingComparison:
    """Pack jobs by all algorithms. No job may be wider than ``processors``. With ``arrivals_s``, in
    seconds, the algorithms work on-line: they know a job only from its arrival. None: all jobs are
    present at the start."""
    dual = dual_approximation(jobs, processors)
    weighted_s = printed_s = None
    try:
        if arrivals_s is None:  # It says nothing of jobs that arrive late.
            weighted_s = weighted_bound(jobs, processors, dual)
            printed_s = weighted_bound(jobs, processors, dual, as_printed=True)
    except InfeasibleError:
        pass
    schedules = {}
    for name, pack in PACKERS.items():
        if arrivals_s is None:
            packing = pack(jobs, processors, dual, seed)
            schedules[name] = list_schedule(jobs, packing, processors)
        else:
            schedules[name] = pack_arrivals(
                jobs, arrivals_s, processors, partial(_pack, name=name, seed=seed)
            )
    return PackingComparison(schedules, Bounds(dual.lower_s, weighted_s, printed_s))


def _pack(jobs: Sequence[PackedJob], processors: int, *, name: str, seed: int) -> Packing:
    return PACKERS[name](jobs, processors, dual_approximation(jobs, processors), seed)


def weighted_bound(
    jobs: Sequence[PackedJob], processors: int, dual: Dual, *, as_printed: bool = False
) -> float:
    """Minimum of the linear program `weighted_program`. Raises InfeasibleError if scipy is absent
    or finds no solution."""
    try:
        from scipy.optimize import linprog
        from scipy.sparse import csr_matrix
    except ImportError:
        raise InfeasibleError(
            "the bound of the weighted sum of completions needs scipy",
            hint="install it: pip install scipy",
        ) from None
    program = weighted_program(jobs, processors, dual.length_s, as_printed=as_printed)
    values, rows, columns = [], [], []
    for row, variables in enumerate(program.cover):
        values += [-1.0] * len(variables)
        rows += [row] * len(variables)
        columns += variables
    for row, entries in enumerate(program.areas, len(program.cover)):
        for variable, share in entries:
            values.append(share)
            rows.append(row)
            columns.append(variable)
    limits = [-1.0] * len(program.cover) + [1.0] * len(program.areas)
    matrix = csr_matrix((values, (rows, columns)), shape=(len(limits), len(program.costs)))
    found = linprog(program.costs, A_ub=matrix, b_ub=limits, method="highs")
    if not found.success:
        raise InfeasibleError(
            f"no bound of the weighted sum of completions was found: {found.message}"
        )
    return float(found.fun)
