"""Site catalogs: which sites there are, and the links between them. The form is in docs/catalog.md.

A catalog is checked completely when it is read. The first mistake is an InvalidError with file
and line that names the nearest right word where there is one.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Catalog, LinkSpec, SiteSpec
from wfrun.parsers.units import parse_bandwidth, parse_duration, parse_size
from wfrun.parsers.yaml_document import YamlDocument, read_yaml

KINDS = ("local",)
"""The kinds of site that a catalog may name."""

ORIGIN_NAME = "origin"
"""What links call the machine that wfrun runs on."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?", re.ASCII)
_SITE_KEYS = (
    "kind",
    "directory",
    "slots",
    "speed",
    "memory",
    "gpus",
    "walltime",
    "pin_cores",
)
_LINK_KEYS = ("between", "from", "to", "bandwidth", "latency")
_ENDS_OF_A_LINK = 2

T = TypeVar("T")


def read_catalog(path: str | Path) -> Catalog:
    """Read the site catalog ``path``.

    Sites keep the order of the document, and their directories become absolute paths. A link
    ``between`` two sites becomes two one-way links. Raises InvalidError for whatever is wrong.
    """
    document = read_yaml(path)
    root = _Section(document, (), "the catalog", ("sites", "links"))
    if not root.has("sites"):
        raise root.error("there are no sites", hint="Begin with 'sites:'; see docs/catalog.md.")
    sites = _read_sites(document, Path(path).absolute().parent)
    links = _read_links(document, [site.name for site in sites])
    return Catalog(sites=sites, links=links, source=str(path))


class _Section:
    """A mapping of the document whose keys are checked."""

    def __init__(
        self, document: YamlDocument, path: tuple[str | int, ...], title: str, known: Iterable[str]
    ) -> None:
        self.document = document
        self.path = path
        self.title = title
        value = document.value
        for step in path:
            value = value[step]
        if not isinstance(value, dict):
            raise self.error(f"{title} has to be a mapping, not {_kind(value)}")
        self.values: dict[Any, Any] = value
        known = tuple(known)
        for key in value:
            if key not in known:
                message = f"{title} has no key {str(key)!r}"
                raise document.error(message, *path, key, hint=_nearest(str(key), known, "Keys"))

    def has(self, key: str) -> bool:
        return key in self.values

    def error(self, message: str, *path: str | int, hint: str | None = None) -> InvalidError:
        return self.document.error(message, *self.path, *path, hint=hint)

    def take(self, key: str, convert: Callable[[Any], T], default: T) -> T:
        """The value of ``key`` through ``convert``, whose ValueError gets key and line."""
        if key not in self.values:
            return default
        try:
            return convert(self.values[key])
        except ValueError as error:
            raise self.error(f"{key} of {self.title}: {error}", key) from error


def _read_sites(document: YamlDocument, base: Path) -> tuple[SiteSpec, ...]:
    table = document.value["sites"]
    if not table:
        raise document.error("there are no sites", "sites", hint="Name at least one site.")
    if not isinstance(table, dict):
        message = f"'sites' has to be a mapping from names to sites, not {_kind(table)}"
        raise document.error(message, "sites")
    sites = tuple(_read_site(document, name, base) for name in table)
    used: dict[str, str] = {}
    for site in sites:
        if site.directory is None:
            continue
        other = used.setdefault(os.path.realpath(site.directory), site.name)
        if other != site.name:
            message = f"site {site.name} has the same directory as site {other}"
            hint = "Each site is a file system of its own: give each its own directory."
            raise document.error(message, "sites", site.name, "directory", hint=hint)
    return sites


def _read_site(document: YamlDocument, name: Any, base: Path) -> SiteSpec:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        message = f"{str(name)!r} can't be the name of a site"
        hint = "A name has letters, digits and inner hyphens; put one of digits alone in quotes."
        raise document.error(message, "sites", name, hint=hint)
    if name == ORIGIN_NAME:
        message = f"{ORIGIN_NAME!r} is the machine that wfrun runs on and can't name a site"
        raise document.error(message, "sites", name, hint="Choose another name.")
    site = _Section(document, ("sites", name), f"site {name}", _SITE_KEYS)
    if not site.has("slots"):
        raise site.error(
            f"site {name} does not say how many slots it has",
            hint="Add 'slots: N', the number of cores that wfrun may use there at once.",
        )
    return SiteSpec(
        name=name,
        slots=site.take("slots", _count, 0),
        speed_ratio=site.take("speed", _positive, 1.0),
        memory_bytes=site.take("memory", _size, 0),
        gpus=site.take("gpus", _count_or_zero, 0),
        walltime_s=site.take("walltime", _walltime, None),
        kind=site.take("kind", _site_kind, KINDS[0]),
        directory=site.take("directory", lambda value: _directory(value, base), None),
        pin_cores=site.take("pin_cores", _truth, False),
    )


