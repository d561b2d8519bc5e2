"""Queue models of one cluster (FCFS, EASY, …): the local resource manager (LRM) of a simulation.

``make_lrm`` makes a model by its name. Its user reports submissions, ends and cancellations to it
by the protocol ``Lrm``. Users are simulated sites, simulated grids, and predictions of waits;
``simulate_batch`` runs a list of jobs through one model.
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
