"""The tasks of a run that run or could run: the running ones first, the oldest of them on top."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from wfrun.engine.core.state import Attempt, Phase, RunState, TaskStatus
from wfrun.engine.explain.visible import name_line
from wfrun.runners.display.durations import duration
from wfrun.runners.inspect.failures.failures import task_title
from wfrun.runners.inspect.tables.running import MAX_HOST, RunningTask, running_tasks
from wfrun.runners.inspect.watch.asking import RowSubject
from wfrun.runners.inspect.watch.bars import time_bar
from wfrun.runners.inspect.watch.listing import Listing, ListingColumn, ListingRow
from wfrun.runners.inspect.watch.observation import RunObservation

MAX_ROWS = 1000
"""Maximum number of rows. All rows are made again at every look."""
BAR_COLUMNS = 12
"""Width of the bars of the table."""

_COLUMNS = (
    ListingColumn("task", least=12),
    ListingColumn("state", rank=1),
    ListingColumn("site", rank=2),
    ListingColumn("host", least=12, rank=4),
    ListingColumn("for", is_right=True),
    ListingColumn("expected", is_right=True),
    ListingColumn("", rank=3),
)
_WORDS = {Phase.STAGING: "staging", Phase.SUBMITTING: "queued", Phase.QUEUED: "queued"}


def tasks(look: RunObservation) -> Listing:
    """A row for each running attempt, the oldest first, then for each attempt that waits at a site,
    then for each eligible task; at most `MAX_ROWS`."""
    state = look.state
    if state.ended is not None:
        return Listing(_COLUMNS, (), 0, "no task runs now")
    rows = [_row(task) for task in running_tasks(state, look.now_s, MAX_ROWS)]
    waiting = [a for a in state.attempts.values() if a.phase is not Phase.RUNNING]
    rows += [_waiting(state, a, look.now_s) for a in waiting[: MAX_ROWS - len(rows)]]
    rows += _eligible(state, MAX_ROWS - len(rows))
    total = len(state.attempts) + state.counts[TaskStatus.ELIGIBLE]
    return Listing(_COLUMNS, rows, total, "no task runs now")


def _row(task: RunningTask) -> ListingRow:
    expected_s = task.expected_s
    style = "yellow" if task.is_late else ""
    host = name_line(task.host, MAX_HOST)
    share = 0.0 if not expected_s else task.elapsed_s / expected_s
    cells = (
        name_line(task.title), Text("running", style="green"), task.site, host,
        Text(duration(task.elapsed_s), style=style),
        "" if expected_s is None else duration(expected_s), time_bar(task, BAR_COLUMNS),
    )  # fmt: skip
    keys = (task.title, "0", task.site, host, task.elapsed_s, expected_s or 0.0, share)
    return ListingRow(cells, keys, RowSubject("task", task.workflow, task.task))


def _waiting(state: RunState, attempt: Attempt, now_s: float) -> ListingRow:
    """An attempt that waits at a site, for its inputs or in the queue."""
    title = task_title(state.workflows[attempt.workflow].workflow, attempt.task)
    site, word = state.sites[attempt.site].spec.name, _WORDS[attempt.phase]
    since_s = attempt.placed_s if attempt.ready_s is None else attempt.ready_s
    elapsed_s = max(0.0, now_s - since_s)
    cells = (title, Text(word, style="cyan"), site, "", Text(duration(elapsed_s), style="dim"))
    keys = (title, "1" + word, site, "", elapsed_s, 0.0, 0.0)
    return ListingRow((*cells, "", ""), keys, RowSubject("task", attempt.workflow, attempt.task))


def _eligible(state: RunState, limit: int) -> Iterator[ListingRow]:
    """Rows of at most ``limit`` eligible tasks, which wait for a site, in the order of their
    documents."""
    for w in state.workflows:
        task = -1
        while limit > 0 and (task := w.status.find(TaskStatus.ELIGIBLE, task + 1)) >= 0:
            limit -= 1
            title = task_title(w.workflow, task)
            word = "raised" if task in w.raised else "eligible"
            cells = (title, Text(word, style="dim"), "", "", "", "", "")
            keys = (title, "2", "", "", 0.0, 0.0, 0.0)
            yield ListingRow(cells, keys, RowSubject("task", w.index, task))
