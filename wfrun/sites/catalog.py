"""The reader of site catalogs, with all kinds of site."""

from __future__ import annotations

from pathlib import Path

from wfrun.engine.model import Catalog
from wfrun.parsers.catalog import read
from wfrun.sites.kinds import KINDS


def read_catalog(path: str | Path) -> Catalog:
    """Read the site catalog ``path``; docs/catalog.md describes the format.

    Sites keep the order of the document, and their directories become absolute paths. A link
    ``between`` two sites becomes two one-way links. Raises InvalidError for the first mistake, with
    its file and line.
    """
    return read.read_catalog(path, KINDS)
