"""The display of a running run on a terminal."""

from __future__ import annotations

import asyncio
import time

from rich.console import Console, ConsoleDimensions, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from wfrun.engine.core.state import Phase, RunState, WorkflowState
from wfrun.runners.display.console import Hanging, name_cell, stderr_above
from wfrun.runners.display.counts import progress_line
from wfrun.runners.display.durations import duration, task_rate
from wfrun.runners.display.eta import Eta
from wfrun.runners.display.rate import Rate
from wfrun.runners.display.workflow_names import distinct_names
from wfrun.runners.inspect.failures.failures import failure_line, nothing_succeeds
from wfrun.runners.inspect.live.layout import DisplaySection, SharedLines
from wfrun.runners.inspect.tables.report import advice_lines, idle_lines
from wfrun.runners.inspect.tables.running import running_table, running_tasks
from wfrun.runners.inspect.tables.site_table import SiteTable, launcher_lines

REFRESH_S = 0.25
"""Interval between two refreshes of the live display, in seconds."""
MAX_SHARE = 0.1
"""Maximum share of a core that the display uses. With many open attempts it is refreshed less
often."""
BAR_COLUMNS = 30
"""Maximum width of a progress bar, which is also at most a quarter of the terminal's width."""


WIDE = 100
"""Minimum width, in columns, of a terminal on which the remaining time is shown with an
interval."""


class LiveProgress:
    """The display on a terminal: the run and its documents, the sites and why some have free cores,
    running tasks, failures by kind. It fills the terminal and never exceeds it."""

    def __init__(self, console: Console, state: RunState, title: str) -> None:
        self._console = console
        self._state = state
        self._title = title
        self._rate = Rate()
        self._eta = Eta(state)
        self.note = ""
        """A line under the display, for example after a Ctrl-C."""

    async def show(self) -> None:
        """Refresh the display until cancelled, then clear it."""
        with stderr_above(self._console):
            while True:
                await self._show_at(self._console.size)
                # A terminal that changes its width wraps the lines that are there, so nobody knows
                # how many there are to be erased.
                self._console.clear()

    async def _show_at(self, size: object) -> None:
        """Refresh the display until the terminal has another size."""
        live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        with live:
            while self._console.size == size:
                begun_s = time.process_time()
                live.update(self.render(), refresh=True)
                cost_s = time.process_time() - begun_s
                await asyncio.sleep(max(REFRESH_S, cost_s / MAX_SHARE))

    def render(self) -> RenderableType:
        """The display of the current state."""
        state, now_s = self._state, time.time()
        height = self._console.size.height
        sections = [DisplaySection(self._head(now_s), 2, rank=0)]
        if len(state.workflows) > 1:
            beyond = max(0, len(state.workflows) - height)
            sections.append(
                DisplaySection(_documents(state, self._console.size), 2, "documents", beyond)
            )
        table = SiteTable(state, max_rows=height * 2 // 3 - 1)
        sections.append(DisplaySection(table, height * 2 // 3, "lines of sites"))
        idle = idle_lines(state, now_s, driven=True)
        notes = [*launcher_lines(state), *idle, *advice_lines(state)]
        if notes:
            sections.append(DisplaySection(Group(*notes), 2))
        tasks = running_tasks(state, now_s, height)
        if tasks:
            count = sum(site.phases[Phase.RUNNING] for site in state.sites)
            beyond = count - len(tasks)
            sections.append(DisplaySection(running_table(tasks), 3, "running tasks", beyond))
        groups = state.failure_groups.largest_first()
        if groups:
            lines = [Hanging(failure_line(state, group)) for group in groups[:height]]
            beyond = len(groups) - len(lines)
            sections.append(DisplaySection(Group(*lines), 2, "lines of failures", beyond, rank=0))
        remarks = [r for r in (nothing_succeeds(state, self._title), self.note) if r]
        if remarks:
            text = Group(*(Text(remark, style="yellow") for remark in remarks))
            sections.append(DisplaySection(text, 2, rank=0))
        return SharedLines(sections)

    def _head(self, now_s: float) -> RenderableType:
        """The run on one line, and the numbers of its tasks on a second."""
        state = self._state
        tasks, settled = state.tasks, state.done + state.failed + state.blocked + state.unneeded
        rate = self._rate.update(state.done)
        elapsed_s = now_s - state.started_s if state.started_s else 0.0
        is_wide = self._console.size.width >= WIDE
        left = self._eta.text(now_s, has_interval=is_wide)
        bar = Table.grid(padding=(0, 2), pad_edge=False)
        for shrinks in (True, True, False, False, False, False):
            bar.add_column(no_wrap=not shrinks)
        bar.add_row(
            Text(self._title, style="bold", no_wrap=True, overflow="ellipsis"),
            ProgressBar(
                total=max(1, tasks), completed=settled, width=_bar_columns(self._console.size)
            ),
            Text(f"{settled}/{tasks}"),
            Text(task_rate(rate), style="cyan"),
            Text(duration(elapsed_s)),
            Text(left, style="cyan"),
        )
        return Group(
            bar, Text(progress_line(state), style="dim", no_wrap=True, overflow="ellipsis")
        )


def _documents(state: RunState, size: ConsoleDimensions) -> Table:
    """A bar for each workflow or bag, those that are not done first."""
    table = Table.grid(padding=(0, 2), pad_edge=False)
    for _ in range(4):
        table.add_column(no_wrap=True)
    names = distinct_names([w.workflow for w in state.workflows])
    for w in sorted(state.workflows, key=lambda w: not w.open)[: size.height]:
        tasks = len(w.status)
        settled = w.done + w.failed + w.blocked + w.unneeded
        table.add_row(
            name_cell(names[w.index]),
            ProgressBar(total=max(1, tasks), completed=settled, width=_bar_columns(size)),
            f"{settled}/{tasks}",
            Text(_of_document(w), style="dim"),
        )
    return table


def _bar_columns(size: ConsoleDimensions) -> int:
    return min(BAR_COLUMNS, size.width // 4)


def _of_document(w: WorkflowState) -> str:
    counts = {"under way": w.dispatched, "failed": w.failed, "blocked": w.blocked}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)
