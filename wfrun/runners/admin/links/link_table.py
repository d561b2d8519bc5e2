"""``wfrun sites links``: the figures of the links between all sites, with the source of each
figure."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import msgspec

from wfrun.engine.errors import WfrunError
from wfrun.engine.explain.visible import message_block
from wfrun.engine.files.link_samples import MIN_COPIES, LinkSample, bandwidth_of, latency_of, split
from wfrun.engine.files.network import DEFAULT_BANDWIDTH_BYTES_PER_S
from wfrun.engine.model import ORIGIN, Catalog, SiteSpec
from wfrun.parsers.catalog.access import DEFAULT_DIRECTORY
from wfrun.parsers.catalog.read import ORIGIN_NAME
from wfrun.runners.admin.init import connected
from wfrun.runners.admin.links.links import LinkMeasurement, Measured, SiteDirectory
from wfrun.runners.display.ascii_json import print_json
from wfrun.runners.display.console import make_console
from wfrun.runners.display.record_table import RecordColumn, number_column, record_table
from wfrun.runners.run.history.history_file import HistoryFile
from wfrun.runners.run.history.link_history import (
    KnownLink,
    PlacePair,
    by_names,
    links_through_origin,
    load_links,
    pairs_of,
    write_links,
)
from wfrun.sites.remote.files.directory import make_directory
from wfrun.sites.remote.transports.asyncssh_login import Prompter

CONNECT_S = 60.0
"""Timeout of the login to a site together with the creation of a directory there, in seconds."""


class LinkNow(msgspec.Struct, frozen=True, kw_only=True):
    """A link, with the figures that a run would assume if it started now. None: unknown."""

    source: str
    destination: str
    bandwidth_bytes_per_s: float | None = None
    latency_s: float | None = None
    method: str | None = None
    """The transfer method of the latest copy."""
    known_from: tuple[str, ...] = ()
    """Sources of the figures: ``measured``, ``history``, ``catalog``, ``through origin`` (the links
    to this machine) or ``assumed`` (the default). Empty: no figure is known, because no network is
    between the two places."""
    copies: int = 0
    """Number of copies, in earlier runs or in a measurement, from which the figures were
    learned."""
    latest_s: float | None = None
    """End of the latest of these copies, in seconds since the epoch."""
    problem: str = ""
    """Why the measurement failed; empty if it succeeded or was not requested."""


class FoundLink(NamedTuple):
    """Results of measurements, by source and destination: the measured figures, or the reason why
    there are none."""

    ways: Mapping[tuple[str, str], Measured]
    problems: Mapping[tuple[str, str], str]


async def show_links(
    catalog: Catalog,
    history: HistoryFile | None,
    prompter: Prompter | None,
    *,
    measures: bool,
    as_json: bool,
    say: Callable[[str], None],
) -> bool:
    """Print all links of a catalog. With ``measures``, measure them first. The result for a link
    replaces its history as soon as the link is measured, so that an interrupt loses no earlier
    result. Returns whether any link could not be measured."""

    def measured(way: Measured) -> None:
        if history is not None:
            keep(history, catalog.sites, [way])

    found = await _measure(catalog, prompter, say, measured) if measures else FoundLink({}, {})
    known = load_links(history) if history is not None else None
    rows = links_now(catalog, known or {}, found)
    if as_json:
        print_json(rows)
    else:
        _print(rows)
    return bool(found.problems)


def keep(history: HistoryFile, sites: Sequence[SiteSpec], measured: Sequence[Measured]) -> None:
    """Replace the history of the measured links by the results of the measurement."""
    names = {ORIGIN: ORIGIN_NAME, **{n: spec.name for n, spec in enumerate(sites)}}
    pairs = {(names[s], names[d]): pair for s, d, pair in pairs_of(sites)}
    found = {(way.link.source, way.link.destination): way for way in measured}
    links = {
        pairs[ends]: (_enough(way.samples), way.method)
        for ends, way in found.items()
        if ends in pairs
    }
    write_links(history, links, anew=True)


def _enough(samples: Sequence[LinkSample]) -> list[LinkSample]:
    """Repeat the last sample of each kind (latency, bandwidth) until there are ``MIN_COPIES``. The
    measurement of a slow link ends early, with fewer samples. Without repetition the link would
    count as unknown, and unknown links look fast."""
    found = list(samples)
    for kind in split(samples):
        missing = range(1, MIN_COPIES - len(kind) + 1) if kind else ()
        found += [kind[-1]._replace(at_s=kind[-1].at_s - number * 1e-3) for number in missing]
    return found


def links_now(
    catalog: Catalog, history: Mapping[PlacePair, KnownLink], found: FoundLink
) -> list[LinkNow]:
    """Return a row for every ordered pair of places. Links from this machine come first."""
    names = [ORIGIN_NAME, *(spec.name for spec in catalog.sites)]
    index = {name: place for place, name in enumerate(names, ORIGIN)}
    apart = {(names[s + 1], names[d + 1]) for s, d, _ in pairs_of(catalog.sites)}
    known = dict(by_names(history, catalog.sites))
    through_origin = links_through_origin(history, catalog)
    stated = {(link.source, link.destination): link for link in catalog.links}
    rows = []
    for ends in sorted(permutations(names, 2), key=lambda ends: [index[name] for name in ends]):
        link, learned, way = stated.get(ends), known.get(ends), found.ways.get(ends)
        row = LinkNow(source=ends[0], destination=ends[1])
        if link is not None and link.has_speed:
            row = _with(row, "catalog", link.bandwidth_bytes_per_s, link.latency_s)
        if learned is not None:
            row = _with(row, "history", learned.bandwidth_bytes_per_s, learned.latency_s)
            row = _noted(row, learned.method, learned.copies, learned.at_s)
        if way is not None:  # The figures that a history of these copies gives.
            small, large = split(_enough(way.samples))
            row = _with(row, "measured", bandwidth_of(large), latency_of(small))
            row = _noted(row, way.method, len(way.samples), way.samples[-1].at_s)
        if not row.known_from and (relayed := through_origin.get(ends)) is not None:
            row = _with(
                row, "through origin", relayed.bandwidth_bytes_per_s, relayed.latency_s
            )  # fmt: skip
        if not row.known_from and ends in apart:
            row = _with(row, "assumed", DEFAULT_BANDWIDTH_BYTES_PER_S, None)
        rows.append(msgspec.structs.replace(row, problem=found.problems.get(ends, "")))
    return rows


def _noted(row: LinkNow, method: str, copies: int, at_s: float) -> LinkNow:
    return msgspec.structs.replace(row, method=method or None, copies=copies, latest_s=at_s)


def _with(
    row: LinkNow, known_from: str, bandwidth: float | None, latency_s: float | None
) -> LinkNow:
    """Return the row with the given figures. Where a figure is None, the row keeps its own."""
    if bandwidth is None and latency_s is None:
        return row
    replaces_all = bandwidth is not None and latency_s is not None
    return msgspec.structs.replace(
        row,
        bandwidth_bytes_per_s=row.bandwidth_bytes_per_s if bandwidth is None else bandwidth,
        latency_s=row.latency_s if latency_s is None else latency_s,
        known_from=(known_from,) if replaces_all else (*row.known_from, known_from),
    )


# Measuring


async def _measure(
    catalog: Catalog,
    prompter: Prompter | None,
    say: Callable[[str], None],
    measured: Callable[[Measured], None],
) -> FoundLink:
    """Measure the links between this machine and the sites that can be reached, and between these
    sites. They are measured one after another, because all share this machine's network.
    ``measured`` is called after each successful measurement."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wfrun-link-")))
        specs = [spec for spec in catalog.sites if spec.access is not None]
        opened = await asyncio.gather(*(_open(stack, spec, prompter) for spec in specs))
        sites = [site for site in opened if isinstance(site, SiteDirectory)]
        closed = {
            spec.name: reason
            for spec, reason in zip(specs, opened, strict=True)
            if isinstance(reason, str)
        }
        ways: dict[tuple[str, str], Measured] = {}
        problems = {}
        names = [ORIGIN_NAME, *(spec.name for spec in specs)]
        for ends in permutations(names, 2):
            reasons = [closed[name] for name in ends if name in closed]
            if reasons:
                problems[ends] = reasons[0]
        measurement = LinkMeasurement(sites, catalog.links, folder)
        pairs = list(pairs_of([site.spec for site in sites]))
        say(f"measuring {len(pairs)} links, one after another: about {2 * len(pairs)} s")
        with make_console(stderr=True).status("") as status:
            for number, (source, destination, _) in enumerate(pairs, 1):
                ends = (measurement.name(source), measurement.name(destination))
                status.update(f"{ends[0]} to {ends[1]}, {number} of {len(pairs)}")
                try:
                    ways[ends] = await measurement.measure(source, destination)
                    measured(ways[ends])
                except (WfrunError, OSError) as error:
                    problems[ends] = str(error)
        return FoundLink(ways, problems)


