"""The lower bound of the weighted sum of completions, by HiGHS (scipy)."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine.errors import InfeasibleError
from wfrun.engine.jobs.packing import Dual, PackedJob, weighted_program


def weighted_bound(
    jobs: Sequence[PackedJob], processors: int, dual: Dual, *, as_printed: bool = False
) -> float:
    """The value of `weighted_program`. Raises InfeasibleError without scipy, or if it finds no
    solution."""
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
