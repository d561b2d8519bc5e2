"""Moldable parallel jobs: run times by size, and the choice of the size at submission.

Source: G. Charrier, Y. Caniou, F. Desprez, *Evaluation of Reallocation Heuristics for Moldable
Tasks in Computational Dedicated and non Dedicated Grids*, INRIA RR-7365, 2010 (section 3.2.1).
"""

from wfrun.engine.jobs.moldable.run_times import (
    Amdahl,
    MoldableRunTimes,
    RunTimeTable,
    amdahl_speedup,
    fixed,
)
from wfrun.engine.jobs.moldable.sizing import (
    SIZINGS,
    Estimator,
    Sized,
    Sizing,
    binary_search,
    exhaustive_search,
)

__all__ = [
    "SIZINGS",
    "Amdahl",
    "Estimator",
    "MoldableRunTimes",
    "RunTimeTable",
    "Sized",
    "Sizing",
    "amdahl_speedup",
    "binary_search",
    "exhaustive_search",
    "fixed",
]
