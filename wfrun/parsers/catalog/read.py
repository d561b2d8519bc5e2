"""The reader of site catalogs: sites, and the links between them. docs/catalog.md has the format.

A catalog is checked completely when it is read. The first mistake raises an InvalidError with its
file and line, and with the nearest known word if there is one.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from wfrun.engine.model import Access, Catalog, LinkSpec, NodeGroup, SiteSpec
from wfrun.parsers.catalog.access import (
    DEFAULT_DIRECTORY,
    check_keys,
    own_path,
    read_access,
    remote_path,
)
from wfrun.parsers.catalog.environment_section import ENVIRONMENT_KEYS, read_environment
from wfrun.parsers.catalog.kinds import CatalogKind
from wfrun.parsers.catalog.launcher_section import with_launchers
from wfrun.parsers.catalog.node_links import with_node_links
from wfrun.parsers.catalog.price_section import PRICE_KEYS, check_currencies, with_prices
from wfrun.parsers.catalog.scavenge_section import read_scavenging
from wfrun.parsers.catalog.transfer_section import method_names, rclone_remote, read_direct
from wfrun.parsers.syntax.sections import (
    Section,
    in_words,
    nearest,
    to_bandwidth,
    to_count,
    to_count_or_zero,
    to_duration,
    to_latency,
    to_positive,
    to_size,
    to_truth,
)
from wfrun.parsers.syntax.yaml_document import YamlDocument, read_yaml

ORIGIN_NAME = "origin"
"""Name, in links, of the machine that wfrun runs on."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?", re.ASCII)
SITE_KEYS = (
    "kind",
    "directory",
    "slots",
    "nodes",
    "speed",
    "memory",
    "gpus",
    "walltime",
    "pin_cores",
    "max_transfers",
    "storage",
    "max_bandwidth",
    *PRICE_KEYS,
    *ENVIRONMENT_KEYS,
)
"""Keys that every kind of site accepts."""
ROOT_KEYS = ("sites", "links", "transfer", "node_links")
NODE_KEYS = ("count", "cores", "speed", "mtbf", "mttr")
_LINK_FIGURES = ("bandwidth", "latency", "max_transfers", "max_bandwidth", "transfer")
LINK_KEYS = ("between", "from", "to", *_LINK_FIGURES)
_ENDS_OF_A_LINK = 2
DEFAULT_MAX_TRANSFERS = 4
"""Default maximum number of transfers of a site behind a connection. With the agent's session and
the queue's they stay below the ten sessions that OpenSSH allows in one connection (MaxSessions)."""


def read_catalog(
    path: str | Path, kinds: Mapping[str, CatalogKind], methods: Collection[str]
) -> Catalog:
    """Read the site catalog ``path``. ``kinds`` are the kinds of site that it may name; a site
    without ``kind`` is of the first one. ``methods`` are the names of transfer methods.
    `wfrun.sites.catalog.read_catalog` passes all kinds and methods.

    Sites keep the order of the document, and their directories become absolute paths. A link
    ``between`` two sites becomes two one-way links. Raises InvalidError for the first mistake.
    """
    return catalog_of(read_yaml(path), path, kinds, methods)


def catalog_of(
    document: YamlDocument,
    path: str | Path,
    kinds: Mapping[str, CatalogKind],
    methods: Collection[str],
) -> Catalog:
    """The catalog in a document that is, or will be, at ``path``. See `read_catalog`."""
    root = Section(document, (), "the catalog", ROOT_KEYS)
    if not root.has("sites"):
        raise root.error("the catalog has no sites", hint="Add 'sites:'; see docs/catalog.md.")
    sites = with_node_links(document, _read_sites(document, kinds, Path(path).absolute().parent))
    links = _read_links(document, [site.name for site in sites], methods)
    lines = {site.name: _lines(document, site.name) for site in sites}
    default: tuple[str, ...] = ()
    default = root.take("transfer", method_names(methods), default)
    return Catalog(sites=sites, links=links, source=str(path), lines=lines, methods=default)


def _lines(document: YamlDocument, site: str) -> dict[str, int]:
    keys = {key: document.line("sites", site, key) for key in document.value["sites"][site]}
    return {"": document.line("sites", site), **keys}


