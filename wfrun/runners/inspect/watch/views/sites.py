"""The sites of a run, a row each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text

from wfrun.engine.core.state import Phase, RunState, SiteState
from wfrun.engine.explain.idleness import Idleness, explain_idleness
from wfrun.engine.explain.visible import name_line
from wfrun.engine.fitting.sizes import size_text
from wfrun.runners.inspect.tables.idle_sites import reason_text
from wfrun.runners.inspect.watch.asking import RowSubject
from wfrun.runners.inspect.watch.bars import PREFETCHED, USED, BarPart, bar
from wfrun.runners.inspect.watch.listing import Listing, ListingColumn, ListingRow
from wfrun.runners.inspect.watch.observation import RunObservation

BAR_COLUMNS = 12
"""Width of the bars of the table."""
MAX_REASON = 300
"""Maximum number of characters of a reason."""

_COLUMNS = (
    ListingColumn("site", least=12),
    ListingColumn("", rank=4),
    ListingColumn("used", is_right=True),
    ListingColumn("idle", is_right=True, rank=1),
    ListingColumn("prefetched", is_right=True, rank=7),
    ListingColumn("staging", is_right=True, rank=6),
    ListingColumn("queued", is_right=True, rank=5),
    ListingColumn("done", is_right=True, rank=2),
    ListingColumn("errors", is_right=True, rank=3),
    ListingColumn("received", is_right=True, rank=8),
    ListingColumn("why idle", least=32),
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
    """Return the use of the cores of each site. The cost is proportional to the number of open
    attempts."""
    used = [0] * len(state.sites)
    for attempt in state.attempts.values():
        if attempt.phase is Phase.RUNNING:
            used[attempt.site] += attempt.cores
    return [
        SiteUse(site.slots, n, max(0, site.committed_cores - n))
        for site, n in zip(state.sites, used, strict=True)
    ]


def reasons(look: RunObservation) -> Sequence[Idleness | None]:
    """Return for each site why it has idle cores; None: no core is idle. If no engine drives the
    run, pauses are the only reasons given."""
    found = explain_idleness(look.state)
    if look.is_driven:
        return found
    return [r if r is not None and r.kind == "paused" else None for r in found]


def use_bar(use: SiteUse, columns: int) -> Text:
    """A bar of the used, prefetched and idle cores of a site."""
    parts = [BarPart(use.used, *USED), BarPart(min(use.prefetched, use.idle), *PREFETCHED)]
    return bar(columns, use.slots, parts)


def site_name(site: SiteState) -> Text:
    """The name of a site, marked if it is paused."""
    return Text(site.spec.name, style="" if site.pause_reason is None else "yellow")


def sites(look: RunObservation) -> Listing:
    """A row for each site, in the order of the catalog."""
    state = look.state
    found = zip(state.sites, site_uses(state), reasons(look), strict=True)
    rows = [
        _row(site, use, reason, look.now_s)._replace(subject=RowSubject("site", number))
        for number, (site, use, reason) in enumerate(found)
    ]
    return Listing(_COLUMNS, rows, len(rows), "the run has no sites yet")


def _row(site: SiteState, use: SiteUse, reason: Idleness | None, now_s: float) -> ListingRow:
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
    return ListingRow((site_name(site), *shown), keys)
