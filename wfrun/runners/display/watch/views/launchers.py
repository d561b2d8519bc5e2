"""The launchers of a run."""

from __future__ import annotations

from rich.text import Text

from wfrun.engine.capabilities.launchers.launchers import Launchers
from wfrun.engine.capabilities.launchers.pool import Launcher
from wfrun.engine.visible import name_line
from wfrun.runners.display.durations import duration
from wfrun.runners.display.launchers import (
    CONNECTED,
    MAX_HOST,
    PHASE_STYLES,
    launcher_rows,
    rate_text,
    since_s_of,
    why_text,
)
from wfrun.runners.display.watch.bars import USED, Part, bar
from wfrun.runners.display.watch.listing import Column, Listing, Row
from wfrun.runners.display.watch.observation import Observation

BAR_COLUMNS = 10
"""Width of the bars of the table."""

_COLUMNS = (
    Column("launcher", least=12),
    Column("site"),
    Column("where", least=12, rank=4),
    Column("state"),
    Column("for", is_right=True, rank=2),
    Column("busy", is_right=True),
    Column("", rank=6),
    Column("time left", is_right=True, rank=1),
    Column("done", is_right=True),
    Column("tasks/s", is_right=True, rank=3),
    Column("channel", rank=7),
    Column("why", least=12, rank=5),
)


def launchers(look: Observation) -> Listing:
    """A row for each launcher that has not ended."""
    if look.state.find(Launchers) is None:
        empty = "no site of this run has launchers ('dispatch: launchers' in the catalog)"
        return Listing(_COLUMNS, (), 0, empty)
    found = launcher_rows(look.state, ended=False) if look.state.ended is None else []
    rows = [_row(site, launcher, look.now_s) for site, launcher in found]
    return Listing(_COLUMNS, rows, len(rows), "there are no launchers now")


def _row(site: str, launcher: Launcher, now_s: float) -> Row:
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
        duration(since_s), f"{busy}/{slots}", bar(BAR_COLUMNS, slots, [Part(busy, *USED)]),
        duration(left_s) if is_here and launcher.ends_s is not None else "",
        str(launcher.done), rate, launcher.channel, why,
    )  # fmt: skip
    keys = (
        launcher.request.key, site, where, word, since_s, busy, busy / max(1, slots), left_s,
        launcher.done, float(rate or 0), launcher.channel, why,
    )  # fmt: skip
    return Row(cells, keys)
