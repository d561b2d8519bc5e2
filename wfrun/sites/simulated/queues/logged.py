"""From jobs of a workload log to jobs of a batch simulation."""

from __future__ import annotations

from collections.abc import Iterable

from wfrun.engine.errors import InvalidError
from wfrun.parsers.logs import LoggedJob
from wfrun.sites.simulated.queues.batch import SimulatedJob


def simulated_jobs(jobs: Iterable[LoggedJob]) -> list[SimulatedJob]:
    """What each job asked for, and how long it ran, in the order of the log.

    The queue is asked for the processors that the user asked for; where a log does not tell, for
    those that the job got. A job without a request counts as having asked for its run time. Those
    that ran past their request stay as they are, see ``settle_overruns``.

    Raises InvalidError for a job whose run time or processors are unknown.
    """
    found = []
    for job in jobs:
        cores = job.requested_processors or job.processors
        if cores is None or job.runtime_s is None:
            what = "processors" if cores is None else "run time"
            raise InvalidError(
                f"job {job.id} can't be simulated: the log does not tell its {what}",
                hint="leave such jobs out: drop_jobs(jobs, RUNNABLE_RULES)",
            )
        requested_s = job.runtime_s if job.requested_s is None else job.requested_s
        found.append(SimulatedJob(job.submit_s, job.runtime_s, cores, requested_s))
    return found
