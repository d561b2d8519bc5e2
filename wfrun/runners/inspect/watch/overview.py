"""The overview of ``wfrun watch``: workflows, sites and why they are idle, running tasks, failures
and the last events, fitted to the height of the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wfrun.engine.core.state import SiteState
from wfrun.engine.explain.visible import name_line
from wfrun.runners.display.console import name_cell
from wfrun.runners.display.workflow_names import distinct_names
from wfrun.runners.inspect.failures.failures import (
    cancelled_line,
    failure_line,
    nothing_succeeds,
)
from wfrun.runners.inspect.live.layout import DisplaySection, SharedLines
from wfrun.runners.inspect.tables.idle_sites import grouped, reason_text
from wfrun.runners.inspect.tables.report import advice_lines
from wfrun.runners.inspect.tables.site_table import launcher_lines
from wfrun.runners.inspect.tables.sizes import size_table
from wfrun.runners.inspect.watch.activity import WIDE, activity
from wfrun.runners.inspect.watch.observation import RunObservation
from wfrun.runners.inspect.watch.views.sites import (
    MAX_REASON,
    SiteUse,
    reasons,
    site_name,
    site_uses,
    use_bar,
)
from wfrun.runners.inspect.watch.views.workflows import workflow_bar

NAME_COLUMNS = 16
"""Maximum width of the name of a site in the overview. The name of a workflow may be twice as
wide."""
MAX_BAR = 100
"""Maximum width of a bar."""
MIN_BAR = 6
"""Minimum width of a bar."""
ROOMY = 24
"""Minimum height, in lines, from which empty lines separate the parts."""
GAP = 3
"""Columns between two blocks of sites."""
BLOCK_COLUMNS = 24
"""Minimum width of a block of sites if several blocks stand side by side."""


def overview(look: RunObservation, width: int, height: int) -> RenderableType:
    """The run in ``height`` lines of ``width`` columns."""
    state = look.state
    most = max(1, height // 4)
    beyond = max(0, len(state.workflows) - most)
    sections = [DisplaySection(_workflows(look, width, most), 2, "workflows", beyond, rank=0)]
    sections.append(
        DisplaySection(_spaced(_sites(look, width, height // 3), height), height - 3, "sites")
    )
    notes = [*_idle(look, width), *launcher_lines(state), *advice_lines(state)]
    if notes:
        sections.append(DisplaySection(Group(*notes), 2))
    sizes = size_table(state, look.now_s)
    if sizes is not None:
        sections.append(DisplaySection(_spaced(sizes, height), 3, "malleable jobs"))
    shown = activity(look, width, height)
    if shown is not None:
        sections.append(DisplaySection(_spaced(shown, height), 4, ""))
    groups = state.failure_groups.largest_first()
    if groups:
        lines = [_one_line(failure_line(state, group), width) for group in groups[:height]]
        sections.append(DisplaySection(Group(*lines), 2, "kinds of failures", rank=0))
    cancelled = cancelled_line(state)
    if cancelled is not None:
        sections.append(DisplaySection(cancelled, 1, rank=0))
    remark = nothing_succeeds(state, look.title)
    if remark:
        sections.append(DisplaySection(Text(remark, style="yellow"), 2, rank=0))
    return SharedLines(sections)


def _one_line(text: Text, width: int) -> Text:
    text.truncate(width, overflow="ellipsis")
    return text


def _spaced(body: RenderableType, height: int) -> RenderableType:
    """A part with an empty line before it, where there is room."""
    return Group(Text(""), body) if height >= ROOMY else body


def _idle(look: RunObservation, width: int) -> Sequence[RenderableType]:
    """Why sites are idle, a line for each reason. The names of the sites are given if they fit."""
    lines = []
    for idle in grouped(look.state, reasons(look)):
        text = name_line(idle.line(look.now_s), MAX_REASON)
        if cell_len(text) > width and len(idle.sites) > 1:
            text = f"{len(idle.sites)} sites: {name_line(reason_text(idle.reason, look.now_s))}"
        lines.append(Text(text, style="yellow", no_wrap=True, overflow="ellipsis"))
    return lines


def _workflows(look: RunObservation, width: int, height: int) -> RenderableType:
    """A bar for each workflow, those that are not done first."""
    found = look.state.workflows
    names = distinct_names([w.workflow for w in found])
    grid = Table.grid(padding=(0, 2), pad_edge=False)
    for _ in range(4):
        grid.add_column(no_wrap=True)
    for w in sorted(found, key=lambda w: not w.open)[:height]:
        counts = {"under way": w.dispatched, "failed": w.failed, "blocked": w.blocked}
        words = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        name = name_cell(names[w.index])
        name.truncate(NAME_COLUMNS * 2, overflow="ellipsis")
        done = f"{w.done}/{len(w.status)}"
        grid.add_row(name, workflow_bar(w, _bar_columns(width)), done, Text(words, style="dim"))
    return grid


def _bar_columns(width: int) -> int:
    """Width of the bar of a workflow: a fifth of a narrow terminal, half of a wide one."""
    return max(6, min(MAX_BAR, width // (2 if width >= WIDE else 5)))


def _sites(look: RunObservation, width: int, max_rows: int) -> RenderableType:
    """A bar for each site. The sites are divided into blocks side by side: as many as are needed
    for ``max_rows``, if they fit ``width``."""
    uses = site_uses(look.state)
    sites = list(zip(look.state.sites, uses, strict=True))
    fitting = max(1, width // BLOCK_COLUMNS)
    blocks = max(1, min(fitting, ceil(len(sites) / max(1, max_rows - 1))))
    length = ceil(len(sites) / blocks) or 1
    block = _Block(sites, (width - GAP * (blocks - 1)) // blocks)
    grid = Table.grid(padding=(0, GAP), pad_edge=False)
    grid.add_row(*(block.table(n, n + length) for n in range(0, len(sites), length)))
    return grid


class _Block:
    """Tables of some of the sites, all with the same columns: bar, used and total cores, cores of
    attempts that wait at the site, tasks done, errors. A narrow table has fewer columns."""

    def __init__(self, sites: Sequence[tuple[SiteState, SiteUse]], width: int) -> None:
        self._uses = [use for _, use in sites]
        self._names = [_one_line(site_name(site), NAME_COLUMNS) for site, _ in sites]
        columns = (
            ("used", [f"{use.used}/{use.slots}" for use in self._uses]),
            ("queued", [str(use.prefetched or "·") for use in self._uses]),
            ("done", [str(site.done or "·") for site, _ in sites]),
            ("errors", [str(site.failed or "·") for site, _ in sites]),
        )
        left = width - max([4, *(name.cell_len for name in self._names)]) - 2
        self._columns: list[tuple[str, list[str]]] = []
        for title, cells in columns:
            need = 2 + max(len(cell) for cell in [title, *cells])
            if left - need < MIN_BAR:
                break
            left -= need
            self._columns.append((title, cells))
        self._bar_columns = max(MIN_BAR, min(MAX_BAR, left))

    def table(self, start: int, stop: int) -> Table:
        """The table of these sites."""
        table = Table.grid(padding=(0, 2), pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        for _, cells in self._columns:  # with the width of all sites, so that blocks are aligned
            table.add_column(no_wrap=True, justify="right", min_width=max(map(len, cells)))
        table.add_row(_bold("site"), "", *(_bold(title) for title, _ in self._columns))
        for n in range(start, min(stop, len(self._uses))):
            numbers = [_number(title, cells[n]) for title, cells in self._columns]
            table.add_row(self._names[n], use_bar(self._uses[n], self._bar_columns), *numbers)
        return table


def _bold(title: str) -> Text:
    return Text(title, style="bold")


def _number(title: str, cell: str) -> Text:
    style = "dim" if cell == "·" else "red" if title == "errors" else ""
    return Text(cell, style=style)
