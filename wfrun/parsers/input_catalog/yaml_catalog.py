"""Input catalogs in YAML: ``replicas:`` with ``lfn``, ``pfns`` and ``checksum``.

Source: Pegasus 5.0 schema rc-5.0.yml, and its user guide, "Catalogs", "YAML" (replica catalog).
Keys that say nothing about places and content, such as ``metadata``, are skipped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wfrun.parsers.input_catalog.entries import REGEX, InputCatalog
from wfrun.parsers.syntax.yaml_document import YamlDocument, read_yaml

_Place = tuple[str | int, ...]


def read_yaml_catalog(path: Path) -> InputCatalog:
    """Read the catalog at ``path``. Raises InvalidError with the line."""
    document = read_yaml(path)
    catalog = InputCatalog(str(path))
    root = _mapping(document, document.value)
    for index, entry in enumerate(_listed(document, root, "replicas")):
        place: _Place = ("replicas", index)
        _add(catalog, document, _mapping(document, entry, *place), place)
    return catalog


def _add(
    catalog: InputCatalog, document: YamlDocument, entry: dict[Any, Any], place: _Place
) -> None:
    name = _text(document, entry, "lfn", *place)
    if name is None:
        raise document.error("the entry has no lfn", *place)
    if entry.get("regex"):
        raise document.error(REGEX, *place, "regex")
    checksum = entry.get("checksum")
    sha256 = None
    if checksum is not None:
        where = (*place, "checksum")
        sha256 = _text(document, _mapping(document, checksum, *where), "sha256", *where)
    pfns = _listed(document, entry, "pfns", *place)
    if not pfns:
        raise document.error(f"the entry of {name} has no pfns", *place)
    for index, item in enumerate(pfns):
        where = (*place, "pfns", index)
        values = _mapping(document, item, *where)
        pfn = _text(document, values, "pfn", *where)
        if pfn is None:
            raise document.error(f"an entry of {name} has no pfn", *where)
        try:
            catalog.add(name, pfn, _text(document, values, "site", *where), sha256)
        except ValueError as error:
            raise document.error(str(error), *where) from error


def _mapping(document: YamlDocument, value: Any, *place: str | int) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise document.error("a mapping is wanted here", *place)
    return value


def _listed(
    document: YamlDocument, values: dict[Any, Any], key: str, *place: str | int
) -> list[Any]:
    found = values.get(key)
    if not isinstance(found, list):
        raise document.error(f"{key}: must be a list", *place, key)
    return found


def _text(
    document: YamlDocument, values: dict[Any, Any], key: str, *place: str | int
) -> str | None:
    found = values.get(key)
    if found is None or isinstance(found, str):
        return found
    if isinstance(found, bool | list | dict):
        raise document.error(f"{key}: text is wanted here", *place, key)
    return str(found)
