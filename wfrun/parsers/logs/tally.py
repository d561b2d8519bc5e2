"""Counts of lines that a reader drops, corrects or finds strange."""

from __future__ import annotations

from typing import Literal

from wfrun.engine.errors import InvalidError
from wfrun.parsers.logs.workload_log import Dropped

Fate = Literal["dropped", "mended", "kept"]

DROP_HINT = (
    "with --skip-bad-lines (skip_bad_lines=True in Python) such lines are dropped and counted."
)
TOLERANT_HINT = f"Mend the line; or {DROP_HINT}"


class BadLineError(Exception):
    """A line without a readable job.

    ``reason`` is a short text, equal for all lines with the same fault. ``message`` describes the
    fault of this line.
    """

    def __init__(self, reason: str, message: str, hint: str = TOLERANT_HINT) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.hint = hint


class FileTally:
    """Counts of the lines of one file that its reader drops, corrects or finds strange. With
    ``skip_bad_lines`` bad lines are dropped and counted; otherwise the first bad line raises
    InvalidError."""

    def __init__(self, source: str, *, skip_bad_lines: bool) -> None:
        self.source = source
        self.skip_bad_lines = skip_bad_lines
        self._seen: dict[tuple[Fate, str], tuple[int, int]] = {}
        self._first: BadLineError | None = None

    def add(self, fate: Fate, reason: str, line: int) -> None:
        lines, first = self._seen.get((fate, reason), (0, line))
        self._seen[fate, reason] = lines + 1, min(first, line)

    def bad(self, fault: BadLineError, line: int) -> None:
        """Drop the line, or raise InvalidError."""
        if not self.skip_bad_lines:
            raise InvalidError(fault.message, source=self.source, line=line, hint=fault.hint)
        self._first = self._first or fault
        self.add("dropped", fault.reason, line)

    def result(self) -> tuple[Dropped, ...]:
        items = self._seen.items()
        found = [Dropped(fate, reason, *counts) for (fate, reason), counts in items]
        return tuple(sorted(found, key=lambda item: (item.first_line, item.reason)))

    def refuse_all_dropped(self) -> None:
        """Raise InvalidError if lines were dropped. Called for a file without a single readable
        line."""
        if self._first is None:
            return
        dropped = [item for item in self.result() if item.fate == "dropped"]
        lines, first = sum(item.lines for item in dropped), dropped[0].first_line
        raise InvalidError(
            f"none of {lines} lines could be read; the first: {self._first.message}",
            source=self.source,
            line=first,
            hint="This is another format, or another program's columns. See docs/workload-logs.md.",
        )
