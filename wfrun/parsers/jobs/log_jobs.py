"""Jobs of a workload log as synthetic parallel jobs: sizes, run times and estimates without
programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from wfrun.engine.model import Resources, Task, Workflow
from wfrun.parsers.logs import LoggedJob, read_log
from wfrun.parsers.logs.gwf import split_commas
from wfrun.parsers.logs.gwf_columns import column_called
from wfrun.parsers.logs.lines import decoded, numbered_lines
from wfrun.parsers.logs.tally import BadLineError

SUFFIXES = (".swf", ".swf.gz", ".gwf", ".gwf.gz")


def is_log(path: Path) -> bool:
    """Whether a document is a workload log, by its name."""
    return path.name.lower().endswith(SUFFIXES)


def read_log_jobs(
    path: Path, *, skip_bad_lines: bool = False
) -> tuple[list[Workflow], list[float], list[str]]:
    """Read a log. Return a workflow of one task for each job, in the order of submission; the time
    of each submission in seconds since the first; and remarks on what was mended or dropped.

    The walltime of a task is the estimate of its job, or the run time if the job ran longer: no job
    is cut. Raises InvalidError for a log that cannot be read, and for one without sizes or run
    times.
    """
    logged, remarks, _ = read_log(path, skip_bad_lines=skip_bad_lines)
    jobs = sorted(logged, key=lambda job: job.submit_s)
    first_s = jobs[0].submit_s
    workflows = [_workflow(path, job) for job in jobs]
    return workflows, [job.submit_s - first_s for job in jobs], remarks


class JobLines(Mapping[str, int]):
    """The lines of the jobs of a log, by the names of their tasks. The log is searched only when a
    message needs a line, since it may have hundreds of thousands of jobs."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __getitem__(self, name: str) -> int:
        for number, found in self._names():
            if found == name:
                return number
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for _, name in self._names())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _names(self) -> Iterator[tuple[int, str]]:
        """The number of each line with a job, and the name of the task of the job. The first row of
        a log in the Grid Workload Format may name the columns, in any order."""
        column, is_first = 0, True
        for number, line in numbered_lines(self._path):
            text = line.strip()
            if not text or text[:1] in b";#":
                continue
            try:
                cells = split_commas(text) if b"," in text else text.split()
            except BadLineError:
                continue
            if is_first:
                is_first = False
                named = [column_called(decoded(cell)) for cell in cells]
                fields = [None if one is None else one.field for one in named]
                if "id" in fields:
                    column = fields.index("id")
                    continue
            if column < len(cells):
                yield number, f"job-{decoded(cells[column])}"


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
