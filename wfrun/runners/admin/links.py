"""The link of a site: measured by copies as runs make them, and written into the catalog."""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from wfrun.engine.errors import InvalidError, TransientError
from wfrun.engine.exchange import Content
from wfrun.engine.model import LinkSpec, SiteSpec
from wfrun.parsers.catalog.read import ORIGIN_NAME
from wfrun.parsers.catalog.set_links import as_written, not_editable, with_links
from wfrun.runners.admin.catalog_file import rewrite
from wfrun.sites.catalog import parse_catalog
from wfrun.sites.remote.connection import Connection
from wfrun.sites.transfers.endpoint import Endpoint
from wfrun.sites.transfers.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.method import Location
from wfrun.sites.transfers.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.stream import Stream

_SMALL_BYTES = 1000
"""Size of the files whose copies show the latency."""
_ROUNDS = 3
"""Copies of them in each direction; their median counts."""
_FIRST_BYTES = 1 << 17
"""Size of the first file whose copy shows the bandwidth; each further one is larger."""
_MAX_BYTES = 16 << 20
"""Maximum size of such a file."""
_COPY_S = 0.4
"""Intended duration of a copy: the size of each file follows from the copy before."""
_ENOUGH_S = 0.2
"""Duration of a copy that shows the bandwidth."""
_CLOCK_S = 1e-6
"""Resolution of clocks: no copy is taken for shorter."""
_LARGE_ROUNDS = 2
"""Copies that show it. The faster one counts: pauses only make a link look slower."""
_DIRECTION_S = 5.0
"""Timeout of all copies in one direction. Those that ended before it count."""
_NOISE = 'head -c "$1" /dev/urandom >"$2"'
"""Makes a file that no compression on the way shrinks."""


class Link(NamedTuple):
    """The ways from this machine to a site and back. Latencies are those of whole copies: the time
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


async def measure_link(spec: SiteSpec, connection: Connection, directory: str) -> Link:
    """Copy files between this machine and ``directory``/files at the site, as runs do, for about a
    second in each direction. Nothing else should use the network meanwhile.

    Raises InfeasibleError if an end does not take the files, TransientError if the connection fails
    or stalls, or if the site has no command that makes a file, OSError if this machine has no
    directory for them.
    """
    site = RemoteEndpoint(0, SiteDirectory(spec, connection, f"{directory}/files"))
    with tempfile.TemporaryDirectory(prefix="wfrun-link-") as folder:
        here = LocalEndpoint(store=Path(folder))

        async def make_here(name: str, size_bytes: int) -> None:
            await asyncio.to_thread(Path(folder, name).write_bytes, os.urandom(size_bytes))

        async def make_there(name: str, size_bytes: int) -> None:
            host = await connection.host()
            made = await host.run(["sh", "-c", _NOISE, "sh", str(size_bytes), site.path(name)])
            if made.exit_code != 0:
                said = made.errors.decode("utf-8", "replace").strip()[-300:]
                raise TransientError(f"a file of {size_bytes:,} bytes cannot be made there: {said}")

        up = await _Copies(here, site, make_here).measure()
        down = await _Copies(site, here, make_there).measure()
    return Link(LinkSpec(ORIGIN_NAME, spec.name, *up), LinkSpec(spec.name, ORIGIN_NAME, *down))


class SiteDirectory:
    """Implements ``ConnectedSite``."""

    def __init__(self, spec: SiteSpec, connection: Connection, directory: str) -> None:
        self.spec = spec
        self.connection = connection
        self.directory = directory

    def store_path(self, name: str) -> str:
        return f"{self.directory}/{name}"


class _Copies:
    """Copies in one direction, which show its bandwidth and latency."""

    def __init__(
        self,
        source: Endpoint,
        destination: Endpoint,
        make: Callable[[str, int], Awaitable[None]],
    ) -> None:
        """``make`` makes a file of this name and size at the source."""
        self._source = source
        self._destination = destination
        self._make = make
        self._latency_s = 0.0
        self._bytes_per_s: float | None = None

    async def measure(self) -> tuple[float, float]:
        """Bandwidth in bytes per second, latency in seconds. Raises TransientError if no file is
        copied in time."""
        try:
            await asyncio.wait_for(self._copy_all(), _DIRECTION_S)
        except asyncio.TimeoutError:
            if self._bytes_per_s is None:
                size = f"a file of {_FIRST_BYTES >> 10} KiB"
                raise TransientError(f"{size} is not copied in {_DIRECTION_S:.0f} s") from None
        assert self._bytes_per_s is not None
        return self._bytes_per_s, self._latency_s

    async def _copy_all(self) -> None:
        self._latency_s = median([await self._copy_s(_SMALL_BYTES) for _ in range(_ROUNDS)])
        size_bytes, shown = _FIRST_BYTES, list[float]()
        while len(shown) < _LARGE_ROUNDS:
            took_s = await self._copy_s(size_bytes)
            # Latency varies: a copy takes at least half of its time for its bytes.
            rate = size_bytes / max(took_s - self._latency_s, took_s / 2, _CLOCK_S)
            if took_s >= _ENOUGH_S or size_bytes >= _MAX_BYTES:
                shown.append(rate)
            else:
                size_bytes = min(max(2 * size_bytes, int(rate * _COPY_S)), _MAX_BYTES)
            self._bytes_per_s = max(shown, default=rate)

    async def _copy_s(self, size_bytes: int) -> float:
        """Copy a new file. Returns the duration in seconds."""
        name = f"link-{size_bytes}-{secrets.token_hex(4)}"
        await self._make(name, size_bytes)
        ends = Location(self._source, name), Location(self._destination, f"{name}-copy")
        receipt = await Stream().copy(*ends, name, Content(size_bytes))
        return receipt.elapsed_s


def write_links(path: Path, links: Sequence[Link]) -> None:
    """Write measured links into a catalog, in place of those between the same places. Its comments,
    its order and all other lines stay.

    Raises InvalidError, with the lines to write by hand, if they cannot be edited safely, and if
    the catalog cannot be read or written; then it stays as it is.
    """
    measured = [as_written(way) for link in links for way in link]
    try:
        before = path.read_bytes()
    except OSError as error:
        raise InvalidError(f"cannot be read: {error.strerror}", source=str(path)) from error
    old = parse_catalog(before, path)
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
