"""The marked row of a view: it stays with its subject when rows come, go and move."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.runners.inspect.watch.asking import RowSubject
from wfrun.runners.inspect.watch.listing import ListingRow


class Cursor:
    """The marked row of a view."""

    def __init__(self) -> None:
        self._row = 0
        self._is_moved = False
        """Whether the user has chosen a row. Until then the first one is marked."""
        self.subject: RowSubject | None = None
        """What the marked row is about; None: the view has no marked row."""

    def find(self, rows: Sequence[ListingRow]) -> int | None:
        """The number of the marked row among these; None: there is none."""
        if not rows or rows[0].subject is None:
            self.subject = None
            return None
        if not self._is_moved:
            self._row = 0
        elif self._row >= len(rows) or rows[self._row].subject != self.subject:
            found = (n for n, row in enumerate(rows) if row.subject == self.subject)
            self._row = next(found, min(self._row, len(rows) - 1))
        self.subject = rows[self._row].subject
        return self._row

    def move(self, rows: Sequence[ListingRow], step: int) -> int:
        """Mark another row. Returns its number."""
        self._is_moved = True
        self._row = max(0, min(len(rows) - 1, self._row + step))
        if rows:
            self.subject = rows[self._row].subject
        return self._row
