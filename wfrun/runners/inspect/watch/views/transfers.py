"""The copies of a run, a row for each link."""

from __future__ import annotations

from wfrun.engine.core.state import RunState
from wfrun.engine.files.link_samples import bandwidth_of
from wfrun.engine.fitting.sizes import size_text
from wfrun.engine.model import ORIGIN
from wfrun.runners.inspect.events.event_lines import HERE
from wfrun.runners.inspect.watch.listing import Listing, ListingColumn, ListingRow
from wfrun.runners.inspect.watch.observation import Link, LinkRate, RunObservation

_COLUMNS = (
    ListingColumn("from", least=12),
    ListingColumn("to", least=12),
    ListingColumn("copying", is_right=True),
    ListingColumn("waiting", is_right=True),
    ListingColumn("to move", is_right=True, rank=1),
    ListingColumn("files/min", is_right=True, rank=3),
    ListingColumn("rate", is_right=True),
    ListingColumn("measured", is_right=True, rank=2),
)


class _Load:
    """The copies of a link that have not ended."""

    def __init__(self) -> None:
        self.copying = self.waiting = self.size_bytes = 0


def transfers(look: RunObservation) -> Listing:
    """Return a row for each link with copies now or in the last minute, the links with the most
    bytes to move first. The cost is proportional to the number of copies that have not ended."""
    state, loads = look.state, dict[Link, _Load]()
    for (workflow, file, destination), copy in state.copies.items():
        load = loads.setdefault((copy.source, destination), _Load())
        if copy.rank is not None or copy.awaits_source:
            load.waiting += 1
        else:
            load.copying += 1
        load.size_bytes += max(0, state.workflows[workflow].sizes[file])
    links = [*loads, *(link for link in look.links if link not in loads)]
    rows = [_row(state, link, loads.get(link, _Load()), look.links.get(link)) for link in links]
    rows.sort(key=lambda row: (row.sort_keys[4], row.sort_keys[6]), reverse=True)
    return Listing(_COLUMNS, rows, len(rows), "no file was copied in the last minute")


def _row(state: RunState, link: Link, load: _Load, rate: LinkRate | None) -> ListingRow:
    source, destination = (HERE if n == ORIGIN else state.sites[n].spec.name for n in link)
    files, bytes_per_s = rate if rate is not None else (0, 0.0)
    samples = state.network.samples.get(link)
    measured = None if samples is None else bandwidth_of(samples.bandwidths())
    cells = (
        source, destination,
        *(str(number) if number else "·" for number in (load.copying, load.waiting)),
        size_text(load.size_bytes) if load.size_bytes else "·",
        str(files) if files else "·",
        f"{size_text(bytes_per_s)}/s" if bytes_per_s else "·",
        f"{size_text(measured)}/s" if measured is not None else "",
    )  # fmt: skip
    keys = (load.copying, load.waiting, load.size_bytes, files, bytes_per_s, measured or 0.0)
    return ListingRow(cells, (source, destination, *keys))
