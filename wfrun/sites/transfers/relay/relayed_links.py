"""Derives from the catalog the transfer methods of links, and the speed of links through this
machine."""

from __future__ import annotations

import itertools

import msgspec

from wfrun.engine.model import Catalog, LinkSpec, SiteSpec


def with_methods(catalog: Catalog) -> Catalog:
    """Give the catalog's transfer methods to each pair of remote sites whose link names none. Other
    pairs, with this machine or a local site, use all methods that can carry their files."""
    if not catalog.methods:
        return catalog
    links = {(link.source, link.destination): link for link in catalog.links}
    remote = [site.name for site in catalog.sites if site.access is not None]
    for ends in itertools.permutations(remote, 2):
        link = links.get(ends) or LinkSpec(*ends)
        links[ends] = msgspec.structs.replace(link, methods=link.methods or catalog.methods)
    return msgspec.structs.replace(catalog, links=tuple(links.values()))


def with_relayed_links(catalog: Catalog) -> Catalog:
    """Add a link between two sites, or the speed of their link, if the catalog has none. At least
    one of the sites must be remote, and the speeds of the links between the sites and this machine
    must be known. Copies stream through this machine, so the added link has the lower bandwidth and
    the sum of the latencies of these two links. A local site needs no link to this machine, since
    its files are on this machine."""
    links = {(link.source, link.destination): link for link in catalog.links}
    known = {ends: link for ends, link in links.items() if link.has_speed}
    for source, destination in itertools.permutations(catalog.sites, 2):
        ends = (source.name, destination.name)
        if ends in known or not (source.access or destination.access):
            continue
        first = known.get((source.name, "origin")) or _free(source, source.name, "origin")
        second = known.get(("origin", destination.name)) or _free(
            destination, "origin", destination.name
        )
        if first is not None and second is not None:
            links[ends] = _relayed(links.get(ends) or LinkSpec(*ends), first, second)
    return msgspec.structs.replace(catalog, links=tuple(links.values()))


def _free(site: SiteSpec, source: str, destination: str) -> LinkSpec | None:
    """The link between this machine and a local site; None for a remote one."""
    return LinkSpec(source, destination) if site.access is None else None


def _relayed(link: LinkSpec, first: LinkSpec, second: LinkSpec) -> LinkSpec:
    rates = (first.bandwidth_bytes_per_s, second.bandwidth_bytes_per_s)
    return msgspec.structs.replace(
        link,
        bandwidth_bytes_per_s=min((rate for rate in rates if rate is not None), default=None),
        latency_s=first.latency_s + second.latency_s,
    )
