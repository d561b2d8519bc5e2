"""Conversion of the jobs of a workload log into jobs of a simulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wfrun.engine.errors import InvalidError
from wfrun.engine.queues.batch import SimulatedJob
from wfrun.parsers.logs import LoggedJob


def simulated_jobs(jobs: Iterable[LoggedJob]) -> list[SimulatedJob]:
    """Return a simulated job for each logged job, in the order of the log.

    A job requests the processors that its user requested; if the log does not give them, the
    processors that it was allocated. A job without a requested time requests its run time. Run
    times beyond the request are kept, see ``settle_overruns``.

    Raises InvalidError for a job whose run time or processors are unknown.
    """
    found = []
    for job in jobs:
        cores = job.size
        if not cores or job.runtime_s is None:
            what = "run time" if cores else "processors"
            raise InvalidError(
                f"job {job.id} cannot be simulated: the log does not give its {what}",
                hint="leave such jobs out: drop_jobs(jobs, RUNNABLE_RULES)",
            )
        requested_s = job.requested_s if has_request(job) else job.runtime_s
        owner, application = _name(job.user), _name(job.application)
        found.append(
            SimulatedJob(job.submit_s, job.runtime_s, cores, requested_s or 0.0, owner, application)
        )
    return found


def sizes_from(jobs: Sequence[LoggedJob]) -> str:
    """Phrase for reports: whether the jobs' numbers of processors are the requested or the
    allocated ones."""
    allocated = sum(1 for job in jobs if not job.requested_processors)
    if not allocated:
        return "as requested"
    if allocated == len(jobs):
        return "as allocated: the log gives no requested ones"
    return f"as requested; as allocated where there is no request ({allocated:,} of {len(jobs):,})"


def has_request(job: LoggedJob) -> bool:
    """Whether the log has a requested time of the job; a time of 0 is none."""
    return job.requested_s is not None and job.requested_s > 0


def _name(name: object) -> str:
    """The name of a user or application in a log, often a number; empty if the log has none."""
    return "" if name is None else str(name)
