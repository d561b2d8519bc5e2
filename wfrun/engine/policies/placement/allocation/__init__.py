"""Allocation strategies by level of information.

Source: Ramírez-Alcaraz et al., *Job Allocation Strategies with User Run Time Estimates for Online
Scheduling in Hierarchical Grids*, J. Grid Computing 9 (2011) 95-116, Table 1.

Each sends a parallel job to one site immediately, and the queue of that site starts it. The
strategies differ by the information that they use, their *level*:

1. sizes of the jobs at each site,
2. also run times, as users estimate them or as they are predicted,
3. also the schedule of each site.

The sums of Table 1 are over the jobs that have not ended: section 3 gives the strategies no more
than "the number of unfinished jobs in the system, their processor requirements and user runtime
estimates". Ties go to the first site in the catalog.
"""

from __future__ import annotations

from wfrun.engine.policies.placement.allocation.balance import LbalS, LbalT, LbalW
from wfrun.engine.policies.placement.allocation.loads import Mlb, Mlp, Mpl, RandomSite
from wfrun.engine.policies.placement.allocation.schedules import (
    Mct,
    Mst,
    MswctW,
    Mwt,
    MwwtS,
    MwwtT,
    MwwtW,
)
from wfrun.engine.policies.placement.allocation.strategy import Level, Strategy

__all__ = ["STRATEGIES", "Level", "Strategy"]

STRATEGIES: tuple[type[Strategy], ...] = (
    RandomSite,
    Mlp,
    Mpl,
    LbalS,
    LbalT,
    LbalW,
    Mlb,
    Mct,
    Mwt,
    MwwtS,
    MwwtT,
    MwwtW,
    Mst,
    MswctW,
)
"""All strategies in the order of Table 1."""
