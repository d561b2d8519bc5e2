"""Jobs of a workload log as synthetic parallel jobs: sizes, run times and estimates without
programs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Resources, Task, Workflow
from wfrun.parsers.logs import RUNNABLE_RULES, LoggedJob, drop_jobs, read_gwf, read_swf
from wfrun.parsers.logs.lines import numbered_lines

SUFFIXES = (".swf", ".swf.gz", ".gwf", ".gwf.gz")


def is_log(path: Path) -> bool:
    """Whether a document is a workload log, by its name."""
    return path.name.lower().endswith(SUFFIXES)


def read_log_jobs(path: Path) -> tuple[list[Workflow], list[float]]:
    """Read a log: a workflow of one task for each job, in the order of submission, and the time of
    each submission in seconds since the first.

    A job requests its estimate, and runs to the end if it took longer than that. Jobs without run
    time or size are left out with a warning. Raises InvalidError for a log that cannot be read,
    and, with the line of the first job, for one without sizes or run times.
    """
    log = (read_gwf if ".gwf" in path.suffixes else read_swf)(path)
    filtered = drop_jobs(log.jobs, RUNNABLE_RULES)
    dropped = [f"{count} jobs dropped: {why}" for why, count in filtered.dropped.items()]
    if not filtered.jobs:
        raise InvalidError(
            f"none of the {len(log.jobs)} jobs of the log has a run time and a number of "
            "processors",
            source=str(path),
            line=_first_line(path),
            hint="Parallel jobs need both; fields 4 and 5 or 8 of SWF.",
        )
    jobs = sorted(filtered.jobs, key=lambda job: job.submit_s)
    first_s = jobs[0].submit_s
    workflows = [_workflow(path, job) for job in jobs]
    if dropped:
        workflows[0] = _with_warnings(workflows[0], dropped)
    return workflows, [job.submit_s - first_s for job in jobs]


def _first_line(path: Path) -> int | None:
    """The line of the first job of a log."""
    lines = ((number, line.strip()) for number, line in numbered_lines(path))
    return next((n for n, line in lines if line and line[:1] not in (b";", b"#")), None)


def _with_warnings(workflow: Workflow, warnings: Iterable[str]) -> Workflow:
    return Workflow(
        workflow.name, workflow.source, workflow.tasks, workflow.files, workflow.parents,
        tuple(warnings), workflow.owner,
    )  # fmt: skip


def _workflow(path: Path, job: LoggedJob) -> Workflow:
    runtime_s, size = job.runtime_s, job.size
    assert runtime_s is not None, "others are dropped"
    assert size is not None, "others are dropped"
    task = Task(
        id=f"job-{job.id}",
        name=f"app-{job.application}" if job.application is not None else "job",
        executable="true",
        resources=Resources(size, walltime_s=max(runtime_s, job.requested_s or 0.0), parallel=True),
        runtime_s=runtime_s,
    )
    owner = "" if job.user is None else str(job.user)
    return Workflow(f"{path.stem}-{job.id}", str(path), [task], [], [()], owner=owner)
