"""Measures links by copies as runs make them, and writes the results into the catalog."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from wfrun.engine.errors import InvalidError, TransientError, WfrunError
from wfrun.engine.exchange import Content, Receipt
from wfrun.engine.files.link_samples import LinkSample, LinkSamples, bandwidth_of, latency_of
from wfrun.engine.model import ORIGIN, LinkSpec, SiteSpec
from wfrun.parsers.catalog.read import ORIGIN_NAME
from wfrun.parsers.catalog.set_links import as_written, not_editable, with_links
from wfrun.runners.admin.catalog_file import rewrite
from wfrun.runners.run.sites.make_sites import make_transfer
from wfrun.sites.catalog import parse_catalog
from wfrun.sites.remote.connection import Connection

_SMALL_BYTES = 1000
"""Size of the small files whose copies show the latency, in bytes."""
_ROUNDS = 3
"""Number of copies of small files in each direction. Their median is the latency."""
_FIRST_BYTES = 1 << 17
"""Size of the first file that is copied to measure the bandwidth, in bytes. Further files are
larger."""
_MAX_BYTES = 16 << 20
"""Maximum size of a file that is copied to measure the bandwidth, in bytes."""
_COPY_S = 0.4
"""Intended duration of a copy, in seconds. The size of a file follows from the rate of the previous
copy."""
_ENOUGH_S = 0.2
"""Minimum duration of a copy that is long enough to show the bandwidth, in seconds."""
_CLOCK_S = 1e-6
"""Resolution of clocks in seconds. No copy counts as shorter."""
_LARGE_ROUNDS = 3
"""Number of copies that are long enough to show the bandwidth."""
_GROWTH = 16
"""Factor between the sizes of successive files while the start-up of the transfer client takes most
of the time of a copy."""
_DIRECTION_S = 5.0
"""Timeout of all copies in one direction, in seconds. Copies that ended before the timeout
count."""
_NOISE = 'head -c "$1" /dev/urandom >"$2"'
"""Shell command that makes a file of random bytes, which compression on the way does not shrink."""


class MeasuredLink(NamedTuple):
    """The two directions of the link between this machine and a site. The latency is the time that
    a copy takes in addition to the transfer of its bytes."""

    up: LinkSpec
    down: LinkSpec

    def __str__(self) -> str:
        up, down = (as_written(way).bandwidth_bytes_per_s or 0 for way in self)
        latency_s = max(way.latency_s for way in self)
        return (
            f"{up / 1e6:g} MB/s up, {down / 1e6:g} MB/s down, "
            f"{latency_s * 1e3:.3g} ms more for each file"
        )


class Measured(NamedTuple):
    """One direction between two places, as measured by copies."""

    link: LinkSpec
    method: str
    """The transfer method of the copies."""
    samples: list[LinkSample]


class SiteDirectory:
    """A directory at a connected site; implements ``ConnectedSite``."""

    def __init__(self, spec: SiteSpec, connection: Connection, directory: str) -> None:
        self.spec = spec
        self.connection = connection
        self.directory = directory

    def store_path(self, name: str) -> str:
        return f"{self.directory}/files/{name}"


async def measure_link(spec: SiteSpec, connection: Connection, directory: str) -> MeasuredLink:
    """Measure both directions between this machine and a site. Raises the errors of
    ``measure_ways``."""
    up, down = await measure_ways(spec, connection, directory)
    return MeasuredLink(up.link, down.link)


async def measure_ways(
    spec: SiteSpec, connection: Connection, directory: str
) -> tuple[Measured, Measured]:
    """Measure the direction to a site, then the direction back, in ``directory``/files at the site.
    Raises the errors of `LinkMeasurement.measure`, and OSError if no directory for the files can be
    made on this machine."""
    with tempfile.TemporaryDirectory(prefix="wfrun-link-") as folder:
        site = SiteDirectory(spec, connection, directory)
        measurement = LinkMeasurement([site], (), Path(folder))
        return await measurement.measure(ORIGIN, 0), await measurement.measure(0, ORIGIN)


class LinkMeasurement:
    """Measures links by copies of new files between this machine and sites, as runs make them."""

    def __init__(
        self, sites: Sequence[SiteDirectory], links: Sequence[LinkSpec], folder: Path
    ) -> None:
        """``links`` are those of the catalog. ``folder`` is a folder on this machine for the
        files."""
        self._sites = sites
        self._folder = folder
        self._transfer = make_transfer(sites, links, folder, checksums=False)

    async def measure(self, source: int, destination: int) -> Measured:
        """Measure one direction between two places: copy new files for about a second, at most for
        five. A place is the number of a site, or ORIGIN. Nothing else should use the network during
        the measurement.

        Raises TransientError if a connection fails, if no large file is copied within the five
        seconds, or if the command that makes the files fails at a site. Raises InfeasibleError if
        the destination cannot take the files, and OSError if this machine cannot make them.
        """
        copies = _Copies(self, source, destination)
        try:
            bandwidth, latency_s = await copies.measure()
        finally:
            await self._remove(source, copies.names)
            await self._remove(destination, [f"{name}-copy" for name in copies.names])
        link = LinkSpec(self.name(source), self.name(destination), bandwidth, latency_s)
        shown = [*copies.shown.latencies(), *copies.shown.bandwidths()]
        return Measured(link, copies.shown.method, shown)

    def name(self, place: int) -> str:
        """The name of a place in the catalog."""
        return ORIGIN_NAME if place == ORIGIN else self._sites[place].spec.name

    def _path(self, place: int, name: str) -> str:
        """The path of a file as `Transfer.copy` expects it."""
        return str(self._folder / name) if place == ORIGIN else name

    async def make(self, place: int, name: str, size_bytes: int) -> None:
        """Make a file of random bytes, which compression on the way does not shrink. Raises
        TransientError if a site cannot make it."""
        path = self._path(place, name)
        if place == ORIGIN:
            await asyncio.to_thread(Path(path).write_bytes, os.urandom(size_bytes))
            return
        site = self._sites[place]
        host = await site.connection.host()
        there = site.store_path(path)
        made = await host.run(["sh", "-c", _NOISE, "sh", str(size_bytes), there])
        if made.exit_code != 0:
            said = made.errors.decode("utf-8", "replace").strip()[-300:]
            raise TransientError(f"a file of {size_bytes:,} bytes cannot be made there: {said}")

    async def _remove(self, place: int, names: Sequence[str]) -> None:
        """Remove files at a place. Otherwise the files of many links would fill a quota."""
        if place == ORIGIN:
            for name in names:
                (self._folder / name).unlink(missing_ok=True)
            return
        site = self._sites[place]
        with contextlib.suppress(WfrunError):  # the caller removes the directory
            await (await site.connection.host()).remove([site.store_path(name) for name in names])

    async def copy(self, source: int, destination: int, name: str, size_bytes: int) -> Receipt:
        """Copy the file ``name`` to ``name``-copy at the destination."""
        to = self._path(destination, f"{name}-copy")
        content = Content(size_bytes)
        return await self._transfer.copy(source, self._path(source, name), destination, to, content)


class _Copies:
    """Copies in one direction, from which its bandwidth and latency are computed."""

    def __init__(self, places: LinkMeasurement, source: int, destination: int) -> None:
        self._places = places
        self._ends = source, destination
        self._latency_s = 0.0
        self._last_bytes_per_s: float | None = None
        self.shown = LinkSamples()
        self.names: list[str] = []
        """Names of the copied files."""

    async def measure(self) -> tuple[float, float]:
        """Copy files. Returns the bandwidth in bytes per second and the latency in seconds. Raises
        TransientError if no large file is copied before the timeout."""
        try:
            await asyncio.wait_for(self._copy_all(), _DIRECTION_S)
        except asyncio.TimeoutError:
            if self._last_bytes_per_s is None:
                size = f"a file of {_FIRST_BYTES >> 10} KiB"
                raise TransientError(f"{size} is not copied in {_DIRECTION_S:.0f} s") from None
        assert self._last_bytes_per_s is not None
        # As runs do it, of which the catalog's figures are the beginning.
        return bandwidth_of(self.shown.bandwidths()) or self._last_bytes_per_s, self._latency_s

    async def _copy_all(self) -> None:
        for _ in range(_ROUNDS):
            await self._copy_s(_SMALL_BYTES)
        self._latency_s = latency_of(self.shown.latencies()) or 0.0
        size_bytes, first_s, left = _FIRST_BYTES, 0.0, _LARGE_ROUNDS
        while left:
            took_s = await self._copy_s(size_bytes)
            # Latency varies: a copy takes at least half of its time for its bytes.
            rate = size_bytes / max(took_s - self._latency_s, took_s / 2, _CLOCK_S)
            self._last_bytes_per_s = rate
            is_hidden = took_s < 1.5 * first_s
            if size_bytes >= _MAX_BYTES or (first_s and not is_hidden and took_s >= _ENOUGH_S):
                left -= 1
                continue
            factor = _GROWTH if is_hidden else 2
            size_bytes = min(max(factor * size_bytes, int(rate * _COPY_S)), _MAX_BYTES)
            first_s = first_s or took_s

    async def _copy_s(self, size_bytes: int) -> float:
        """Make and copy a new file. Returns the duration of the copy in seconds."""
        name = f"link-{size_bytes}-{secrets.token_hex(4)}"
        self.names.append(name)
        await self._places.make(self._ends[0], name, size_bytes)
        receipt = await self._places.copy(*self._ends, name, size_bytes)
        self.shown.add(time.time(), receipt.elapsed_s, size_bytes, receipt.method)
        return receipt.elapsed_s


def _measured(listed: LinkSpec, way: LinkSpec) -> LinkSpec:
    """Return the link ``listed`` of a catalog with the measured figures of ``way``. Its other
    fields are kept."""
    figures = as_written(way)
    return replace(
        listed,
        bandwidth_bytes_per_s=figures.bandwidth_bytes_per_s,
        latency_s=figures.latency_s,
    )


def write_links(path: Path, links: Sequence[MeasuredLink]) -> None:
    """Write measured links into a catalog, in place of its links between the same places. Comments,
    order and all other lines of the catalog stay.

    Raises InvalidError, and leaves the catalog unchanged, if it cannot be read, written or edited
    safely. In the last case the error has the lines to write by hand.
    """
    try:
        before = path.read_bytes()
    except OSError as error:
        raise InvalidError(f"cannot be read: {error.strerror}", source=str(path)) from error
    old = parse_catalog(before, path)
    listed = {(link.source, link.destination): link for link in old.links}
    measured = [
        _measured(listed.get((way.source, way.destination), way), way)
        for link in links
        for way in link
    ]
    after = with_links(before.decode(), measured, str(path)).encode()
    wanted = {(link.source, link.destination): link for link in (*old.links, *measured)}
    try:
        new = parse_catalog(after, path)
        found = {(link.source, link.destination): link for link in new.links}
        is_right = (new.sites, found) == (old.sites, wanted)
    except InvalidError:
        is_right = False
    if not is_right:
        raise not_editable(measured, str(path), "the change would reach other lines")
    rewrite(path, before, after)
