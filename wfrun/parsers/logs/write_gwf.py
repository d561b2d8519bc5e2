"""Writes logs in the Grid Workload Format, such that reading them back gives equal jobs."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from wfrun.engine.errors import InvalidError
from wfrun.parsers.atomic import replacing
from wfrun.parsers.logs.gwf_columns import COLUMNS, PARENTS, WORKFLOW, GwfColumn, name_of
from wfrun.parsers.logs.workload_log import GridFields, LoggedJob, WorkloadLog
from wfrun.parsers.logs.write_swf import comment_lines, number_obstacles, number_text

_NO_GRID = GridFields()


def write_gwf(log: WorkloadLog, path: str | Path) -> None:
    """Write ``log`` to the file ``path``, uncompressed. The file is replaced only when it is
    complete.

    The normal form has 29 columns separated by tabs. If a job is part of a workflow, the comma
    variant is written, with a row of column names and two more columns. Neither form can express
    SWF's preceding job and think time, nor words that contain blanks or quotes or look like numbers
    or unknown values. A log with any of these is refused; the message names the first of them.

    Raises InvalidError for a refused log, and if ``path`` cannot be written.
    """
    for job in log.jobs:
        for reason in _obstacles(job):
            raise InvalidError(
                f"GWF has no place for {reason} of job {job.id}",
                source=str(path),
                hint="Write it as SWF, or without.",
            )
    grids = (job.grid for job in log.jobs if job.grid is not None)
    commas = any(grid.workflow is not None or grid.parents for grid in grids)
    with replacing(path) as stream:
        stream.writelines(f"#{line}\n" for line in comment_lines(log))
        (_write_commas if commas else _write_blanks)(log.jobs, stream)


def _write_blanks(jobs: Sequence[LoggedJob], stream: TextIO) -> None:
    for job in jobs:
        stream.write("\t".join(_cell(job, column) for column in COLUMNS) + "\n")


def _write_commas(jobs: Sequence[LoggedJob], stream: TextIO) -> None:
    columns = (WORKFLOW, *COLUMNS, PARENTS)
    rows = csv.writer(stream, lineterminator="\n")
    rows.writerow(column.name for column in columns)
    rows.writerows([_cell(job, column) for column in columns] for job in jobs)


def _cell(job: LoggedJob, column: GwfColumn) -> str:
    value = _value(job, column)
    if column.kind == "ids":
        return " ".join(map(str, value if isinstance(value, tuple) else ()))
    return number_text(value)  # type: ignore[arg-type]


def _value(job: LoggedJob, column: GwfColumn) -> object:
    return getattr((job.grid or _NO_GRID) if column.of_grid else job, column.field)


def _obstacles(job: LoggedJob) -> Iterator[str]:
    if job.preceding is not None or job.think_s is not None:
        yield "the preceding job or the think time"
    yield from number_obstacles(job)
    for column in COLUMNS:
        value = _value(job, column)
        if isinstance(value, str) and _is_misread(value, column):
            yield f"the text {value!r} as {column.name}"
        if column.of_grid and value == -1:
            yield f"-1, which means unknown, as {column.name}"


def _is_misread(text: str, column: GwfColumn) -> bool:
    if text in ("", "-1") or text.split() != [text] or '"' in text:
        return True
    return column.kind == "name" and name_of(text) != text
