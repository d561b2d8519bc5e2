"""Reads logs in the Grid Workload Format: 29 columns, or the comma variant with dependencies.

Source: `wfrun.parsers.logs.gwf_columns`. Workflow logs are published in the comma variant
(WorkflowID, JobID, SubmitTime, RunTime, NProcs, ReqNProcs, Dependencies), and databases export it.
Its first row names the columns, and dependencies are ids separated by blanks.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Callable, Sequence
from operator import getitem
from pathlib import Path
from typing import Any, cast

from wfrun.parsers.logs.checks import finished
from wfrun.parsers.logs.gwf_columns import COLUMNS, GwfColumn, Kind, column_called, name_of
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
from wfrun.parsers.logs.swf import DECIMALS, HEADING, NO_NUMBER, WRONG_COUNT
from wfrun.parsers.logs.tally import BadLineError, FileTally
from wfrun.parsers.logs.workload_log import GridFields, LoggedJob, Name, WorkloadLog

EXTRA_COLUMN = "a column too many behind LastRunSiteID, which is unknown; left out"
NOT_READ = "columns that the format does not have: "
_EXTRA = 18

_UNKNOWN = (b"-1", b"")


def read_gwf(path: str | Path, *, skip_bad_lines: bool = False) -> WorkloadLog:
    """Read the log in the file ``path``, plain or compressed with gzip, in one pass.

    If columns are separated by blanks, there are 29, and ``#`` begins a comment. If they are
    separated by commas, the first row names them, in any order; JobID and SubmitTime are required.
    In both variants -1 means unknown; in the comma variant an empty cell does, too. Columns with
    other names are reported and not read. Words of digits are numbers (``7``, not ``007``).

    Corrected, and counted in ``dropped`` of the result: whole numbers with a decimal point; a row
    of column names above the 29 columns; a 30th column after LastRunSiteID, which some published
    logs have; jobs out of the order of submission. Kept, and counted: repeated job numbers (within
    a workflow), dependencies on jobs that do not exist, jobs larger than MaxProcs if the comments
    state it, negative submit times, unknown statuses.

    Raises InvalidError, with file and line, for a line with another number of columns, or without a
    number where one is required. With ``skip_bad_lines`` such lines are dropped and counted, and
    InvalidError is raised only if no line can be read. InvalidError is also raised if the file
    cannot be read.
    """
    reader = _Reader(FileTally(str(path), skip_bad_lines=skip_bad_lines))
    for number, line in numbered_lines(path):
        reader.take(number, line)
    return finished(str(path), reader.comments, reader.jobs, reader.lines, reader.tally)


class _Names(dict[bytes, Name | None]):
    """Converts a word to a number if the word is written like a number; -1 and an empty cell become
    None."""

    def __missing__(self, cell: bytes) -> Name | None:
        self[cell] = None if cell in _UNKNOWN else name_of(decoded(cell))
        return self[cell]


class _Words(dict[bytes, str | None]):
    def __missing__(self, cell: bytes) -> str | None:
        self[cell] = None if cell in _UNKNOWN else decoded(cell)
        return self[cell]


class _Ids(dict[bytes, tuple[int, ...]]):
    """Splits job ids at blanks. Raises KeyError for anything else."""

    def __missing__(self, cell: bytes) -> tuple[int, ...]:
        ids = cell.split()
        if ids in ([], [b"-1"]):
            return ()
        if not all(id_.isdigit() and len(id_) <= 18 for id_ in ids):
            raise KeyError(cell)
        return tuple(int(id_) for id_ in ids)


class _Layout:
    """The column of each field, and the converter of its cells."""

    def __init__(self, columns: Sequence[GwfColumn | None], cells: dict[Kind, dict[bytes, Any]]):
        self.count = len(columns)
        self.columns = columns
        self.cells = [cells["word"] if c is None else cells[c.kind] for c in columns]
        known = [(c, index) for index, c in enumerate(columns) if c is not None]
        self._job = [(c.field, index) for c, index in known if not c.of_grid]
        self._grid = [(c.field, index) for c, index in known if c.of_grid]
        self._same: dict[tuple[object, ...], GridFields | None] = {}

    def job(self, values: Sequence[Any]) -> LoggedJob:
        beyond = tuple(values[index] for _, index in self._grid)
        # Most jobs share these values with many others.
        if beyond not in self._same:
            self._same[beyond] = self._grid_fields(beyond)
        fields = {name: values[index] for name, index in self._job}
        return LoggedJob(**fields, grid=self._same[beyond])

    def _grid_fields(self, values: Sequence[Any]) -> GridFields | None:
        names = (name for name, _ in self._grid)
        grid = GridFields(**dict(zip(names, values, strict=True)))
        return None if grid == GridFields() else grid


class _Reader:
    def __init__(self, tally: FileTally) -> None:
        decimals = Times({b"": None})
        self.cells: dict[Kind, dict[bytes, Any]] = {
            "id": FreshCounts(),
            "submit": FreshTimes(),
            "count": NumberCache({b"": None}),
            "decimal": decimals,
            "name": _Names(),
            "word": _Words(),
            "ids": _Ids(),
        }
        self.tally = tally
        self.comments: list[str] = []
        self.jobs: list[LoggedJob] = []
        self.lines = array("Q")
        self.split: Callable[[bytes], list[bytes]] = bytes.split
        self.layout: _Layout | None = None
        """The variant; None before the first line that is not a comment."""

    def take(self, number: int, line: bytes) -> None:
        text = line.strip()
        if text.startswith(b"#"):
            self.comments.append(decoded(text[1:]).rstrip())
            return
        if not text:
            return
        try:
            if self.layout is None and self._start(number, text):
                return
            self._job(number, text)
        except BadLineError as fault:
            self.tally.bad(fault, number)

    def _start(self, number: int, text: bytes) -> bool:
        """Detect the variant. Return whether this line is a row of column names."""
        words = split_commas(text) if b"," in text else text.split()
        names = [decoded(word) for word in words]
        found = [column_called(name) for name in names]
        if {"id", "submit_s"} <= {column.field for column in found if column is not None}:
            self._take_heading(number, names, found, commas=b"," in text)
            return True
        if b"," in text and len(text.split()) < 29:
            raise BadLineError(
                WRONG_COUNT,
                "columns separated by commas, and no row of column names above",
                "Put the names first: WorkflowID,JobID,SubmitTime,RunTime,NProcs,ReqNProcs,"
                "Dependencies, or those of the 29 columns that there are.",
            )
        self.layout = _Layout(COLUMNS, self.cells)
        return False

    def _take_heading(
        self, number: int, names: list[str], found: list[GwfColumn | None], *, commas: bool
    ) -> None:
        for column in found:
            if column is not None and found.count(column) > 1:
                message = f"there are two columns {column.name}"
                raise BadLineError(HEADING, message, "Leave one of them out.")
        other = [name or "(no name)" for name, c in zip(names, found, strict=True) if c is None]
        if other:
            self.tally.add("kept", NOT_READ + ", ".join(other), number)
        if commas:
            self.split = split_commas
        else:
            self.tally.add("mended", HEADING, number)
        self.layout = _Layout(found, self.cells)

    def _job(self, number: int, text: bytes) -> None:
        layout = cast(_Layout, self.layout)
        fields = self.split(text)
        if len(fields) == 30 and layout.count == 29 and fields[_EXTRA] == b"-1":
            del fields[_EXTRA]
            self.tally.add("mended", EXTRA_COLUMN, number)
        if len(fields) != layout.count:
            message = f"the line has {len(fields)} columns, not {layout.count}"
            raise BadLineError(WRONG_COUNT, message)
        try:
            values = list(map(getitem, layout.cells, fields))
        except KeyError:
            values = self._mended(layout, fields, number)
        self.jobs.append(layout.job(values))
        self.lines.append(number)

    def _mended(self, layout: _Layout, fields: list[bytes], number: int) -> list[Any]:
        """The values of a line in which whole numbers are written with a decimal point, such as
        ``4.0``. Raises BadLineError for any other unreadable value."""
        values = []
        for index, (cells, field) in enumerate(zip(layout.cells, fields, strict=True)):
            try:
                values.append(cells[field])
            except KeyError:
                values.append(_rounded(index, layout.columns[index], field))
        self.tally.add("mended", DECIMALS, number)
        return values


def _rounded(index: int, column: GwfColumn | None, field: bytes) -> int | None:
    where = f"column {index + 1}, {'' if column is None else column.name}"
    if column is not None and column.kind == "ids":
        message = f"{where}: {shown(field)} are no job numbers separated by blanks"
        raise BadLineError(NO_NUMBER, message)
    try:
        value = number_of(field)
    except ValueError as error:
        raise BadLineError(NO_NUMBER, f"{where}: {error}") from error
    if int(value) != value:
        raise BadLineError(NO_NUMBER, f"{where}: {shown(field)} is not whole")
    unknown = value == -1 and column is not None and column.kind == "count"
    return None if unknown else int(value)


def split_commas(text: bytes) -> list[bytes]:
    """The cells of a line of the comma variant. Raises BadLineError for quotes without an end."""
    if b'"' not in text:
        return [cell.strip() for cell in text.split(b",")]
    try:
        (row,) = csv.reader([decoded(text)], skipinitialspace=True)
    except csv.Error as error:
        raise BadLineError(WRONG_COUNT, f"the quotes cannot be understood: {error}") from error
    return [cell.strip().encode() for cell in row]
