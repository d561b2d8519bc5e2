"""The heading of ``wfrun watch``: the run on two lines."""

from __future__ import annotations

from rich.text import Text

from wfrun.engine.explain.visible import name_line
from wfrun.runners.display.counts import retries_text, task_counts
from wfrun.runners.display.durations import duration, task_rate
from wfrun.runners.display.eta import eta_text
from wfrun.runners.inspect.live.live import WIDE
from wfrun.runners.inspect.tables.report import outcome_text
from wfrun.runners.inspect.watch.bars import FAILED, USED, BarPart, bar
from wfrun.runners.inspect.watch.observation import RunObservation
from wfrun.runners.run.directory.simulated import SIMULATED_ID

MIN_NAME = 8
"""Minimum width of the name of a run."""
MIN_BAR = 8
"""Minimum width of the bar."""
_STYLES = {"running": "bold green", "done": "bold green", "failed": "bold red"}


def heading(look: RunObservation, width: int) -> list[Text]:
    """Name and state, progress, rate and times on the first line; the numbers of tasks on the
    second."""
    state = look.state
    settled = state.done + state.failed + state.blocked + state.unneeded
    is_over = state.ended is not None or not look.is_driven
    word = outcome_text(state, driven=not is_over)
    right = Text(f"{settled}/{state.tasks}")
    if not is_over:
        right.append(f"  {task_rate(look.tasks_per_s)}", style="cyan")
    right.append(f"  {duration(max(0.0, look.now_s - state.started_s))}")
    if not is_over and look.left is not None:
        left = eta_text(look.left, has_interval=width >= WIDE)
        right.append(f"  {left}", style="cyan")
    name = Text(name_line(look.title), style="bold")
    status = Text("  ").append(word, style=_STYLES.get(word, "bold yellow"))
    if state.run_id == SIMULATED_ID:
        status.append(" (simulated)", style="dim")
    room = width - right.cell_len - status.cell_len - 2
    name.truncate(max(MIN_NAME, room), overflow="ellipsis")
    first = Text.assemble(name, status)
    columns = width - first.cell_len - right.cell_len - 4
    if columns >= MIN_BAR:
        parts = [BarPart(state.done, *USED), BarPart(state.failed + state.blocked, *FAILED)]
        progress = bar(columns, state.tasks, parts)
        first = Text.assemble(first, "  ", progress, "  ", right)
    else:
        first = Text.assemble(first, " " * max(2, columns + 2), right)
    second = Text(task_counts(state, is_over=is_over) + retries_text(state), style="dim")
    for line in (first, second):
        line.truncate(width, overflow="ellipsis")
    return [first, second]
