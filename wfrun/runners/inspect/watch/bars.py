"""Bars of a display: parts of a whole, readable without colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text

from wfrun.runners.inspect.tables.running import RunningTask

EMPTY = "·"


class BarPart(NamedTuple):
    """A part of a bar."""

    amount: float
    sign: str
    style: str


USED, PREFETCHED, FAILED = ("■", "green"), ("□", "cyan"), ("✗", "red")
"""Sign and style of parts."""


def bar(width: int, whole: float, parts: Sequence[BarPart]) -> Text:
    """A bar of ``width`` columns. Each part gets its share of ``whole``, rounded, and at least one
    column if it is not empty. The bar is full only if the parts add up to ``whole``."""
    text, left = Text(), width
    total = sum(part.amount for part in parts)
    for part in parts:
        columns = round(width * part.amount / whole) if whole > 0 else 0
        columns = min(left, max(columns, 1 if part.amount > 0 else 0))
        if total < whole and columns == left and columns > 1:
            columns -= 1
        text.append(part.sign * columns, style=part.style)
        left -= columns
    return text.append(EMPTY * left, style="dim")


def time_bar(task: RunningTask, columns: int) -> Text:
    """A bar of the elapsed part of a task's expected run time; empty if this is unknown."""
    if not task.expected_s:
        return Text()
    sign, usual = USED
    share = min(task.elapsed_s / task.expected_s, 1.0)
    return bar(columns, 1.0, [BarPart(share, sign, "yellow" if task.is_late else usual)])
