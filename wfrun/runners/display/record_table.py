"""Records as tables and as CSV files. A column states its heading and its value in one place."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rich.table import Table
from rich.text import Text

from wfrun.parsers.atomic import replacing

Shown = str | Callable[[Any], str | Text]
"""Display of a value: a format with its unit, such as ``{:.3g} ms``, or a function from the value
to a text."""


class RecordColumn(NamedTuple):
    """A column of a table of records."""

    heading: str
    value: str | Callable[[Any], Any]
    """Name of a field of the record, with dots for fields of inner records; or a function of the
    record."""
    shown: Shown = "{}"
    unit: float = 1.0
    """Divisor of the value, such as 1e6 for bytes shown in MB."""
    justify: Literal["left", "right"] = "left"
    wraps: bool = False
    absent: str = "-"
    """Text that is shown for None."""

    def cell(self, record: object) -> str | Text:
        """The text of a record in this column."""
        value = (
            attrgetter(self.value)(record) if isinstance(self.value, str) else self.value(record)
        )
        if value is None:
            return self.absent
        if isinstance(value, Text):
            return value
        if self.unit != 1.0:
            value /= self.unit
        return self.shown.format(value) if isinstance(self.shown, str) else self.shown(value)


def number_column(
    heading: str,
    value: str | Callable[[Any], Any],
    shown: Shown = "{}",
    unit: float = 1.0,
    *,
    absent: str = "-",
) -> RecordColumn:
    """A column of numbers, which are aligned at the right."""
    return RecordColumn(heading, value, shown, unit, "right", absent=absent)


def record_table(
    records: Iterable[object], columns: Sequence[RecordColumn], *, more: int = 0
) -> Table:
    """A row for each record. ``more``: number of records that are left out, for the last row."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            column.heading,
            justify=column.justify,
            no_wrap=not column.wraps,
            overflow="fold" if column.wraps else "ellipsis",
        )
    for record in records:
        table.add_row(*(column.cell(record) for column in columns))
    if more > 0:
        table.add_row(f"and {more} more")
    return table


def write_csv(path: Path, names: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write a CSV file atomically: the file appears under its name once the last row is written."""
    with replacing(path) as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