def _read_sites(
    document: YamlDocument, kinds: Mapping[str, CatalogKind], base: Path
) -> tuple[SiteSpec, ...]:
    table = document.value["sites"]
    if not table:
        raise document.error("the catalog has no sites", "sites", hint="Add at least one site.")
    if not isinstance(table, dict):
        message = f"'sites' must be a mapping from names to sites, not {in_words(table)}"
        raise document.error(message, "sites")
    sites = tuple(_read_site(document, name, kinds, base) for name in table)
    check_currencies(document, sites)
    used: dict[tuple[str, str], str] = {}
    for site in sites:
        for place in _places(site):
            other = used.setdefault(place, site.name)
            if other != site.name:
                message = f"site {site.name} has the same directory as site {other}"
                hint = "Each site needs a directory of its own."
                raise document.error(message, "sites", site.name, "directory", hint=hint)
    return sites


def _places(site: SiteSpec) -> list[tuple[str, str]]:
    """(host, directory) of each place of the site's files, normalized so that equal places are
    equal."""
    if site.directory is None:
        return []
    if site.access is None:
        return [("", os.path.realpath(site.directory))]
    directory = posixpath.normpath(site.directory)
    return [(host, directory) for host in site.access.hosts or ("",)]


def _read_site(
    document: YamlDocument, name: Any, kinds: Mapping[str, CatalogKind], base: Path
) -> SiteSpec:
    site, kind = _section(document, name, kinds)
    nodes = _read_nodes(site)
    slots = _read_slots(site, nodes)
    access: Access | None = None
    directory: str | None
    if kind.is_remote:
        direct = read_direct(site)
        access = msgspec.structs.replace(
            read_access(site, kind, base),
            direct=direct.login,
            direct_key=direct.key,
            direct_host=direct.host,
            direct_port=direct.port,
            rclone=site.take("rclone", rclone_remote, None),
        )
        directory = site.take("directory", remote_path, DEFAULT_DIRECTORY)
    else:
        directory = site.take("directory", lambda value: own_path(value, base), None)
    spec = SiteSpec(
        name=name,
        slots=slots,
        nodes=nodes,
        speed_ratio=site.take("speed", to_positive, 1.0),
        memory_bytes=site.take("memory", to_size, 0),
        gpus=site.take("gpus", to_count_or_zero, 0),
        walltime_s=site.take("walltime", to_duration, None),
        kind=kind.name,
        directory=directory,
        pin_cores=site.take("pin_cores", to_truth, False),
        access=access,
        environment=read_environment(site, is_remote=kind.is_remote, base=base),
        max_transfers=site.take(
            "max_transfers", to_count, DEFAULT_MAX_TRANSFERS if kind.is_remote else None
        ),
        storage_bytes=site.take("storage", to_size, None),
        max_bandwidth_bytes_per_s=site.take("max_bandwidth", to_bandwidth, None),
        node_cores=site.take("node_cores", to_count, None),
        scavenge=read_scavenging(site, slots),
    )
    return with_prices(site, with_launchers(site, spec))


