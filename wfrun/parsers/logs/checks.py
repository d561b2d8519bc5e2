"""The last step of every reader: order the jobs, and report strange ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wfrun.parsers.logs.tally import FileTally
from wfrun.parsers.logs.workload_log import CANCELLED, LoggedJob, LogHeader, WorkloadLog

UNSORTED = "submitted before a job further up; sorted by submission"
TOO_LARGE = "more processors than the machine has (MaxProcs)"
REPEATED = "its job number is that of a job further up"
STATUS = "status that the format does not define"
NEGATIVE = "submitted at a negative time"
NO_PARENT = "depends on a job that is not in the log"


def finished(
    source: str,
    comments: Sequence[str],
    jobs: list[LoggedJob],
    lines: Sequence[int],
    tally: FileTally,
) -> WorkloadLog:
    """Make the log. ``lines`` are the line numbers of ``jobs``, in the same order.

    Raises InvalidError if there were lines but none could be read.
    """
    if not jobs:
        tally.refuse_all_dropped()
    header = LogHeader(tuple(comments))
    log = WorkloadLog(source, header, tuple(jobs))
    for reason, index in _strange(jobs, log.processors):
        tally.add("kept", reason, lines[index])
    unsorted = False
    for index in _out_of_order(jobs):
        unsorted = True
        tally.add("mended", UNSORTED, lines[index])
    if unsorted:
        jobs.sort(key=_submission)
    return WorkloadLog(source, header, tuple(jobs), tally.result())


def _submission(job: LoggedJob) -> float:
    return job.submit_s


def _out_of_order(jobs: Sequence[LoggedJob]) -> Iterator[int]:
    latest = float("-inf")
    for index, job in enumerate(jobs):
        if job.submit_s < latest:
            yield index
        else:
            latest = job.submit_s


def _strange(jobs: Sequence[LoggedJob], processors: int | None) -> Iterator[tuple[str, int]]:
    """Yield (reason, index) for each job that is kept although one of its values is impossible."""
    limit = processors or float("inf")
    for index, job in enumerate(jobs):
        if (job.processors or 0) > limit or (job.requested_processors or 0) > limit:
            yield TOO_LARGE, index
        if job.status is not None and not 0 <= job.status <= CANCELLED:
            yield STATUS, index
        if job.submit_s < 0:
            yield NEGATIVE, index
    # Most logs have neither dependencies nor repeated numbers, so they need no second pass.
    repeated = len({job.id for job in jobs}) < len(jobs)
    if repeated or any(job.grid is not None and job.grid.parents for job in jobs):
        yield from _wrong_keys(jobs)


def _wrong_keys(jobs: Sequence[LoggedJob]) -> Iterator[tuple[str, int]]:
    keys = {job.key for job in jobs}
    seen: set[tuple[int | None, int]] = set()
    for index, job in enumerate(jobs):
        if job.key in seen:
            yield REPEATED, index
        seen.add(job.key)
        grid = job.grid
        if grid is not None and any((grid.workflow, p) not in keys for p in grid.parents):
            yield NO_PARENT, index
