"""Reads logs in the Standard Workload Format, version 2.2.

Source: "The Standard Workload Format" of the Parallel Workloads Archive: one line a job, 18 columns
separated by blanks, -1 for what is unknown, comments after ``;``, a header of comments.
"""

from __future__ import annotations

import math
from array import array
from operator import getitem
from pathlib import Path

from wfrun.parsers.logs.checks import finished
from wfrun.parsers.logs.lines import (
    FreshCounts,
    FreshTimes,
    NumberCache,
    Times,
    decoded,
    number_of,
    numbered_lines,
    shown,
)
from wfrun.parsers.logs.tally import DROP_HINT, BadLineError, FileTally
from wfrun.parsers.logs.workload_log import LoggedJob, WorkloadLog

COLUMNS = (
    "job number", "submit time", "wait time", "run time", "allocated processors", "CPU time",
    "used memory", "requested processors", "requested time", "requested memory", "status", "user",
    "group", "application", "queue", "partition", "preceding job", "think time",
)  # fmt: skip
FEWEST_COLUMNS = 9
"""Minimum number of columns of a log: those up to the requested time. Workload models write no
more, and simulations need no more."""

TRAILING_COMMENT = "comment behind the columns"
HEADING = "a row of column names"
FEWER = "columns missing at the end; read as unknown"
DECIMALS = "whole number written as a decimal one (4.0)"
WRONG_COUNT = "wrong number of columns"
NO_NUMBER = "a column that is no number"

_TIMES = frozenset({1, 2, 3, 5, 6, 8, 9, 17})
"""Indices, from 0, of the columns that may have decimals: times, and memory, which is a mean."""
_COMMENT = (b";", b"#")
_NUMBERS_HINT = (
    "SWF has numbers of up to 18 digits alone, and -1 for unknown; give each name a number. "
    f"Or {DROP_HINT}"
)


def read_swf(path: str | Path, *, skip_bad_lines: bool = False) -> WorkloadLog:
    """Read the log in the file ``path``, plain or compressed with gzip, in one pass.

    Accepted: tabs and further blanks, line ends of any system, empty lines, lines that start with
    ``#`` as comments.

    Corrected, and counted in ``dropped`` of the result: comments behind the columns; whole numbers
    with a decimal point (``4.0``); a row of column names before the first job; missing last
    columns, if all lines have the same 9 to 17 columns; jobs out of the order of submission. Kept,
    and counted: jobs larger than the machine, repeated job numbers, statuses that the format does
    not define, negative submit times.

    Raises InvalidError, with file and line, for a line with another number of columns, or with
    something that is not a number. With ``skip_bad_lines`` such lines are dropped and counted, and
    InvalidError is raised only if no line can be read. InvalidError is also raised if the file
    cannot be read or its compressed data are damaged.
    """
    reader = _Reader(FileTally(str(path), skip_bad_lines=skip_bad_lines))
    for number, line in numbered_lines(path):
        reader.take(number, line)
    reader.end()
    return finished(str(path), reader.comments, reader.jobs, reader.lines, reader.tally)