def _section(
    document: YamlDocument, name: Any, kinds: Mapping[str, CatalogKind]
) -> tuple[Section, CatalogKind]:
    """The entry of a site, with checked name and keys, and the site's kind."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        message = f"{str(name)!r} is not a valid name of a site"
        hint = "A name has letters, digits and inner hyphens; put a name of digits alone in quotes."
        raise document.error(message, "sites", name, hint=hint)
    if name == ORIGIN_NAME:
        message = f"{ORIGIN_NAME!r} names the machine that wfrun runs on, not a site"
        raise document.error(message, "sites", name, hint="Choose another name.")
    keys = [*SITE_KEYS, *(key for kind in kinds.values() for key in (*kind.keys, *kind.own_keys))]
    site = Section(document, ("sites", name), f"site {name}", dict.fromkeys(keys))
    kind = site.take("kind", lambda value: _kind(value, kinds), next(iter(kinds.values())))
    check_keys(site, kind, kinds.values())
    return site, kind


def _kind(value: Any, kinds: Mapping[str, CatalogKind]) -> CatalogKind:
    if not isinstance(value, str) or value not in kinds:
        raise ValueError(f"there is no kind {str(value)!r}; the kinds are: {', '.join(kinds)}")
    return kinds[value]


def _read_slots(site: Section, nodes: tuple[NodeGroup, ...]) -> int:
    if not site.has("slots") and not nodes:
        raise site.error(
            f"{site.title} has no 'slots'",
            hint="Add 'slots: N', the maximum number of cores that wfrun may use there.",
        )
    cores = sum(group.count * group.cores for group in nodes)
    slots = site.take("slots", to_count, cores)
    if nodes and slots != cores:
        message = f"{site.title} has {slots} slots, but its nodes have {cores} cores"
        raise site.error(message, "slots", hint="Remove 'slots', or correct one of the two.")
    return slots


def _read_nodes(site: Section) -> tuple[NodeGroup, ...]:
    listed = site.values.get("nodes", [])
    if not isinstance(listed, list):
        message = f"nodes of {site.title} must be a list of groups, not {in_words(listed)}"
        raise site.error(message, "nodes", hint="Write '- {count: 4, cores: 2}' for each group.")
    if site.has("nodes") and not listed:
        hint = "Add groups of nodes, or remove 'nodes'."
        raise site.error(f"{site.title} has an empty list of nodes", "nodes", hint=hint)
    return tuple(_read_group(site, index) for index in range(len(listed)))


def _read_group(site: Section, index: int) -> NodeGroup:
    path = (*site.path, "nodes", index)
    group = Section(site.document, path, f"a group of nodes of {site.title}", NODE_KEYS)
    for key in ("count", "cores"):
        if not group.has(key):
            hint = "'count' is the number of nodes, 'cores' the number of cores of each."
            raise group.error(f"{group.title} has no '{key}'", hint=hint)
    for key, other in (("mtbf", "mttr"), ("mttr", "mtbf")):
        if group.has(key) and not group.has(other):
            hint = "Nodes fail every 'mtbf' and are repaired in 'mttr', on average: give both."
            raise group.error(f"{group.title} has '{key}' but no '{other}'", key, hint=hint)
    return NodeGroup(
        count=group.take("count", to_count, 0),
        cores=group.take("cores", to_count, 0),
        speed_ratio=group.take("speed", to_positive, 1.0),
        mtbf_s=group.take("mtbf", to_duration, 0.0),
        mttr_s=group.take("mttr", to_duration, 0.0),
    )


def _read_links(
    document: YamlDocument, sites: list[str], methods: Collection[str]
) -> tuple[LinkSpec, ...]:
    listed = document.value.get("links")
    if listed is None:
        return ()
    if not isinstance(listed, list):
        raise document.error(f"'links' must be a list, not {in_words(listed)}", "links")
    links: list[LinkSpec] = []
    lines: dict[tuple[str, str], int] = {}
    for index in range(len(listed)):
        line = document.line("links", index)
        for link in _read_link(document, index, sites, methods):
            ends = (link.source, link.destination)
            if ends in lines:
                message = f"the link from {ends[0]} to {ends[1]} is already on line {lines[ends]}"
                raise document.error(message, "links", index, hint="Keep one of the two.")
            lines[ends] = line
            links.append(link)
    return tuple(links)


def _read_link(
    document: YamlDocument, index: int, sites: list[str], methods: Collection[str]
) -> list[LinkSpec]:
    link = Section(document, ("links", index), "a link", LINK_KEYS)
    ends = _ends(link, sites)
    if not any(map(link.has, _LINK_FIGURES)):
        hint = "Add one of them, or 'max_transfers', 'max_bandwidth' or 'transfer'."
        raise link.error("a link has neither 'bandwidth' nor 'latency'", hint=hint)
    bandwidth = link.take("bandwidth", to_bandwidth, None)
    latency = link.take("latency", to_latency, 0.0)
    forced: tuple[str, ...] = ()
    forced = link.take("transfer", method_names(methods), forced)
    pairs = [ends, ends[::-1]] if link.has("between") else [ends]
    most = link.take("max_transfers", to_count, None)
    cap = link.take("max_bandwidth", to_bandwidth, None)
    return [LinkSpec(*pair, bandwidth, latency, most, forced, cap) for pair in pairs]


def _ends(link: Section, sites: list[str]) -> tuple[str, str]:
    if link.has("between"):
        for key in ("from", "to"):
            if link.has(key):
                raise link.error(f"a link has both 'between' and '{key}'", key)
        pair = link.values["between"]
        if not isinstance(pair, list) or len(pair) != _ENDS_OF_A_LINK:
            raise link.error("'between' must be a list of two sites: [one, other]", "between")
        paths: list[tuple[str | int, ...]] = [("between", 0), ("between", 1)]
    else:
        for key in ("from", "to"):
            if not link.has(key):
                hint = "Write 'between: [one, other]' (both ways), or 'from: one' and 'to: other'."
                raise link.error(f"a link has no '{key}'", hint=hint)
        pair = [link.values["from"], link.values["to"]]
        paths = [("from",), ("to",)]
    for name, path in zip(pair, paths, strict=True):
        if name not in (*sites, ORIGIN_NAME):
            hint = nearest(str(name), [*sites, ORIGIN_NAME], "Sites")
            raise link.error(f"there is no site {str(name)!r}", *path, hint=hint)
    if pair[0] == pair[1]:
        raise link.error(f"a link leads from {pair[0]} to itself", *paths[1])
    return pair[0], pair[1]
