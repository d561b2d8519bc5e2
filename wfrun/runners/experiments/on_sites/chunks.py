"""The cells of each task: as many as take a task beyond the cost of its start."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TypeVar

T = TypeVar("T")

LEAST_S = 5.0
"""Minimum run time of a task, in seconds of this machine: a task costs its site the start of an
interpreter and its inputs, about a second."""
WANTED_S = 30.0
"""Run time of a task where there are enough cells for all slots. An interrupt costs at most the
tasks that run."""
TASKS_PER_SLOT = 4
"""Minimum number of tasks for each slot, so that slots are busy until the end, unless the tasks
would be shorter than LEAST_S."""


def chunk_size(cells: int, cell_s: float | None, slots: int) -> int:
    """Number of cells of a task; ``cell_s`` is the run time of a cell, None if it is longer than
    a task should be."""
    if cell_s is None:
        return 1
    cell_s = max(cell_s, 1e-6)
    balanced = min(ceil(WANTED_S / cell_s), cells // (slots * TASKS_PER_SLOT))
    return max(1, min(cells, max(balanced, ceil(LEAST_S / cell_s))))


def chunks_of(cells: Sequence[T], size: int) -> list[Sequence[T]]:
    """The cells in their order, which keeps those with the same workload together."""
    return [cells[first : first + size] for first in range(0, len(cells), size)]
