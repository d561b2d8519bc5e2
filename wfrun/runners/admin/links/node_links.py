"""``wfrun sites links --nodes``: the links between the nodes of sites, measured by jobs over two
nodes, and written into the catalog."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Catalog, SiteSpec
from wfrun.runners.admin.catalog_file import rewrite
from wfrun.runners.admin.links.pair_jobs import Pair, run_on_pairs
from wfrun.sites.catalog import parse_catalog

_Figure = Annotated[float, msgspec.Meta(gt=0, lt=1e15)]
_SECTION = re.compile(r"^node_links:.*\n(?:(?:[ \t-].*)?\n)*", re.MULTILINE)


class _Result(msgspec.Struct):
    """The figures that a job has measured."""

    latency_s: _Figure | None = None
    bandwidth_bytes_per_s: _Figure | None = None
    error: Annotated[str, msgspec.Meta(max_length=10_000)] = ""


class MeasuredNodes(NamedTuple):
    """The measured link between nodes of two sites, or between two nodes of one site."""

    ends: tuple[str, str]
    latency_s: float | None
    """Latency of a message of 64 kB in one direction, in seconds."""
    bandwidth_bytes_per_s: float | None
    error: str
    """Why the link was not measured; empty if it was."""

    @property
    def line(self) -> str:
        """The entry of the link in a catalog."""
        one, other = self.ends
        where = f"within: {one}" if one == other else f"between: [{one}, {other}]"
        latency_s, bandwidth = self.latency_s or 0.0, self.bandwidth_bytes_per_s or 0.0
        return (
            f"{{{where}, latency: {latency_s * 1e3:.4g} ms, bandwidth: {bandwidth / 1e6:.4g} MB/s}}"
        )


def measure_nodes(catalog: Catalog) -> list[MeasuredNodes]:
    """Measure all links between nodes, one after another. Raises the errors of a run; a link whose
    job failed has an ``error`` instead."""
    names = [site.name for site in catalog.sites]
    pairs = list(combinations_with_replacement(names, 2))
    found = asyncio.run(run_on_pairs(catalog, pairs, one_by_one=True))
    return [_read(pair, written) for pair, written in zip(pairs, found, strict=True)]


def _read(pair: Pair, written: bytes | None) -> MeasuredNodes:
    try:
        found = msgspec.json.decode(written or b"", type=_Result)
    except msgspec.MsgspecError:
        found = _Result(error="its job has failed")
    figures = found.latency_s, found.bandwidth_bytes_per_s
    return MeasuredNodes(pair, *figures, "" if None not in figures else found.error)


def write_node_links(path: Path, links: Sequence[MeasuredNodes]) -> None:
    """Write measured links as ``node_links`` of a catalog, in place of all ``node_links`` that it
    has. All other lines stay. If the catalog cannot be edited safely, leave it unchanged and raise
    InvalidError, with the lines to write by hand."""
    before = path.read_bytes()
    lines = "node_links:\n" + "".join(f"  - {link.line}\n" for link in links if not link.error)
    text = _SECTION.sub("", before.decode())
    after = (text if text.endswith("\n") else f"{text}\n") + lines
    old = parse_catalog(before, path)
    try:
        new = parse_catalog(after.encode(), path)
        is_right = _bare(new) == _bare(old) and new.links == old.links
    except InvalidError:
        is_right = False
    if not is_right:
        hint = f"write these lines by hand:\n{lines}"
        raise InvalidError("its 'node_links' cannot be edited", source=str(path), hint=hint)
    rewrite(path, before, after.encode())


def _bare(catalog: Catalog) -> list[SiteSpec]:
    return [msgspec.structs.replace(site, node_links=()) for site in catalog.sites]
