"""History of links: the latest copies between two places, from which latency and bandwidth are
estimated.

It is a table of the history file (`wfrun.runners.run.history.history_file`), with one row per copy.
So runs that end at the same time lose none of each other's copies. Places are named by user and
host, since two catalogs may give different sites the same name.
"""

from __future__ import annotations

import itertools
import socket
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from wfrun.engine import events as ev
from wfrun.engine.core.state import RunState
from wfrun.engine.files.link_samples import (
    LATENCY_BYTES,
    WINDOW,
    LinkSample,
    bandwidth_of,
    latency_of,
    split,
)
from wfrun.engine.model import ORIGIN, Catalog, LinkSpec, SiteSpec
from wfrun.engine.settings import Settings
from wfrun.runners.run.history.history_file import HistoryFile
from wfrun.sites.transfers.relay.relayed_links import with_relayed_links

ORIGIN_NAME = "origin"

_MAX_ROWS = 20_000
"""Maximum number of copies in the file, enough for some 600 links."""
_VALUES = (1e-9, 1e15)
"""Minimum and maximum of valid latencies in seconds and bandwidths in bytes per second. Other rows
are damaged."""
_Row = tuple[str, str, float, int, float, str]
_PRUNE = f"""
DELETE FROM link_copies WHERE rowid IN (
    SELECT rowid FROM (
        SELECT rowid, row_number() OVER (
            PARTITION BY source, destination, size_bytes <= ? ORDER BY at_s DESC) AS number
        FROM link_copies) WHERE number > {WINDOW});
"""
_BOUND = f"""
DELETE FROM link_copies WHERE rowid NOT IN (
    SELECT rowid FROM link_copies ORDER BY at_s DESC LIMIT {_MAX_ROWS});
"""


class PlacePair(NamedTuple):
    """Two places, each as ``place_of`` names it."""

    source: str
    destination: str


class KnownLink(NamedTuple):
    """Bandwidth and latency of a link, estimated from copies of earlier runs. An unknown value is
    None."""

    bandwidth_bytes_per_s: float | None
    latency_s: float | None
    copies: int
    at_s: float
    """End of the latest copy, in seconds since the epoch."""
    method: str
    """Transfer method of the link in the run with the latest copy; empty if unknown."""


def place_of(spec: SiteSpec | None) -> str:
    """Name the place of a site's files by user, first host, port and SSH configuration, as stated
    in the catalog. None, and a site without hosts, are at this machine, whose host name is
    returned.

    The SSH configuration is included, because it can map the same user and host to another machine.
    """
    if spec is None or spec.access is None or not spec.access.hosts:
        return socket.gethostname()
    access = spec.access
    user = f"{access.user}@" if access.user else "@"
    port = f":{access.port}" if access.port else ""
    config = f" ({access.ssh_config})" if access.ssh_config else ""
    return f"{user}{access.hosts[0]}{port}{config}"


def pairs_of(sites: Sequence[SiteSpec]) -> Iterator[tuple[int, int, PlacePair]]:
    """Yield (source, destination, their places) for each ordered pair of sites, or of a site and
    ORIGIN, that are at different places."""
    places = {ORIGIN: place_of(None), **{n: place_of(spec) for n, spec in enumerate(sites)}}
    for source, destination in itertools.permutations(places, 2):
        if places[source] != places[destination]:
            yield source, destination, PlacePair(places[source], places[destination])


def read_links(
    file: HistoryFile, settings: Settings, catalog: Catalog, at_s: float
) -> list[ev.LinksRead]:
    """Return the event with the bandwidth and latency of a run's links, measured by earlier runs or
    derived by `links_through_origin`. Returns no event if the run copies nothing between hosts, if
    it is emulated (its times are not those of the links), or if the history cannot be read."""
    if settings.emulate or not any(pairs_of(catalog.sites)):
        return []
    known = load_links(file)
    if known is None:
        return []
    found = [
        ev.LinkHistory(*ends, link.bandwidth_bytes_per_s, link.latency_s, link.copies)
        for ends, link in by_names(known, catalog.sites)
    ]
    found += [
        ev.LinkHistory(*ends, link.bandwidth_bytes_per_s, link.latency_s, 0)
        for ends, link in links_through_origin(known, catalog).items()
    ]
    return [ev.LinksRead(at_s, str(file.path), tuple(found))]


def by_names(
    known: Mapping[PlacePair, KnownLink], sites: Sequence[SiteSpec]
) -> Iterator[tuple[tuple[str, str], KnownLink]]:
    """Yield ((source, destination), link) for the known links between these sites and ORIGIN, with
    the names of the catalog."""
    names = {ORIGIN: ORIGIN_NAME, **{n: spec.name for n, spec in enumerate(sites)}}
    for source, destination, pair in pairs_of(sites):
        if pair in known:
            yield (names[source], names[destination]), known[pair]


