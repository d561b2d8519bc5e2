"""The page of all keys of a site catalog. The keys, and the kinds of site that take them, come from
the reader; their meaning comes from the tables of the pages that explain them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tools.docs_site.reference.markdown import code, table, table_of_page
from wfrun.parsers.catalog.environment_section import CONTAINER_KEYS
from wfrun.parsers.catalog.gridftp_section import GRIDFTP_KEYS
from wfrun.parsers.catalog.launcher_section import KEYS as LAUNCHER_KEYS
from wfrun.parsers.catalog.node_links import NODE_LINK_KEYS
from wfrun.parsers.catalog.read import LINK_KEYS, NODE_KEYS, ROOT_KEYS, SITE_KEYS
from wfrun.parsers.catalog.scavenge_section import KEYS as SCAVENGE_KEYS
from wfrun.sites.kinds import KINDS

HEAD = """\
# Catalog keys

Generated from the reader of catalogs. [Site catalogs](../catalog.md) explains them with examples,
and [units](../catalog.md#units) how sizes, bandwidths and durations are written.
"""
_CELLS = 2
"""Of a row of a table, beside the key."""


class Mapping(NamedTuple):
    """A mapping of a catalog."""

    heading: str
    keys: tuple[str, ...]
    page: str
    """The page whose tables describe the keys."""
    column: str
    """The heading of the first column of these tables."""
    kinds: dict[str, list[str]] = {}  # noqa: RUF012 - never changed
    """The kinds of site that take a key; for a key that is absent all do."""


def mappings() -> Iterator[Mapping]:
    """All mappings that a catalog may have."""
    kinds = {
        key: [each.name for each in KINDS.values() if key in (*each.keys, *each.own_keys)]
        for kind in KINDS.values()
        for key in (*kind.keys, *kind.own_keys)
        if key not in SITE_KEYS
    }
    yield Mapping("The catalog", ROOT_KEYS, "catalog.md", "key of the catalog")
    yield Mapping("A site", (*SITE_KEYS, *kinds), "catalog.md", "key", kinds)
    yield Mapping("`nodes` of a site, each group", NODE_KEYS, "catalog.md", "key of a group")
    yield Mapping("`launchers` of a site", LAUNCHER_KEYS, "launchers.md", "key")
    title, column = "`scavenge` of a site", "key of `scavenge`"
    yield Mapping(title, SCAVENGE_KEYS, "scavenging.md", column)
    yield Mapping("`container` of a site", CONTAINER_KEYS, "environments.md", "key")
    yield Mapping("`gridftp` of a site", GRIDFTP_KEYS, "gridftp.md", "key of `gridftp`")
    yield Mapping("`links`, each link", LINK_KEYS, "catalog.md", "key of a link")
    title = "`node_links`, each link"
    yield Mapping(title, NODE_LINK_KEYS, "catalog.md", "key of a link of nodes")


def described(mapping: Mapping) -> dict[str, list[str]]:
    """The cells of the tables that describe the keys of a mapping, by key."""
    return table_of_page(mapping.page, mapping.column)


def catalog_keys_page() -> str:
    """The page: a table for each mapping. Raises LookupError for a key that no page describes."""
    parts = [HEAD]
    for mapping in mappings():
        rows = described(mapping)
        headings = ["key", *(["kinds"] if mapping.kinds else []), "meaning", "without it"]
        lines = []
        for key in mapping.keys:
            kinds = [_kinds(mapping.kinds.get(key, list(KINDS)))] if mapping.kinds else []
            if key not in rows:
                where = f"docs/{mapping.page} in a table {mapping.column!r}"
                raise LookupError(f"there is no row {key!r} in {where}")
            lines.append([code(key), *kinds, *_two(rows[key])])
        parts.append(f"\n## {mapping.heading}\n\n{table(headings, lines)}")
    return "".join(parts)


def _kinds(names: list[str]) -> str:
    if len(names) == len(KINDS):
        return "all"
    others = [each for each in KINDS if each not in names]
    return ", ".join(names) if len(names) < len(others) else f"all but {' and '.join(others)}"


def _two(cells: list[str]) -> list[str]:
    """Meaning and default; of a key that means something else for clusters, both."""
    if len(cells) == _CELLS:
        return cells
    if len(cells) < _CELLS:
        return [*cells, ""]
    pairs = zip(cells[:_CELLS], cells[_CELLS:], strict=True)
    return [one if one == two else f"{one}. Of clusters: {two}" for one, two in pairs]
