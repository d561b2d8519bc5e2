"""The entries of an input catalog. Entries of all formats pass the same checks."""

from __future__ import annotations

from typing import NamedTuple

from wfrun.engine.model import InputSource
from wfrun.parsers.containers import to_checksum
from wfrun.parsers.file_urls import MAX_URL, path_of_url, scheme_of, shown_url, url_fault
from wfrun.parsers.syntax.limits import CONTROL, cut

REGEX = "entries with regex are not read: write one entry for each file"


class CatalogInput(NamedTuple):
    """The places of one logical file, and its checksum if the catalog states it."""

    sources: tuple[InputSource, ...]
    sha256: str | None = None


class InputCatalog:
    """Entries by logical name."""

    def __init__(self, source: str) -> None:
        """``source`` is the path of the catalog, for messages."""
        self.source = source
        self._entries: dict[str, CatalogInput] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, name: str) -> CatalogInput | None:
        """The entry of a logical file; None if there is none."""
        return self._entries.get(name)

    def add(self, name: str, pfn: str, site: str | None, sha256: str | None) -> None:
        """Add a place of a file. ``site`` None means this machine. Raises ValueError, with a
        message, for an invalid name, place or checksum, and for a checksum that contradicts an
        earlier entry."""
        if not name or CONTROL.search(name):
            raise ValueError(f"the logical name {cut(name)} is empty or has control characters")
        source = _source(pfn, site or "local")
        checksum = None if sha256 is None else to_checksum(sha256)
        known = self._entries.get(name)
        if known is None:
            self._entries[name] = CatalogInput((source,), checksum)
            return
        if None not in (known.sha256, checksum) and known.sha256 != checksum:
            raise ValueError(f"{name} has another SHA-256 checksum in an entry above")
        sources = known.sources if source in known.sources else (*known.sources, source)
        self._entries[name] = CatalogInput(sources, known.sha256 or checksum)


def _source(pfn: str, site: str) -> InputSource:
    """The place that a physical file name stands for. Raises ValueError, with a message that shows
    no password, for a name that is not a usable URL or absolute path."""
    shown = cut(shown_url(pfn))
    if "${" in pfn:
        raise ValueError(f"{shown} has a variable, which is not replaced: write its value")
    if CONTROL.search(pfn) or CONTROL.search(site):
        raise ValueError(f"{shown} or its site has control characters")
    scheme = scheme_of(pfn)
    if scheme not in ("", "file"):
        fault = url_fault(pfn)
        if fault is not None:
            raise ValueError(f"{shown} {fault}")
        return InputSource(pfn)
    path = path_of_url(pfn) if scheme else pfn
    if path is None:
        raise ValueError(f"{shown} names a file of another host: write file:///PATH, and its site")
    if not path.startswith("/"):
        raise ValueError(f"{shown} is not an absolute path")
    if len(path) > MAX_URL or CONTROL.search(path):
        raise ValueError(f"{cut(path)} has control characters, or more than {MAX_URL:,} characters")
    return InputSource(path, "" if site == "local" else site)
