"""The workflows and bags of a run, a row each."""

from __future__ import annotations

from rich.text import Text

from wfrun.engine.core.state import TaskStatus, WorkflowState
from wfrun.engine.explain.visible import name_line
from wfrun.runners.display.durations import duration
from wfrun.runners.display.workflow_names import distinct_names
from wfrun.runners.inspect.watch.asking import RowSubject
from wfrun.runners.inspect.watch.bars import FAILED, PREFETCHED, USED, BarPart, bar
from wfrun.runners.inspect.watch.listing import Cell, Listing, ListingColumn, ListingRow
from wfrun.runners.inspect.watch.observation import RunObservation

MAX_ROWS = 2000
"""Maximum number of rows. All rows are made again at every look."""
BAR_COLUMNS = 12
"""Width of the bars of a table."""

_COLUMNS = (
    ListingColumn("workflow", least=12),
    ListingColumn("tasks", is_right=True),
    ListingColumn("progress", rank=4),
    ListingColumn("done", is_right=True),
    ListingColumn("under way", is_right=True, rank=1),
    ListingColumn("waiting", is_right=True, rank=2),
    ListingColumn("failed", is_right=True),
    ListingColumn("blocked", is_right=True, rank=3),
    ListingColumn("time", is_right=True, rank=5),
)


def workflows(look: RunObservation) -> Listing:
    """A row for each document, those that are not done first."""
    found = look.state.workflows
    names = distinct_names([w.workflow for w in found])
    chosen = sorted(found, key=lambda w: not w.open)[:MAX_ROWS]
    rows = [_row(w, names[w.index], look.now_s) for w in chosen]
    return Listing(_COLUMNS, rows, len(found), "the run has no workflow yet")


def workflow_bar(w: WorkflowState, columns: int) -> Text:
    """A bar of the done, the failed or blocked, and the dispatched tasks among all tasks."""
    parts = [
        BarPart(w.done, *USED),
        BarPart(w.failed + w.blocked, *FAILED),
        BarPart(w.count(TaskStatus.DISPATCHED), *PREFETCHED),
    ]
    return bar(columns, len(w.status), parts)


def _row(w: WorkflowState, name: str, now_s: float) -> ListingRow:
    waiting = w.count(TaskStatus.WAITING) + w.count(TaskStatus.ELIGIBLE) + w.delayed
    elapsed_s = max(0.0, (now_s if w.ended_s is None else w.ended_s) - w.added_s)
    tasks, under_way = len(w.status), w.count(TaskStatus.DISPATCHED)
    numbers = (w.done, under_way, waiting, w.failed, w.blocked)
    cells: list[Cell] = [str(number) if number else "·" for number in numbers]
    if w.failed:
        cells[3] = Text(str(w.failed), style="red")
    progress = workflow_bar(w, BAR_COLUMNS)
    title = name_line(name)
    return ListingRow(
        (title, str(tasks), progress, *cells, duration(elapsed_s)),
        (
            title,
            tasks,
            (w.done + w.failed + w.blocked + w.unneeded) / max(1, tasks),
            *numbers,
            elapsed_s,
        ),
        RowSubject("workflow", w.index),
    )