class _Reader:
    """The parser of lines. Most lines are plain and take the fast path; `_slow` handles the
    others."""

    def __init__(self, tally: FileTally) -> None:
        counts, times = NumberCache(), Times()
        self.cells: list[dict[bytes, int | None] | dict[bytes, float | None]] = [
            FreshCounts(),
            FreshTimes(),
            *(times if column in _TIMES else counts for column in range(2, 18)),
        ]
        self.tally = tally
        self.comments: list[str] = []
        self.jobs: list[LoggedJob] = []
        self.lines = array("Q")
        self.columns = 0
        """The number of columns in this file; 0 before the first job."""
        self.headings = 0

    def take(self, number: int, line: bytes) -> None:
        fields = line.split()
        if len(fields) == 18 == self.columns:
            try:
                job = LoggedJob(*map(getitem, self.cells, fields))  # type: ignore[arg-type]
            except KeyError:
                pass
            else:
                self.jobs.append(job)
                self.lines.append(number)
                return
        self._slow(number, line)

    def _slow(self, number: int, line: bytes) -> None:
        text = line.strip()
        if text.startswith(_COMMENT):
            self.comments.append(decoded(text[1:]).rstrip())
            return
        data, sign, _ = text.partition(b";")
        fields = data.split()
        if not fields:
            return
        try:
            if sign and len(fields) < FEWEST_COLUMNS:
                raise _wrong_count(len(fields), self.columns, text)
            if self._is_heading(fields):
                self.tally.add("mended", HEADING, number)
                return
            job, decimals = self._job(fields, text)
        except BadLineError as fault:
            self.tally.bad(fault, number)
            return
        if sign:
            self.tally.add("mended", TRAILING_COMMENT, number)
        if decimals:
            self.tally.add("mended", DECIMALS, number)
        self.jobs.append(job)
        self.lines.append(number)

    def _is_heading(self, fields: list[bytes]) -> bool:
        """Whether these fields are column names before the first job, apparently in SWF's order."""
        if self.jobs or self.headings or any(_is_number(field) for field in fields):
            return False
        names = [field.lower() for field in fields]
        if not FEWEST_COLUMNS <= len(names) <= 18:
            return False
        submit, run = names[1], names[3]
        self.headings = int(b"sub" in submit and b"run" in run)
        return bool(self.headings)

    def _job(self, fields: list[bytes], text: bytes) -> tuple[LoggedJob, bool]:
        """Return the job, and whether a whole number had a decimal point."""
        if len(fields) == 18 > self.columns > 0:
            self._give_up_shorter()
        if len(fields) != (self.columns or len(fields)) or not FEWEST_COLUMNS <= len(fields) <= 18:
            raise _wrong_count(len(fields), self.columns, text)
        values: list[float | None] = []
        decimals = False
        for column, field in enumerate(fields):
            try:
                value = number_of(field)
            except ValueError as error:
                message = f"column {column + 1}, {COLUMNS[column]}: {error}"
                raise BadLineError(NO_NUMBER, message, _NUMBERS_HINT) from error
            if column in _TIMES:
                values.append(None if column > 1 and value == -1 else value)
                continue
            if math.trunc(value) != value:
                message = f"column {column + 1}, {COLUMNS[column]}: {shown(field)} is not whole"
                raise BadLineError(NO_NUMBER, message)
            decimals |= not field.lstrip(b"+-").isdigit()
            values.append(None if column and value == -1 else int(value))
        self.columns = len(fields)
        return LoggedJob(*values), decimals  # type: ignore[arg-type]

    def _give_up_shorter(self) -> None:
        """Report all lines read so far as bad and drop their jobs: they have fewer columns than the
        format, but the present line has all of them."""
        for line in self.lines:
            self.tally.bad(_wrong_count(self.columns, 18, b""), line)
        self.jobs, self.lines, self.columns = [], array("Q"), 0

    def end(self) -> None:
        if self.columns < 18:
            for line in self.lines:
                self.tally.add("mended", FEWER, line)


def _is_number(field: bytes) -> bool:
    try:
        number_of(field)
    except ValueError:
        return False
    return True


def _wrong_count(found: int, columns: int, text: bytes) -> BadLineError:
    for separator, name in ((b";", "semicolons"), (b",", "commas")):
        if text.count(separator) >= FEWEST_COLUMNS - 1:
            message = f"the columns are separated by {name}; SWF separates by blanks"
            hint = f"Replace the {name} by blanks, and what is empty between them by -1."
            return BadLineError(WRONG_COUNT, message, hint)
    above = f"the lines above have {columns}"
    expected = above if 0 < columns < 18 else "SWF has 18"
    return BadLineError(WRONG_COUNT, f"the line has {found} column{'s'[: found != 1]}; {expected}")