def missing_links(known: Mapping[PlacePair, KnownLink], catalog: Catalog) -> list[LinkSpec]:
    """The links whose bandwidth is known, but for which the catalog states no speed."""
    listed = {(link.source, link.destination): link for link in catalog.links}
    return [
        replace(
            listed.get(ends) or LinkSpec(*ends),
            bandwidth_bytes_per_s=link.bandwidth_bytes_per_s,
            latency_s=link.latency_s or 0.0,
        )
        for ends, link in by_names(known, catalog.sites)
        if link.bandwidth_bytes_per_s is not None
        and not (ends in listed and listed[ends].has_speed)
    ]


def links_through_origin(
    known: Mapping[PlacePair, KnownLink], catalog: Catalog
) -> dict[tuple[str, str], LinkSpec]:
    """Links between sites, derived from the links between each of the two sites and this machine.
    Contains only pairs of sites whose speed neither the catalog nor a copy gives."""
    stated = {(link.source, link.destination): link for link in catalog.links}
    stated |= {(link.source, link.destination): link for link in missing_links(known, catalog)}
    whole = with_relayed_links(replace(catalog, links=tuple(stated.values())))
    return {
        ends: link
        for link in whole.links
        if (ends := (link.source, link.destination)) not in stated or not stated[ends].has_speed
        if link.has_speed
    }


def load_links(file: HistoryFile) -> dict[PlacePair, KnownLink] | None:
    """All links of a history file. Returns None, with a warning, if the file cannot be read.
    Damaged rows are skipped, with a warning."""
    rows: list[_Row] = file.read(
        lambda db: db.execute(
            "SELECT source, destination, at_s, size_bytes, value, method FROM link_copies "
            f"ORDER BY at_s DESC LIMIT {_MAX_ROWS}"
        ).fetchall(),
        [],
    )
    if file.has_failed:
        return None
    sound = [row for row in rows if _is_sound(*row)]
    if len(sound) < len(rows):
        file.warn("read whole", f"{len(rows) - len(sound)} of its copies are damaged")
    return _known(sound)


def _is_sound(
    source: object, destination: object, at_s: object, size: object, value: object, method: object
) -> bool:
    """Whether the values of a row are valid. Other programs may write the file, too."""
    return (
        isinstance(source, str) and isinstance(destination, str) and isinstance(method, str)
        and isinstance(at_s, float) and abs(at_s) < _VALUES[1]
        and isinstance(size, int) and size >= 0
        and isinstance(value, float) and _VALUES[0] <= value <= _VALUES[1]
    )  # fmt: skip


def _known(rows: Iterable[_Row]) -> dict[PlacePair, KnownLink]:
    """Estimate the links from valid rows, which are sorted by time, the latest first."""
    samples: defaultdict[PlacePair, list[LinkSample]] = defaultdict(list)
    methods: dict[PlacePair, str] = {}
    for source, destination, at_s, size_bytes, value, method in rows:
        pair = PlacePair(source, destination)
        methods.setdefault(pair, method)
        samples[pair].append(LinkSample(at_s, size_bytes, value))
    return {pair: _link(found, methods[pair]) for pair, found in samples.items()}


def _link(samples: Sequence[LinkSample], method: str) -> KnownLink:
    latencies, bandwidths = (kind[:WINDOW] for kind in split(samples))
    return KnownLink(
        bandwidth_of(bandwidths), latency_of(latencies), len(latencies) + len(bandwidths),
        samples[0].at_s, method,
    )  # fmt: skip


def add_links(file: HistoryFile, state: RunState) -> None:
    """Add the copies of a run to the history file. Does nothing if the run did not read the links
    of a history at its start. Call this at the end of a session of the run."""
    if state.link_history is None:
        return
    pairs = {(s, d): pair for s, d, pair in pairs_of([site.spec for site in state.sites])}
    found = state.network.samples.items()
    write_links(
        file,
        {
            pairs[ends]: ([*samples.latencies(), *samples.bandwidths()], samples.method)
            for ends, samples in found
            if ends in pairs
        },
    )


def write_links(
    file: HistoryFile,
    links: Mapping[PlacePair, tuple[Sequence[LinkSample], str]],
    *,
    anew: bool = False,
) -> None:
    """Add copies to the history file, and the transfer method of each link. ``anew``: first remove
    the earlier copies of these links. Warns if the file cannot be written."""
    rows = [
        (*pair, sample.at_s, sample.size_bytes, sample.value, method)
        for pair, (samples, method) in links.items()
        for sample in samples
        if _VALUES[0] <= sample.value <= _VALUES[1]
    ]
    if not rows:
        return

    def write(db: sqlite3.Connection) -> None:
        if anew:
            db.executemany("DELETE FROM link_copies WHERE source = ? AND destination = ?", links)
        db.executemany("INSERT OR REPLACE INTO link_copies VALUES (?, ?, ?, ?, ?, ?)", rows)
        db.execute(_PRUNE, (LATENCY_BYTES,))
        db.execute(_BOUND)

    file.write(write, None)
