"""What goes on in a run, in the overview of ``wfrun watch``: running tasks against their expected
times, copies by link, the last events."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wfrun.engine.core.state import Phase
from wfrun.runners.display.console import name_cell
from wfrun.runners.display.durations import duration
from wfrun.runners.inspect.tables.running import RunningTask, running_tasks
from wfrun.runners.inspect.watch.bars import time_bar
from wfrun.runners.inspect.watch.observation import RunObservation
from wfrun.runners.inspect.watch.views.transfers import transfers

WIDE = 120
"""Minimum width of a terminal on which the last events stand beside the running tasks."""
GAP = 3
"""Columns between the running tasks and the events."""
BAR_COLUMNS = 8, 12
"""Width of the bars of running tasks on a narrow and on a wide terminal."""
MAX_LINKS = 4
"""Maximum number of links that are shown."""


def activity(look: RunObservation, width: int, height: int) -> RenderableType | None:
    """Running tasks and copies; on a wide terminal the last events beside them, or alone if no task
    runs. None: the terminal is narrow and no task runs."""
    tasks = running_tasks(look.state, look.now_s, height) if look.is_driven else []
    if width < WIDE:
        return _group(_running(look, tasks, width), _copies(look, width)) if tasks else None
    room = (width - GAP) // 2 if tasks else 0
    events = _events(look, width - room - GAP * bool(room), height)
    if not tasks:
        return events
    grid = Table.grid(padding=(0, GAP), pad_edge=False)
    grid.add_column(min_width=room, max_width=room)
    grid.add_column(no_wrap=True)
    copies = _copies(look, room)
    grid.add_row(_group(_running(look, tasks, room), copies), events)
    return grid


def _group(running: RenderableType, copies: RenderableType | None) -> RenderableType:
    """Copies above running tasks. The copies are few, and a cut at the end removes only running
    tasks."""
    return running if copies is None else Group(copies, Text(""), running)


def _running(look: RunObservation, tasks: Sequence[RunningTask], width: int) -> Table:
    total = sum(site.phases[Phase.RUNNING] for site in look.state.sites)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column(f"{total} running", no_wrap=True, overflow="ellipsis")
    table.add_column("site", no_wrap=True)
    for title in ("for", "expected"):
        table.add_column(title, no_wrap=True, justify="right")
    table.add_column("", no_wrap=True)
    columns = BAR_COLUMNS[width >= WIDE // 2]
    for task in tasks:
        expected = "" if task.expected_s is None else duration(task.expected_s)
        elapsed = Text(duration(task.elapsed_s), style="yellow" if task.is_late else "")
        row = (name_cell(task.title), task.site, elapsed, expected, time_bar(task, columns))
        table.add_row(*row)
    return table


def _copies(look: RunObservation, width: int) -> Table | None:
    """The links with most bytes to move; None: there are no copies."""
    if not look.state.copies:
        return None
    rows = [row.cells for row in transfers(look).rows[:MAX_LINKS]]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("copies from", no_wrap=True)
    table.add_column("to", no_wrap=True)
    for title in ("now", "waiting", "to move", "rate"):
        table.add_column(title, no_wrap=True, justify="right")
    for source, destination, copying, waiting, size, _, rate, _ in rows:
        table.add_row(source, destination, copying, waiting, size, rate)
    return table


def _events(look: RunObservation, width: int, height: int) -> RenderableType:
    """The last events, the latest first."""
    lines = [Text("last events, latest first", style="bold")]
    for event in reversed(look.events[-height:]):
        line = Text(event.removeprefix("  "), style="dim")
        line.truncate(width, overflow="ellipsis")
        lines.append(line)
    return Group(*lines)
