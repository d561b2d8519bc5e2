"""Models of the queue of one cluster, by name, and a batch simulator that runs on them.

A simulated site makes one with ``make_lrm`` and follows the protocol ``Lrm``.
"""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine.names import look_up
from wfrun.sites.simulated.queues.batch import Schedule, SimulatedJob, run_batch
from wfrun.sites.simulated.queues.conservative import Conservative
from wfrun.sites.simulated.queues.easy import Easy
from wfrun.sites.simulated.queues.fcfs import Fcfs
from wfrun.sites.simulated.queues.logged import has_request, simulated_jobs
from wfrun.sites.simulated.queues.lrm import JobId, Lrm, QueuedJob

__all__ = [
    "LRMS",
    "JobId",
    "Lrm",
    "QueuedJob",
    "Schedule",
    "SimulatedJob",
    "has_request",
    "make_lrm",
    "simulate_batch",
    "simulated_jobs",
]

LRMS: dict[str, type[Fcfs] | type[Easy] | type[Conservative]] = {
    lrm.name: lrm for lrm in (Fcfs, Easy, Conservative)
}


def make_lrm(name: str, processors: int) -> Lrm:
    """An empty queue of a cluster. Raises InvalidError for a name that is not in ``LRMS``, with
    the nearest right one, and for a cluster without processors."""
    return look_up(LRMS, name, "queue model")(processors)


def simulate_batch(
    jobs: Sequence[SimulatedJob], processors: int, lrm_name: str, *, kill_overruns: bool
) -> Schedule:
    """When each job starts and ends on a cluster of its own, see ``run_batch``."""
    return run_batch(jobs, make_lrm(lrm_name, processors), kill_overruns=kill_overruns)
