"""The reader of site catalogs, with all kinds of site."""

from __future__ import annotations

from pathlib import Path

from wfrun.engine.model import Catalog
from wfrun.parsers.catalog import read
from wfrun.parsers.syntax.yaml_document import parse_yaml
from wfrun.sites.kinds import KINDS
from wfrun.sites.transfers import METHODS
from wfrun.sites.transfers.relay.relayed_links import with_methods, with_relayed_links


def read_catalog(path: str | Path) -> Catalog:
    """Read the site catalog ``path``; docs/catalog.md describes the format.

    Sites keep the order of the document, and their directories become absolute paths. A link
    ``between`` two sites becomes two one-way links. Where possible, two sites without a link get
    one that relays through this machine (``with_relayed_links``). Raises InvalidError for the first
    mistake, with its file and line.
    """
    return with_relayed_links(with_methods(read.read_catalog(path, KINDS, METHODS)))


def parse_catalog(document: bytes, path: str | Path) -> Catalog:
    """Parse the catalog ``document``, the content of the file ``path``, without adding relayed
    links. Raises InvalidError as `read_catalog` does."""
    return read.catalog_of(parse_yaml(document, str(path)), path, KINDS, METHODS)
