"""What a policy may know: the taxonomies of the thesis, sections 5.1.4 (Table 5.1) and 6.1.3 (Table
6.1), made executable."""

from __future__ import annotations

from enum import Enum
from typing import Literal

import msgspec


class Knowledge(Enum):
    """How a piece of information reaches a policy."""

    UNKNOWN = "U"
    """Unknown, or ignored."""
    KNOWN = "K"
    """Known a priori."""
    RUNTIME = "R"
    """Obtained at run time."""
    HISTORICAL = "H"
    """From what was seen of earlier tasks."""


U, K, R = Knowledge.UNKNOWN, Knowledge.KNOWN, Knowledge.RUNTIME
H = Knowledge.HISTORICAL


class Information(msgspec.Struct, frozen=True):
    """One row of Table 6.1, or one place in Table 5.1 (``processing_speed``, ``task_runtime``). The
    view refuses what is not declared."""

    status: Knowledge = U
    """Idle cores and load of the sites."""
    processing_speed: Knowledge = U
    link_speed: Knowledge = U
    task_runtime: Knowledge = U
    file_size: Knowledge = U
    background_runtime: Knowledge = U
    """Run times of other users' jobs: what sets HEFT (K) and HEFT-P (R, predicted) apart."""


Observed = Literal["nothing", "load", "jobs"]
"""What sites tell of the jobs of others: how many cores they hold and wait for, or each of them."""


def uses_queues(information: Information) -> bool:
    """Whether a policy with this declaration may ask when a queue would start a task."""
    return U not in (information.task_runtime, information.status)


def observed_for(information: Information, *, binds_late: bool) -> Observed:
    """What a run has to know of the jobs of others, and no more, since it is logged at each
    observation. ``binds_late``: it fills free processors, whatever its policy declares."""
    if uses_queues(information):
        return "jobs"
    return "load" if binds_late or information.status is not U else "nothing"
