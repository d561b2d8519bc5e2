"""The workflows and bags of a run, a row each."""

from __future__ import annotations

from rich.text import Text

from wfrun.engine.state import TaskStatus, WorkflowState
from wfrun.engine.visible import name_line
from wfrun.runners.display.durations import duration
from wfrun.runners.display.watch.asking import Subject
from wfrun.runners.display.watch.bars import FAILED, PREFETCHED, USED, Part, bar
from wfrun.runners.display.watch.listing import Cell, Column, Listing, Row
from wfrun.runners.display.watch.observation import Observation
from wfrun.runners.display.workflow_names import distinct_names

MAX_ROWS = 2000
"""Maximum number of rows, which are made at every look."""
BAR_COLUMNS = 12
"""Width of the bars of a table."""

_COLUMNS = (
    Column("workflow", least=12),
    Column("tasks", is_right=True),
    Column("progress", rank=4),
    Column("done", is_right=True),
    Column("under way", is_right=True, rank=1),
    Column("waiting", is_right=True, rank=2),
    Column("failed", is_right=True),
    Column("blocked", is_right=True, rank=3),
    Column("time", is_right=True, rank=5),
)


def workflows(look: Observation) -> Listing:
    """A row for each document, those that are not done first."""
    found = look.state.workflows
    names = distinct_names([w.workflow for w in found])
    chosen = sorted(found, key=lambda w: not w.open)[:MAX_ROWS]
    rows = [_row(w, names[w.index], look.now_s) for w in chosen]
    return Listing(_COLUMNS, rows, len(found), "the run has no workflow yet")


def workflow_bar(w: WorkflowState, columns: int) -> Text:
    """Done, failed and blocked, and dispatched tasks of all."""
    parts = [
        Part(w.done, *USED),
        Part(w.failed + w.blocked, *FAILED),
        Part(w.count(TaskStatus.DISPATCHED), *PREFETCHED),
    ]
    return bar(columns, len(w.status), parts)


def _row(w: WorkflowState, name: str, now_s: float) -> Row:
    waiting = w.count(TaskStatus.WAITING) + w.count(TaskStatus.ELIGIBLE) + w.delayed
    elapsed_s = max(0.0, (now_s if w.ended_s is None else w.ended_s) - w.added_s)
    tasks, under_way = len(w.status), w.count(TaskStatus.DISPATCHED)
    numbers = (w.done, under_way, waiting, w.failed, w.blocked)
    cells: list[Cell] = [str(number) if number else "·" for number in numbers]
    if w.failed:
        cells[3] = Text(str(w.failed), style="red")
    progress = workflow_bar(w, BAR_COLUMNS)
    title = name_line(name)
    return Row(
        (title, str(tasks), progress, *cells, duration(elapsed_s)),
        (title, tasks, (w.done + w.failed + w.blocked) / max(1, tasks), *numbers, elapsed_s),
        Subject("workflow", w.index),
    )
