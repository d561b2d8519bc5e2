"""Site catalogs: which sites there are, and the links between them. The form is in docs/catalog.md.

A catalog is checked completely when it is read. The first mistake is an InvalidError with file
and line that names the nearest right word where there is one.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wfrun.engine.model import Access, Catalog, LinkSpec, NodeGroup, SiteSpec
from wfrun.parsers.catalog.access import (
    DEFAULT_DIRECTORY,
    check_keys,
    own_path,
    read_access,
    remote_path,
)
from wfrun.parsers.catalog.kinds import CatalogKind
from wfrun.parsers.catalog.launcher_section import with_launchers
from wfrun.parsers.sections import (
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
from wfrun.parsers.yaml_document import YamlDocument, read_yaml

ORIGIN_NAME = "origin"
"""What links call the machine that wfrun runs on."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?", re.ASCII)
_SITE_KEYS = (
    "kind",
    "directory",
    "slots",
    "nodes",
    "speed",
    "memory",
    "gpus",
    "walltime",
    "pin_cores",
)
"""Keys of sites of every kind."""
_NODE_KEYS = ("count", "cores", "speed", "mtbf", "mttr")
_LINK_KEYS = ("between", "from", "to", "bandwidth", "latency")
_ENDS_OF_A_LINK = 2


def read_catalog(path: str | Path, kinds: Mapping[str, CatalogKind]) -> Catalog:
    """Read the site catalog ``path``, whose sites are of these kinds; the first is that of a site
    without ``kind``. `wfrun.sites.catalog` reads with all that there are.

    Sites keep the order of the document, and their directories become absolute paths. A link
    ``between`` two sites becomes two one-way links. Raises InvalidError for whatever is wrong.
    """
    document = read_yaml(path)
    root = Section(document, (), "the catalog", ("sites", "links"))
    if not root.has("sites"):
        raise root.error("there are no sites", hint="Begin with 'sites:'; see docs/catalog.md.")
    sites = _read_sites(document, kinds, Path(path).absolute().parent)
    links = _read_links(document, [site.name for site in sites])
    return Catalog(sites=sites, links=links, source=str(path))


def _read_sites(
    document: YamlDocument, kinds: Mapping[str, CatalogKind], base: Path
) -> tuple[SiteSpec, ...]:
    table = document.value["sites"]
    if not table:
        raise document.error("there are no sites", "sites", hint="Name at least one site.")
    if not isinstance(table, dict):
        message = f"'sites' has to be a mapping from names to sites, not {in_words(table)}"
        raise document.error(message, "sites")
    sites = tuple(_read_site(document, name, kinds, base) for name in table)
    used: dict[tuple[str, str], str] = {}
    for site in sites:
        for place in _places(site):
            other = used.setdefault(place, site.name)
            if other != site.name:
                message = f"site {site.name} has the same directory as site {other}"
                hint = "Each site is a file system of its own: give each its own directory."
                raise document.error(message, "sites", site.name, "directory", hint=hint)
    return sites


def _places(site: SiteSpec) -> list[tuple[str, str]]:
    """(host, directory) of the site's files, in a form that tells whether two are the same."""
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
        access = read_access(site, kind, base)
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
    )
    return with_launchers(site, spec)


