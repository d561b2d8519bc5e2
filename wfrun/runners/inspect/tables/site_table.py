"""The table of the sites of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from wfrun.engine.capabilities.launchers.launchers import Launchers
from wfrun.engine.capabilities.launchers.pool import LauncherPhase, LauncherPool
from wfrun.engine.core.state import Phase, RunState, SiteState
from wfrun.runners.display.counts import counted

Row = dict[str, Text]
"""The cells of a site by heading."""


class SiteTable:
    """A row per site: cores in use, attempts by phase, tasks done, failed attempts (errors). A
    narrow terminal gets fewer columns. If there are more than ``max_rows`` sites, the table has few
    columns and is divided into blocks side by side."""

    def __init__(self, state: RunState, max_rows: int | None = None) -> None:
        self._state = state
        self._max_rows = max_rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = _site_rows(self._state)
        if self._max_rows is not None and len(rows) > self._max_rows:
            yield _blocks(rows, self._max_rows, options.max_width)
            return
        headings = list(_SITE_HEADINGS)
        for heading in (*_LESS_WANTED, ""):
            if _width(rows, headings) <= options.max_width or not heading:
                break
            headings.remove(heading)
        yield _table(rows, headings)


def _width(rows: list[Row], headings: Sequence[str]) -> int:
    return sum(2 + max(len(row[h].plain) for row in [*rows, _HEAD]) for h in headings) - 2


def _table(rows: list[Row], headings: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        justify: Literal["left", "right"] = "left" if heading == "site" else "right"
        table.add_column(heading, justify=justify, no_wrap=True)
    for row in rows:
        table.add_row(*(row[heading] for heading in headings))
    return table


def _blocks(rows: list[Row], max_rows: int, width: int) -> Table:
    """Tables of few columns side by side: as many as are needed for ``max_rows``, if they fit
    ``width``."""
    for row in rows:
        row["used"] = Text(f"{row['used'].plain}/{row['slots'].plain}")
    fitting = max(1, (width + _GAP) // (_width(rows, _BLOCK_HEADINGS) + _GAP))
    count = min(fitting, ceil(len(rows) / max_rows))
    length = ceil(len(rows) / count)
    grid = Table.grid(padding=(0, _GAP), pad_edge=False)
    blocks = (rows[start : start + length] for start in range(0, len(rows), length))
    grid.add_row(*(_table(block, _BLOCK_HEADINGS) for block in blocks))
    return grid


def launcher_lines(state: RunState) -> list[Text]:
    """A line for each site with launchers. Empty for a run with claims, whose launchers are only
    placeholders that hold the claimed processors."""
    launchers = state.find(Launchers)
    if launchers is None or state.settings.place is not None:
        return []
    return [
        Text(launcher_line(state, site, launchers.pools[index]), style="dim")
        for index, site in enumerate(state.sites)
        if index in launchers.pools
    ]


def launcher_line(state: RunState, site: SiteState, pool: LauncherPool) -> str:
    """The launchers of a site on one line."""
    head = f"launchers of {site.spec.name}: "
    if state.ended is not None:
        return f"{head}{len(pool.launchers) + len(pool.ended)} in all"
    phases = Counter(launcher.phase for launcher in pool.launchers.values())
    live = phases.pop(LauncherPhase.LIVE, 0)
    parts = [f"{live} live with {counted(pool.live_slots, 'slot')}"] if live else []
    for phase, count in sorted(phases.items()):
        why = site.wait_text(count) if phase is LauncherPhase.QUEUED else ""
        parts.append(f"{count} {phase.name.lower()}{why}")
    if pool.ended:
        parts.append(f"{len(pool.ended)} ended")
    return head + (", ".join(parts) or "none yet")


_SITE_HEADINGS = (
    "site", "slots", "used", "staging", "queued", "running", "done", "errors", "files", "MB",
)  # fmt: skip
_LESS_WANTED = ("MB", "files", "used", "staging", "slots", "queued")
_BLOCK_HEADINGS = ("site", "used", "queued", "done", "errors")
_GAP = 4
"""Columns between two blocks."""
_HEAD = {heading: Text(heading) for heading in _SITE_HEADINGS}


def _site_rows(state: RunState) -> list[Row]:
    used = [0] * len(state.sites)
    for attempt in state.attempts.values():
        if attempt.phase is Phase.RUNNING:
            used[attempt.site] += attempt.cores
    rows = []
    for index, site in enumerate(state.sites):
        phases = site.phases
        values = (
            site.spec.name,
            site.spec.slots,
            used[index],
            phases[Phase.STAGING],
            phases[Phase.QUEUED] + phases[Phase.SUBMITTING],
            phases[Phase.RUNNING],
            site.done,
            site.failed,
            site.transfers_in,
            f"{site.bytes_in / 1e6:.1f}",
        )
        row = {h: Text(str(v)) for h, v in zip(_SITE_HEADINGS, values, strict=True)}
        if site.pause_reason is not None:
            row["site"].stylize("yellow")
        if site.failed:
            row["errors"].stylize("red")
        rows.append(row)
    return rows
