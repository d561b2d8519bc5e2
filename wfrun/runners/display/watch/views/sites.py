"""The sites of a run, a row each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text

from wfrun.engine.idleness import Idleness, explain_idleness
from wfrun.engine.state import Phase, RunState, SiteState
from wfrun.engine.visible import name_line
from wfrun.runners.display.idle_sites import reason_text
from wfrun.runners.display.watch.amounts import size_text
from wfrun.runners.display.watch.asking import Subject
from wfrun.runners.display.watch.bars import PREFETCHED, USED, Part, bar
from wfrun.runners.display.watch.listing import Column, Listing, Row
from wfrun.runners.display.watch.observation import Observation

BAR_COLUMNS = 12
"""Width of the bars of the table."""
MAX_REASON = 300
"""Maximum number of characters of a reason."""

_COLUMNS = (
    Column("site", least=12),
    Column("", rank=4),
    Column("used", is_right=True),
    Column("idle", is_right=True, rank=1),
    Column("prefetched", is_right=True, rank=7),
    Column("staging", is_right=True, rank=6),
    Column("queued", is_right=True, rank=5),
    Column("done", is_right=True, rank=2),
    Column("errors", is_right=True, rank=3),
    Column("received", is_right=True, rank=8),
    Column("why idle", least=32),
)


class SiteUse(NamedTuple):
    """The cores of a site."""

    slots: int
    used: int
    """Cores of running attempts."""
    prefetched: int
    """Cores of attempts that are staging or queued there."""

    @property
    def idle(self) -> int:
        return max(0, self.slots - self.used)


def site_uses(state: RunState) -> list[SiteUse]:
    """How the cores of each site are used. Cost: the open attempts."""
    used = [0] * len(state.sites)
    for attempt in state.attempts.values():
        if attempt.phase is Phase.RUNNING:
            used[attempt.site] += attempt.cores
    return [
        SiteUse(site.slots, n, max(0, site.committed_cores - n))
        for site, n in zip(state.sites, used, strict=True)
    ]


def reasons(look: Observation) -> Sequence[Idleness | None]:
    """Why each site has idle cores. Of a run that nothing drives only why it is paused."""
    found = explain_idleness(look.state)
    if look.is_driven:
        return found
    return [r if r is not None and r.kind == "paused" else None for r in found]


def use_bar(use: SiteUse, columns: int) -> Text:
    """Used, prefetched and idle cores of all."""
    parts = [Part(use.used, *USED), Part(min(use.prefetched, use.idle), *PREFETCHED)]
    return bar(columns, use.slots, parts)


def site_name(site: SiteState) -> Text:
    """The name of a site, marked if it is paused."""
    return Text(site.spec.name, style="" if site.pause_reason is None else "yellow")


def sites(look: Observation) -> Listing:
    """A row for each site, in the order of the catalog."""
    state = look.state
    found = zip(state.sites, site_uses(state), reasons(look), strict=True)
    rows = [
        _row(site, use, reason, look.now_s)._replace(subject=Subject("site", number))
        for number, (site, use, reason) in enumerate(found)
    ]
    return Listing(_COLUMNS, rows, len(rows), "the run has no sites yet")


def _row(site: SiteState, use: SiteUse, reason: Idleness | None, now_s: float) -> Row:
    phases = site.phases
    numbers = (
        use.idle, use.prefetched, phases[Phase.STAGING],
        phases[Phase.QUEUED] + phases[Phase.SUBMITTING], site.done, site.failed,
    )  # fmt: skip
    cells: list[str | Text] = [str(number) if number else "·" for number in numbers]
    if site.failed:
        cells[-1] = Text(str(site.failed), style="red")
    why = "" if reason is None else name_line(reason_text(reason, now_s), MAX_REASON)
    received = size_text(site.bytes_in) if site.bytes_in else "·"
    style = "yellow" if site.pause_reason is not None else "dim"
    used = f"{use.used}/{use.slots}"
    shown = (use_bar(use, BAR_COLUMNS), used, *cells, received, Text(why, style=style))
    share = use.used / max(1, use.slots)
    keys = (site.spec.name, share, use.used, *numbers, site.bytes_in, why)
    return Row((site_name(site), *shown), keys)
