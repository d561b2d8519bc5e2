"""Links, measured by copies as runs make them, and written into the catalog."""

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
"""Size of the files whose copies show the latency."""
_ROUNDS = 3
"""Copies of them in each direction; their median counts."""
_FIRST_BYTES = 1 << 17
"""Size of the first copied file, in bytes; each further file is larger."""
_MAX_BYTES = 16 << 20
"""Maximum size of such a file."""
_COPY_S = 0.4
"""Intended duration of a copy, in seconds. The size of each further file follows from the copies
before."""
_ENOUGH_S = 0.2
"""Duration of a copy that shows the bandwidth."""
_CLOCK_S = 1e-6
"""Resolution of clocks: no copy is taken for shorter."""
_LARGE_ROUNDS = 3
"""Copies that show it."""
_GROWTH = 16
"""Factor between the sizes of successive files while the start of the transfer client hides the
time that the bytes take."""
_DIRECTION_S = 5.0
"""Timeout of all copies in one direction, in seconds. Copies that ended before it count."""
_NOISE = 'head -c "$1" /dev/urandom >"$2"'
"""Makes a file that no compression on the way shrinks."""


class MeasuredLink(NamedTuple):
    """The links from this machine to a site and back. A latency is that of a whole copy: the time
    that each file takes whatever its size."""

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
    """One way between two places, as copies have shown it."""

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
    """The ways between this machine and a site. Raises the errors of ``measure_ways``."""
    up, down = await measure_ways(spec, connection, directory)
    return MeasuredLink(up.link, down.link)


async def measure_ways(
    spec: SiteSpec, connection: Connection, directory: str
) -> tuple[Measured, Measured]:
    """Measure the ways to a site and back, in ``directory``/files there. Raises the errors of
    `LinkMeasurement.measure`, and OSError if this machine has no directory for the files."""
    with tempfile.TemporaryDirectory(prefix="wfrun-link-") as folder:
        site = SiteDirectory(spec, connection, directory)
        measurement = LinkMeasurement([site], (), Path(folder))
        return await measurement.measure(ORIGIN, 0), await measurement.measure(0, ORIGIN)


class LinkMeasurement:
    """Copies of new files between this machine and sites, as runs make them."""

    def __init__(
        self, sites: Sequence[SiteDirectory], links: Sequence[LinkSpec], folder: Path
    ) -> None:
        """``links`` are those of the catalog; ``folder`` takes the files of this machine."""
        self._sites = sites
        self._folder = folder
        self._transfer = make_transfer(sites, links, folder, checksums=False)

    async def measure(self, source: int, destination: int) -> Measured:
        """Copy files from one place to another for about a second, at most five. Places are the
        numbers of the sites, and ORIGIN. Nothing else should use the network meanwhile.

        Raises InfeasibleError if an end does not take the files, TransientError if a connection
        fails or stalls, or if a site has no command that makes a file.
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
        """As `Transfer.copy` takes it."""
        return str(self._folder / name) if place == ORIGIN else name

    async def make(self, place: int, name: str, size_bytes: int) -> None:
        """Make a file that no compression on the way shrinks."""
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
        """Remove files: those of many links would fill a quota."""
        if place == ORIGIN:
            for name in names:
                (self._folder / name).unlink(missing_ok=True)
            return
        site = self._sites[place]
        with contextlib.suppress(WfrunError):  # the caller removes the directory
            await (await site.connection.host()).remove([site.store_path(name) for name in names])

    async def copy(self, source: int, destination: int, name: str, size_bytes: int) -> Receipt:
        """Copy the file."""
        to = self._path(destination, f"{name}-copy")
        content = Content(size_bytes)
        return await self._transfer.copy(source, self._path(source, name), destination, to, content)


class _Copies:
    """Copies in one direction, which show its bandwidth and latency."""

    def __init__(self, places: LinkMeasurement, source: int, destination: int) -> None:
        self._places = places
        self._ends = source, destination
        self._latency_s = 0.0
        self._last_bytes_per_s: float | None = None
        self.shown = LinkSamples()
        self.names: list[str] = []
        """Of the files."""

    async def measure(self) -> tuple[float, float]:
        """Bandwidth in bytes per second, latency in seconds. Raises TransientError if no file is
        copied in time."""
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
        """Copy a new file. Returns the duration in seconds."""
        name = f"link-{size_bytes}-{secrets.token_hex(4)}"
        self.names.append(name)
        await self._places.make(self._ends[0], name, size_bytes)
        receipt = await self._places.copy(*self._ends, name, size_bytes)
        self.shown.add(time.time(), receipt.elapsed_s, size_bytes, receipt.method)
        return receipt.elapsed_s


def _measured(listed: LinkSpec, way: LinkSpec) -> LinkSpec:
    """``listed``, a link of a catalog, with the measured figures of ``way``. Its other fields are
    kept."""
    figures = as_written(way)
    return replace(
        listed,
        bandwidth_bytes_per_s=figures.bandwidth_bytes_per_s,
        latency_s=figures.latency_s,
    )


def write_links(path: Path, links: Sequence[MeasuredLink]) -> None:
    """Write measured links into a catalog, in place of those between the same places. Its comments,
    its order and all other lines stay.

    Raises InvalidError, with the lines to write by hand, if they cannot be edited safely, and if
    the catalog cannot be read or written; then it stays as it is.
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