def _section(
    document: YamlDocument, name: Any, kinds: Mapping[str, CatalogKind]
) -> tuple[Section, CatalogKind]:
    """The entry of a site, whose name and keys are checked, and its kind."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        message = f"{str(name)!r} can't be the name of a site"
        hint = "A name has letters, digits and inner hyphens; put one of digits alone in quotes."
        raise document.error(message, "sites", name, hint=hint)
    if name == ORIGIN_NAME:
        message = f"{ORIGIN_NAME!r} is the machine that wfrun runs on and can't name a site"
        raise document.error(message, "sites", name, hint="Choose another name.")
    keys = [*_SITE_KEYS, *(key for kind in kinds.values() for key in (*kind.keys, *kind.own_keys))]
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
            f"{site.title} does not say how many slots it has",
            hint="Add 'slots: N', the number of cores that wfrun may use there at once.",
        )
    cores = sum(group.count * group.cores for group in nodes)
    slots = site.take("slots", to_count, cores)
    if nodes and slots != cores:
        message = f"{site.title} has {slots} slots, but its nodes have {cores} cores"
        raise site.error(message, "slots", hint="Leave 'slots' out, or correct one of the two.")
    return slots


def _read_nodes(site: Section) -> tuple[NodeGroup, ...]:
    listed = site.values.get("nodes", [])
    if not isinstance(listed, list):
        message = f"nodes of {site.title} have to be a list of groups, not {in_words(listed)}"
        raise site.error(message, "nodes", hint="Write '- {count: 4, cores: 2}' for each group.")
    if site.has("nodes") and not listed:
        raise site.error(f"{site.title} has no nodes", "nodes", hint="Name them, or leave it out.")
    return tuple(_read_group(site, index) for index in range(len(listed)))


def _read_group(site: Section, index: int) -> NodeGroup:
    path = (*site.path, "nodes", index)
    group = Section(site.document, path, f"a group of nodes of {site.title}", _NODE_KEYS)
    for key in ("count", "cores"):
        if not group.has(key):
            hint = "'count' says how many nodes there are, 'cores' how many each of them has."
            raise group.error(f"{group.title} lacks '{key}'", hint=hint)
    for key, other in (("mtbf", "mttr"), ("mttr", "mtbf")):
        if group.has(key) and not group.has(other):
            hint = "Nodes fail every 'mtbf' and are repaired in 'mttr', on average; give both."
            raise group.error(f"{group.title} has '{key}' but lacks '{other}'", key, hint=hint)
    return NodeGroup(
        count=group.take("count", to_count, 0),
        cores=group.take("cores", to_count, 0),
        speed_ratio=group.take("speed", to_positive, 1.0),
        mtbf_s=group.take("mtbf", to_duration, 0.0),
        mttr_s=group.take("mttr", to_duration, 0.0),
    )


def _read_links(document: YamlDocument, sites: list[str]) -> tuple[LinkSpec, ...]:
    listed = document.value.get("links")
    if listed is None:
        return ()
    if not isinstance(listed, list):
        raise document.error(f"'links' has to be a list, not {in_words(listed)}", "links")
    links: list[LinkSpec] = []
    lines: dict[tuple[str, str], int] = {}
    for index in range(len(listed)):
        line = document.line("links", index)
        for link in _read_link(document, index, sites):
            ends = (link.source, link.destination)
            if ends in lines:
                message = f"the link from {ends[0]} to {ends[1]} is on line {lines[ends]} already"
                raise document.error(message, "links", index, hint="Keep one of the two.")
            lines[ends] = line
            links.append(link)
    return tuple(links)


def _read_link(document: YamlDocument, index: int, sites: list[str]) -> list[LinkSpec]:
    link = Section(document, ("links", index), "a link", _LINK_KEYS)
    ends = _ends(link, sites)
    if not link.has("bandwidth") and not link.has("latency"):
        raise link.error("a link needs a bandwidth, a latency or both")
    bandwidth = link.take("bandwidth", to_bandwidth, None)
    latency = link.take("latency", to_latency, 0.0)
    pairs = [ends, ends[::-1]] if link.has("between") else [ends]
    return [LinkSpec(source, destination, bandwidth, latency) for source, destination in pairs]


def _ends(link: Section, sites: list[str]) -> tuple[str, str]:
    if link.has("between"):
        for key in ("from", "to"):
            if link.has(key):
                raise link.error(f"a link has either 'between' or '{key}'", key)
        pair = link.values["between"]
        if not isinstance(pair, list) or len(pair) != _ENDS_OF_A_LINK:
            raise link.error("'between' takes two sites: [one, other]", "between")
        paths: list[tuple[str | int, ...]] = [("between", 0), ("between", 1)]
    else:
        for key in ("from", "to"):
            if not link.has(key):
                hint = "Write 'between: [one, other]' (both ways), or 'from: one' and 'to: other'."
                raise link.error(f"a link lacks '{key}'", hint=hint)
        pair = [link.values["from"], link.values["to"]]
        paths = [("from",), ("to",)]
    for name, path in zip(pair, paths, strict=True):
        if name not in (*sites, ORIGIN_NAME):
            hint = nearest(str(name), [*sites, ORIGIN_NAME], "Sites")
            raise link.error(f"there is no site {str(name)!r}", *path, hint=hint)
    if pair[0] == pair[1]:
        raise link.error(f"a link can't lead from {pair[0]} to itself", *paths[1])
    return pair[0], pair[1]
