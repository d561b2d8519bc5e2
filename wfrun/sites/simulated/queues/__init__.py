"""Queues of simulated clusters: those of `wfrun.engine.queues`, and their jobs from workload
logs."""

from wfrun.engine.queues import (
    LRMS,
    JobId,
    Lrm,
    QueuedJob,
    Schedule,
    SimulatedJob,
    make_lrm,
    simulate_batch,
)
from wfrun.sites.simulated.queues.logged import has_request, simulated_jobs, sizes_from

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
    "sizes_from",
]