async def _open(
    stack: AsyncExitStack, spec: SiteSpec, prompter: Prompter | None
) -> SiteDirectory | str:
    """Make a directory at the site, which is removed when ``stack`` closes. Returns the error
    message if that fails."""
    try:
        return await asyncio.wait_for(
            stack.enter_async_context(_directory(spec, prompter)), CONNECT_S
        )
    except asyncio.TimeoutError:
        return f"site {spec.name} did not answer in {CONNECT_S:.0f} s"
    except WfrunError as error:
        return str(error)


@asynccontextmanager
async def _directory(spec: SiteSpec, prompter: Prompter | None) -> AsyncIterator[SiteDirectory]:
    assert spec.access is not None
    async with connected(spec.access, prompter) as (connection, host):
        written = spec.directory or DEFAULT_DIRECTORY
        name = f"wfrun-links-{secrets.token_hex(8)}"
        directory = await make_directory(host, spec.name, written, name)
        try:
            yield SiteDirectory(spec, connection, directory)
        finally:
            with suppress(WfrunError):
                await (await connection.host()).remove([directory])


# The table


def _print(rows: Sequence[LinkNow]) -> None:
    console = make_console()
    now_s = time.time()
    columns = (
        RecordColumn("from", "source", wraps=True),
        RecordColumn("to", "destination", wraps=True),
        number_column("latency", "latency_s", "{:.3g} ms", 1e-3),
        number_column("MB/s", "bandwidth_bytes_per_s", "{:.3g}", 1e6),
        RecordColumn("method", lambda row: row.method or None),
        RecordColumn("known from", lambda row: ", ".join(_known_from(row)) or "same host",
                     wraps=True),
        RecordColumn("latest", "latest_s", lambda latest_s: ago(now_s - latest_s)),
    )  # fmt: skip
    console.print(record_table(rows, columns))
    for text in _problems(rows):
        console.print(message_block(text), soft_wrap=True)


def _problems(rows: Sequence[LinkNow]) -> Iterator[str]:
    """Lines that say why links were not measured. A site that cannot be reached gets one line for
    all its links."""
    links: dict[str, list[LinkNow]] = {}
    for row in rows:
        if row.problem:
            links.setdefault(row.problem, []).append(row)
    for reason, found in links.items():
        common = set.intersection(*({row.source, row.destination} for row in found))
        common -= {ORIGIN_NAME} if len(common) > 1 else set()
        if len(common) == 1:
            yield f"{len(found)} links of {common.pop()} were not measured: {reason}"
            continue
        for row in found:
            yield f"{row.source} to {row.destination} was not measured: {reason}"


def _known_from(row: LinkNow) -> list[str]:
    return [f"{row.copies} copies" if word == "history" else word for word in row.known_from]


def ago(seconds: float) -> str:
    """``now``, ``5 min ago``, ``3 h ago`` or ``12 d ago``."""
    for unit_s, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit_s:
            return f"{int(seconds // unit_s)} {unit} ago"
    return "now"
