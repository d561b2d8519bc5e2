"""The failures of a run by cause and message."""

from __future__ import annotations

from rich.text import Text

from wfrun.engine.failures import FailureGroup
from wfrun.engine.state import RunState
from wfrun.engine.visible import name_line
from wfrun.runners.display.failures import MAX_EXCERPT_LINE, task_title
from wfrun.runners.display.watch.listing import Column, Listing, Row
from wfrun.runners.display.watch.observation import Observation

_COLUMNS = (
    Column("tasks", is_right=True),
    Column("attempts", is_right=True),
    Column("cause"),
    Column("message", least=24),
    Column("first", least=12, rank=1),
    Column("at", rank=2),
)


def failures(look: Observation) -> Listing:
    """A row for each kind of failures, those of most failed tasks first."""
    groups = look.state.failure_groups.largest_first()
    rows = [_row(look.state, group) for group in groups]
    return Listing(_COLUMNS, rows, len(rows), "nothing has failed")


def _row(state: RunState, group: FailureGroup) -> Row:
    _, workflow, task, _ = group.first.key.rsplit(".", 3)
    first = name_line(task_title(state.workflows[int(workflow)].workflow, int(task)))
    head = Text(group.head, style="red" if group.tasks else "yellow")
    message = name_line(group.text, MAX_EXCERPT_LINE)
    tasks = str(group.tasks) if group.tasks else "·"
    return Row(
        (tasks, str(group.attempts), head, message, first, group.first.site),
        (group.tasks, group.attempts, group.head, message, first, group.first.site),
    )