def _read_links(document: YamlDocument, sites: list[str]) -> tuple[LinkSpec, ...]:
    listed = document.value.get("links")
    if listed is None:
        return ()
    if not isinstance(listed, list):
        raise document.error(f"'links' has to be a list, not {_kind(listed)}", "links")
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
    link = _Section(document, ("links", index), "a link", _LINK_KEYS)
    ends = _ends(link, sites)
    if not link.has("bandwidth") and not link.has("latency"):
        raise link.error("a link needs a bandwidth, a latency or both")
    bandwidth = link.take("bandwidth", _bandwidth, None)
    latency = link.take("latency", _latency, 0.0)
    pairs = [ends, ends[::-1]] if link.has("between") else [ends]
    return [LinkSpec(source, destination, bandwidth, latency) for source, destination in pairs]


def _ends(link: _Section, sites: list[str]) -> tuple[str, str]:
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
            hint = _nearest(str(name), [*sites, ORIGIN_NAME], "Sites")
            raise link.error(f"there is no site {str(name)!r}", *path, hint=hint)
    if pair[0] == pair[1]:
        raise link.error(f"a link can't lead from {pair[0]} to itself", *paths[1])
    return pair[0], pair[1]


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"a number is needed, not {_kind(value)}")
    if not math.isfinite(value):
        raise ValueError("a finite number is needed")
    return value


def _positive(value: Any) -> float:
    if _number(value) <= 0:
        raise ValueError(f"{value} is not above zero")
    return float(value)


def _count(value: Any) -> int:
    if _count_or_zero(value) == 0:
        raise ValueError("0 is not above zero")
    return int(value)


def _count_or_zero(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"a whole number is needed, not {_kind(value)}")
    if value < 0:
        raise ValueError(f"{value} is below zero")
    return value


def _size(value: Any) -> int:
    size_bytes = parse_size(value)
    if size_bytes <= 0:
        raise ValueError(f"{value} is not above zero")
    return size_bytes


def _walltime(value: Any) -> float | None:
    walltime_s = parse_duration(value)
    if walltime_s <= 0:
        raise ValueError(f"{value} is not above zero")
    return walltime_s


def _bandwidth(value: Any) -> float | None:
    bandwidth = parse_bandwidth(value)
    if bandwidth <= 0:
        raise ValueError(f"{value} is not above zero")
    return bandwidth


def _latency(value: Any) -> float:
    latency_s = parse_duration(value)
    if latency_s < 0:
        raise ValueError(f"{value} is below zero")
    return latency_s


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"true or false is needed, not {_kind(value)}")
    return value


def _site_kind(value: Any) -> str:
    if value not in KINDS:
        raise ValueError(f"there is no kind {str(value)!r}; the kinds are: {', '.join(KINDS)}")
    return str(value)


def _directory(value: Any, base: Path) -> str | None:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"a path is needed, not {_kind(value)}")
    if not value.isprintable():
        raise ValueError("a path can't have control characters")
    expanded = os.path.expanduser(value)
    if expanded.startswith("~"):
        raise ValueError(f"there is no home directory for {value!r}")
    return os.path.normpath(base / expanded)


def _kind(value: Any) -> str:
    """What a value is, in the user's words."""
    if isinstance(value, bool):
        return str(value).lower()
    for kind, words in ((dict, "a mapping"), (list, "a list"), (type(None), "nothing")):
        if isinstance(value, kind):
            return words
    return repr(value)


def _nearest(word: str, known: Iterable[str], title: str) -> str:
    known = list(known)
    close = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    guess = f"Did you mean {close[0]!r}? " if close else ""
    return f"{guess}{title} there are: {', '.join(known)}."
