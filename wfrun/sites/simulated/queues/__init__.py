"""Models of the queue of one cluster, by name, and their simulation with a list of jobs.

``make_lrm`` makes a queue, and its owner follows the protocol ``Lrm``: ``SimulatedSite``, which has
a head node, nodes, failures and jobs of the engine, or ``simulate_batch``, which only runs the jobs
of a list and is more than twice as fast.
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
    """Make an empty queue. Raises InvalidError for a name that is not in ``LRMS``, with the nearest
    right one, and for a cluster without processors."""
    return look_up(LRMS, name, "queue model")(processors)


def simulate_batch(
    jobs: Sequence[SimulatedJob], processors: int, lrm_name: str, *, kill_overruns: bool
) -> Schedule:
    """The start and end of each job on a cluster of their own, see ``run_batch``."""
    return run_batch(jobs, make_lrm(lrm_name, processors), kill_overruns=kill_overruns)
