"""The information that a policy may use: the taxonomies of thesis sections 5.1.4 (Table 5.1) and
6.1.3 (Table 6.1), made executable."""

from __future__ import annotations

from enum import Enum
from typing import Literal

import msgspec


class Knowledge(Enum):
    """How a piece of information reaches a policy."""

    UNKNOWN = "U"
    """Unknown or ignored."""
    KNOWN = "K"
    """Known a priori."""
    RUNTIME = "R"
    """Obtained at run time."""
    HISTORICAL = "H"
    """Derived from earlier tasks."""


U, K, R = Knowledge.UNKNOWN, Knowledge.KNOWN, Knowledge.RUNTIME
H = Knowledge.HISTORICAL


class Information(msgspec.Struct, frozen=True):
    """The information that a policy declares: a row of Table 6.1, or a cell of Table 5.1
    (``processing_speed``, ``task_runtime``). The view refuses everything else."""

    status: Knowledge = U
    """Idle cores and load of the sites."""
    processing_speed: Knowledge = U
    link_speed: Knowledge = U
    task_runtime: Knowledge = U
    """Expected run times at each site, which show its speed, too."""
    file_size: Knowledge = U
    background_runtime: Knowledge = U
    """Run times of other users' jobs: the difference between HEFT (K) and HEFT-P (R, predicted)."""
    totals: bool = False
    """Sums over the run's open tasks at each site: their run times, work, waits and completions."""


Observed = Literal["nothing", "load", "jobs"]
"""Observation of other users' jobs: nothing, the cores that they hold and request, or each job."""


def uses_queues(information: Information) -> bool:
    """Whether a policy with this declaration may ask when a queue would start a task."""
    return U not in (information.task_runtime, information.status)


def observed_for(information: Information, *, binds_late: bool) -> Observed:
    """Return the least observation of other users' jobs that a run needs, since every observation
    is logged. ``binds_late``: the run fills free cores. It then needs the load, even if the policy
    does not declare it."""
    if uses_queues(information):
        return "jobs"
    return "load" if binds_late or information.status is not U else "nothing"
