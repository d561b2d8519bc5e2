"""The last events of a run."""

from __future__ import annotations

from wfrun.runners.inspect.watch.listing import Listing, ListingColumn, ListingRow
from wfrun.runners.inspect.watch.observation import RunObservation

_COLUMNS = (ListingColumn("   time  event", least=12),)


def events(look: RunObservation) -> Listing:
    """A line for each of the last events, the latest at the end."""
    rows = [ListingRow((line,), (number,)) for number, line in enumerate(look.events)]
    return Listing(_COLUMNS, rows, len(rows), "the log has no event yet")
