"""The table of a view: its rows, filtered and sorted, and its layout as lines of a given width."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.text import Text

from wfrun.runners.display.console import EscapingConsole
from wfrun.runners.inspect.watch.asking import RowSubject

GAP = 2
"""Columns between two cells."""
INDENT = 11
"""Columns before the message of an event: its time, and a gap."""
_CONSOLE = EscapingConsole(file=io.StringIO())
"""Console that Rich needs to wrap texts."""


class ListingColumn(NamedTuple):
    """A column of a listing."""

    title: str
    is_right: bool = False
    least: int = 0
    """Minimum width of the column on a narrow terminal; 0: its cells are never cut."""
    rank: int = 0
    """Columns with a higher rank are left out first if the terminal is too narrow."""


Cell = str | Text
SortKey = float | str


class ListingRow(NamedTuple):
    """A row of a listing."""

    cells: Sequence[Cell]
    sort_keys: Sequence[SortKey]
    """Key by which rows are sorted, for each column."""
    subject: RowSubject | None = None
    """Subject of the requests that the user can make of this row; None: the row takes no
    requests."""


class Listing(NamedTuple):
    """The table of a view."""

    columns: Sequence[ListingColumn]
    rows: Sequence[ListingRow]
    total: int
    """Total number of rows, including those that ``rows`` leaves out."""
    empty: str
    """Text shown if there is no row."""


class Query(NamedTuple):
    """How a listing is arranged."""

    text: str = ""
    """Text that a cell of each row must contain, ignoring case; empty: all rows."""
    column: int | None = None
    """Column that the rows are sorted by; None: the view's own order."""
    is_reversed: bool = False


def arranged(listing: Listing, query: Query) -> Listing:
    """Return the listing with the rows that match the query, in the order that the query states."""
    rows, total = list(listing.rows), listing.total
    if query.text:
        wanted = query.text.casefold()
        rows = [r for r in rows if any(wanted in _plain(c).casefold() for c in r.cells)]
        total = len(rows)
    if query.column is not None:
        column = min(query.column, len(listing.columns) - 1)
        rows.sort(key=lambda row: row.sort_keys[column])
    if query.is_reversed:
        rows.reverse()
    return listing._replace(rows=rows, total=total)


def _plain(cell: Cell) -> str:
    return cell.plain if isinstance(cell, Text) else cell


def wrapped(listing: Listing, width: int) -> Listing:
    """Divide the rows that are longer than ``width`` into several rows. The listing has one column
    and no subjects. The further rows begin with spaces, so that they are aligned with the messages
    of a log."""
    rows: list[ListingRow] = []
    for row in listing.rows:
        first, *rest = _folded(Text(_plain(row.cells[0])), width)
        rows += [row._replace(cells=(text,)) for text in (first, *rest)]
    return listing._replace(rows=rows, total=max(listing.total, len(rows)))


def _folded(text: Text, width: int) -> list[str]:
    """The lines of a text; all but the first are indented."""
    indent = min(INDENT, width // 3)
    if text.cell_len <= width:
        return [text.plain]
    lines = [line.plain.rstrip() for line in text.wrap(_CONSOLE, max(1, width - indent))]
    return [lines[0], *(" " * indent + line for line in lines[1:])]


class Layout(NamedTuple):
    """The columns of a listing that fit a width."""

    columns: Sequence[int]
    widths: Sequence[int]

    def line(self, listing: Listing, cells: Sequence[Cell]) -> Text:
        """The cells of a row as a line."""
        line = Text(no_wrap=True, end="")
        for position, (column, width) in enumerate(zip(self.columns, self.widths, strict=True)):
            cell = cells[column]
            text = cell.copy() if isinstance(cell, Text) else Text(cell)
            text.truncate(width, overflow="ellipsis")
            room = width - text.cell_len
            is_right = listing.columns[column].is_right
            line.append(" " * (GAP * (position > 0) + room * is_right))
            line.append_text(text)
            line.append(" " * (room * (not is_right)))
        return line

    def head(self, listing: Listing, query: Query) -> Text:
        """The titles; an arrow marks the column that the rows are sorted by."""
        titles = [column.title for column in listing.columns]
        if query.column is not None:
            titles[query.column] += "↓" if query.is_reversed else "↑"
        return self.line(listing, [Text(title, style="bold") for title in titles])


def fitted(listing: Listing, query: Query, width: int) -> Layout:
    """The layout for a width. Columns without any text are left out. If the rest does not fit,
    flexible columns are cut first, then columns are left out by their rank."""
    needs = [0] * len(listing.columns)
    for row in listing.rows:
        for number, cell in enumerate(row.cells):
            need = cell.cell_len if isinstance(cell, Text) else cell_len(cell)
            if need > needs[number]:
                needs[number] = need
    shown = [n for n, need in enumerate(needs) if need or n == query.column]
    for number in shown:
        title = cell_len(listing.columns[number].title) + (number == query.column)
        needs[number] = max(needs[number], title)
    while len(shown) > 1:
        least = [
            min(needs[n], listing.columns[n].least) if listing.columns[n].least else needs[n]
            for n in shown
        ]
        if sum(least) + GAP * (len(shown) - 1) <= width:
            break
        shown.remove(max(shown, key=lambda n: listing.columns[n].rank))
    return Layout(shown, _widths(listing, [needs[n] for n in shown], shown, width))


def _widths(
    listing: Listing, needs: Sequence[int], shown: Sequence[int], width: int
) -> Sequence[int]:
    """Widths of the columns. The excess over ``width`` is taken from the widest flexible
    columns."""
    widths = list(needs)
    excess = sum(widths) + GAP * (len(shown) - 1) - width
    flexible = [i for i, n in enumerate(shown) if listing.columns[n].least]
    while excess > 0 and flexible:
        widest = max(flexible, key=widths.__getitem__)
        if widths[widest] <= 1:
            break
        widths[widest] -= 1
        excess -= 1
    return widths
