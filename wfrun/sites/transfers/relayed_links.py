"""Links between sites whose copies pass through this machine."""

from __future__ import annotations

import itertools

import msgspec

from wfrun.engine.model import Catalog, LinkSpec, SiteSpec


def with_relayed_links(catalog: Catalog) -> Catalog:
    """Add the link of each pair of sites that the catalog has none for, if one of the two is remote
    and their links to this machine are known: copies between them stream through it. The bandwidth
    is that of the slower of both ways, the latency their sum. The files of a local site are here.
    """
    known = {(link.source, link.destination): link for link in catalog.links}
    added = []
    for source, destination in itertools.permutations(catalog.sites, 2):
        if (source.name, destination.name) in known or not (source.access or destination.access):
            continue
        first = known.get((source.name, "origin")) or _free(source, source.name, "origin")
        second = known.get(("origin", destination.name)) or _free(
            destination, "origin", destination.name
        )
        if first is not None and second is not None:
            added.append(_relayed(first, second))
    return msgspec.structs.replace(catalog, links=(*catalog.links, *added))


def _free(site: SiteSpec, source: str, destination: str) -> LinkSpec | None:
    """The link between this machine and a local site; None for a remote one."""
    return LinkSpec(source, destination) if site.access is None else None


def _relayed(first: LinkSpec, second: LinkSpec) -> LinkSpec:
    rates = (first.bandwidth_bytes_per_s, second.bandwidth_bytes_per_s)
    return LinkSpec(
        first.source,
        second.destination,
        min((rate for rate in rates if rate is not None), default=None),
        first.latency_s + second.latency_s,
    )
