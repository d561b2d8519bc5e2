"""The failures of a run by cause and message."""

from __future__ import annotations

from rich.text import Text

from wfrun.engine.core.state import RunState
from wfrun.engine.explain.visible import name_line
from wfrun.engine.tasks.failures import FailureGroup
from wfrun.runners.inspect.failures.failures import MAX_EXCERPT_LINE, task_title
from wfrun.runners.inspect.watch.listing import Listing, ListingColumn, ListingRow
from wfrun.runners.inspect.watch.observation import RunObservation

_COLUMNS = (
    ListingColumn("tasks", is_right=True),
    ListingColumn("attempts", is_right=True),
    ListingColumn("cause"),
    ListingColumn("message", least=24),
    ListingColumn("first", least=12, rank=1),
    ListingColumn("at", rank=2),
)


def failures(look: RunObservation) -> Listing:
    """A row for each kind of failures, the kinds with the most failed tasks first."""
    groups = look.state.failure_groups.largest_first()
    rows = [_row(look.state, group) for group in groups]
    return Listing(_COLUMNS, rows, len(rows), "nothing has failed")


def _row(state: RunState, group: FailureGroup) -> ListingRow:
    _, workflow, task, _ = group.first.key.rsplit(".", 3)
    first = name_line(task_title(state.workflows[int(workflow)].workflow, int(task)))
    head = Text(group.head, style="red" if group.tasks else "yellow")
    message = name_line(group.text, MAX_EXCERPT_LINE)
    tasks = str(group.tasks) if group.tasks else "·"
    return ListingRow(
        (tasks, str(group.attempts), head, message, first, group.first.site),
        (group.tasks, group.attempts, group.head, message, first, group.first.site),
    )
