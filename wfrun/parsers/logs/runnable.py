"""Workload logs as lists of jobs that can be simulated or emulated."""

from __future__ import annotations

from pathlib import Path

from wfrun.engine.errors import InvalidError
from wfrun.parsers.logs.filters import RUNNABLE_RULES, drop_jobs
from wfrun.parsers.logs.gwf import read_gwf
from wfrun.parsers.logs.lines import numbered_lines
from wfrun.parsers.logs.swf import read_swf
from wfrun.parsers.logs.workload_log import LoggedJob


def read_log(
    path: Path, *, skip_bad_lines: bool = False
) -> tuple[tuple[LoggedJob, ...], list[str], int | None]:
    """The jobs of a log that can be simulated, in order of submission; remarks on what was mended
    or dropped; and the number of processors of the cluster, None if the log does not state it.

    Files with the suffix ``.gwf`` are read as GWF, all others as SWF. With ``skip_bad_lines`` lines
    that cannot be read are dropped. Raises InvalidError if the log cannot be read or no job can be
    simulated.
    """
    log = (read_gwf if ".gwf" in path.suffixes else read_swf)(path, skip_bad_lines=skip_bad_lines)
    filtered = drop_jobs(log.jobs, RUNNABLE_RULES)
    remarks = [f"{path}: {remark}" for remark in log.dropped]
    remarks += [
        f"{path}: {dropped} {'job' if dropped == 1 else 'jobs'} dropped: {why}"
        for why, dropped in filtered.dropped.items()
    ]
    if not log.jobs:
        raise InvalidError("the log has no jobs", source=str(path), hint="Give a workload log.")
    if not filtered.jobs:
        raise InvalidError(
            f"none of the {len(log.jobs)} jobs of the log has a run time and processors",
            source=str(path),
            line=_first_job_line(path),
            hint="what was dropped: " + "; ".join(filtered.dropped),
        )
    return filtered.jobs, remarks, log.processors


def _first_job_line(path: Path) -> int | None:
    """The number of the first line that is not only a comment; None if there is none."""
    lines = numbered_lines(path)
    return next((number for number, line in lines if line.strip()[:1] not in b";#"), None)
