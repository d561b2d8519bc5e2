"""Writes logs in the Standard Workload Format 2.2, such that reading them back gives equal jobs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from wfrun.engine.errors import InvalidError
from wfrun.parsers.atomic import replacing
from wfrun.parsers.logs.workload_log import LoggedJob, WorkloadLog

_NAMES = ("user", "group", "application", "queue", "partition")


def write_swf(log: WorkloadLog, path: str | Path) -> None:
    """Write ``log`` to the file ``path``, uncompressed. The file is replaced only when it is
    complete.

    Comments come first, then the jobs in the log's order. SWF cannot express sites, the fields that
    GWF adds, names that are not numbers, or -1 as a value, since -1 means unknown. A log with any
    of these is refused rather than changed; the message names the first of them.

    Raises InvalidError for a refused log, and if ``path`` cannot be written.
    """
    for job in log.jobs:
        for reason in _obstacles(job):
            raise InvalidError(
                f"SWF has no place for {reason} of job {job.id}",
                source=str(path),
                hint="Write it as GWF, or without.",
            )
    with replacing(path) as stream:
        stream.writelines(f";{line}\n" for line in comment_lines(log))
        stream.writelines(_line(job) + "\n" for job in log.jobs)


def comment_lines(log: WorkloadLog) -> Iterator[str]:
    for comment in log.header.comments:
        yield from comment.splitlines() or [""]


def _obstacles(job: LoggedJob) -> Iterator[str]:
    if job.site is not None:
        yield f"the site {job.site!r}"
    if job.grid is not None:
        yield "the grid fields"
    for name in _NAMES:
        value = getattr(job, name)
        if isinstance(value, str):
            yield f"the {name} {value!r}, which is no number,"
    yield from number_obstacles(job)


def number_obstacles(job: LoggedJob) -> Iterator[str]:
    """Yield the values of a job that neither SWF nor GWF can express: -1, and numbers that are not
    finite."""
    for name in job.__struct_fields__:
        value = getattr(job, name)
        if value == -1 and name not in ("id", "submit_s"):
            yield f"-1, which means unknown, as {name}"
        if isinstance(value, float) and not math.isfinite(value):
            yield f"{value} as {name}"


def number_text(value: float | str | None) -> str:
    """Format whole numbers without a decimal point, others in the shortest form that reads back
    equal."""
    if value is None:
        return "-1"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _line(job: LoggedJob) -> str:
    values = (getattr(job, name) for name in job.__struct_fields__[:18])
    return " ".join(map(number_text, values))
