"""Models of the queue of one cluster (local resource managers), by name, and their simulation with
a list of jobs.

``make_lrm`` makes a queue. Its owner drives it by the protocol ``Lrm``. There are three kinds of
owners: simulated sites, with a head node, nodes, failures and jobs of the engine;
``simulate_batch``, which only runs a list of jobs and is more than twice as fast; and predictions
of waits.
"""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine.fitting.names import look_up
from wfrun.engine.queues.batch import Schedule, SimulatedJob, run_batch
from wfrun.engine.queues.conservative import Conservative
from wfrun.engine.queues.easy import Easy
from wfrun.engine.queues.fcfs import Fcfs
from wfrun.engine.queues.lrm import JobId, Lrm, QueuedJob
from wfrun.engine.queues.replanned import Replanned

__all__ = [
    "LRMS",
    "JobId",
    "Lrm",
    "QueuedJob",
    "Schedule",
    "SimulatedJob",
    "make_lrm",
    "simulate_batch",
]

LRMS: dict[str, type[Fcfs] | type[Easy] | type[Conservative]] = {
    lrm.name: lrm for lrm in (Fcfs, Easy, Conservative, Replanned)
}


def make_lrm(name: str, processors: int) -> Lrm:
    """Make an empty queue. Raises InvalidError for a cluster without processors and for a name that
    is not in ``LRMS``; the message suggests the nearest name."""
    return look_up(LRMS, name, "queue model")(processors)


def simulate_batch(
    jobs: Sequence[SimulatedJob], processors: int, lrm_name: str, *, kill_overruns: bool
) -> Schedule:
    """Simulate the jobs on a cluster that runs no other jobs; see ``run_batch``."""
    return run_batch(jobs, make_lrm(lrm_name, processors), kill_overruns=kill_overruns)
