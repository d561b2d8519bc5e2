"""The launchers of a run."""

from __future__ import annotations

from rich.text import Text

from wfrun.engine.capabilities.launchers.launchers import Launchers
from wfrun.engine.capabilities.launchers.pool import Launcher
from wfrun.engine.explain.visible import name_line
from wfrun.runners.display.durations import duration
from wfrun.runners.inspect.tables.launchers import (
    CONNECTED,
    MAX_HOST,
    PHASE_STYLES,
    launcher_rows,
    rate_text,
    since_s_of,
    why_text,
)
from wfrun.runners.inspect.watch.bars import USED, BarPart, bar
from wfrun.runners.inspect.watch.listing import Listing, ListingColumn, ListingRow
from wfrun.runners.inspect.watch.observation import RunObservation

BAR_COLUMNS = 10
"""Width of the bars of the table."""

_COLUMNS = (
    ListingColumn("launcher", least=12),
    ListingColumn("site"),
    ListingColumn("where", least=12, rank=4),
    ListingColumn("state"),
    ListingColumn("for", is_right=True, rank=2),
    ListingColumn("busy", is_right=True),
    ListingColumn("", rank=6),
    ListingColumn("time left", is_right=True, rank=1),
    ListingColumn("done", is_right=True),
    ListingColumn("tasks/s", is_right=True, rank=3),
    ListingColumn("channel", rank=7),
    ListingColumn("why", least=12, rank=5),
)


def launchers(look: RunObservation) -> Listing:
    """A row for each launcher that has not ended."""
    if look.state.find(Launchers) is None:
        empty = "no site of this run has launchers ('dispatch: launchers' in the catalog)"
        return Listing(_COLUMNS, (), 0, empty)
    found = launcher_rows(look.state, ended=False) if look.state.ended is None else []
    rows = [_row(site, launcher, look.now_s) for site, launcher in found]
    return Listing(_COLUMNS, rows, len(rows), "there are no launchers now")


def _row(site: str, launcher: Launcher, now_s: float) -> ListingRow:
    word = launcher.phase.name.lower()
    slots = launcher.slots or launcher.asked_slots
    is_here = launcher.phase in CONNECTED
    left_s = 0.0 if launcher.ends_s is None else max(0.0, launcher.ends_s - now_s)
    since_s = max(0.0, now_s - since_s_of(launcher))
    where = name_line(launcher.host, MAX_HOST)
    rate, why = rate_text(launcher, now_s), why_text(launcher)
    busy = launcher.busy_cores if is_here else 0
    cells = (
        launcher.request.key, site, where, Text(word, style=PHASE_STYLES.get(word, "")),
        duration(since_s), f"{busy}/{slots}", bar(BAR_COLUMNS, slots, [BarPart(busy, *USED)]),
        duration(left_s) if is_here and launcher.ends_s is not None else "",
        str(launcher.done), rate, launcher.channel, why,
    )  # fmt: skip
    keys = (
        launcher.request.key, site, where, word, since_s, busy, busy / max(1, slots), left_s,
        launcher.done, float(rate or 0), launcher.channel, why,
    )  # fmt: skip
    return ListingRow(cells, keys)
