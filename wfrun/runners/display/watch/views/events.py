"""The last events of a run."""

from __future__ import annotations

from wfrun.runners.display.watch.listing import Column, Listing, Row
from wfrun.runners.display.watch.observation import Observation

_COLUMNS = (Column("   time  event", least=12),)


def events(look: Observation) -> Listing:
    """A line for each of the last events, the latest at the end."""
    rows = [Row((line,), (number,)) for number, line in enumerate(look.events)]
    return Listing(_COLUMNS, rows, len(rows), "the log has no event yet")
