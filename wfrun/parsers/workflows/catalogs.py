"""Replica and transformation catalogs in DAX and Pegasus 5 documents: files, programs, documents.

Source: Pegasus 5.0 user guide, "Catalogs".
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from wfrun.engine.fitting.containers import Container
from wfrun.engine.model import InputSource
from wfrun.parsers.file_urls import path_of_url
from wfrun.parsers.workflows.document import Document
from wfrun.parsers.workflows.draft import FileUse, SubworkflowDraft, TaskDraft


def local_path(url: str, directory: Path) -> str | None:
    """The path of a physical file name on this machine; None if the file is elsewhere.

    ``file://`` URLs and plain paths are on this machine. A relative path with a directory part is
    relative to ``directory``, the directory of the document.
    """
    if "://" not in url and not url.startswith("file:"):
        return str(directory / url) if "/" in url and not url.startswith("/") else url
    return path_of_url(url)


class PhysicalNames(msgspec.Struct):
    """The places of one file or executable: (site, URL), in the order of the document."""

    places: list[tuple[str, str]] = []
    env: dict[str, str] = {}
    container: Container | None = None
    """The container that an executable runs in. The image contains the executable, unless the
    executable is staged."""
    is_staged: bool = False
    """Whether an executable is copied to where it runs."""

    def path(self, directory: Path) -> str | None:
        """The first path on this machine. Entries of the site ``local`` come before others. None if
        no entry is on this machine."""
        for _, url in sorted(self.places, key=lambda place: place[0] != "local"):
            path = local_path(url, directory)
            if path is not None:
                return path
        return None

    def url(self, directory: Path) -> str | None:
        """`path`, else the first URL; None without entries."""
        return self.path(directory) or (self.places[0][1] if self.places else None)

    def sources(self, directory: Path) -> tuple[InputSource, ...]:
        """All places, in the order of the document."""
        return tuple(_source(site, url, directory) for site, url in self.places)


def _source(site: str, url: str, directory: Path) -> InputSource:
    path = local_path(url, directory)
    if path is None:
        return InputSource(url)
    is_there = site != "local" and (path_of_url(url) is not None or url.startswith("/"))
    return InputSource(path, site if is_there else "")


TransformationKey = tuple[str | None, str, str | None]
"""Namespace, name and version."""


class TransformationCatalog:
    """Executables by namespace, name and version."""

    def __init__(self) -> None:
        self._entries: dict[str, list[tuple[TransformationKey, PhysicalNames]]] = {}
        self._known: dict[TransformationKey, PhysicalNames | None] = {}

    def entry(self, key: TransformationKey) -> PhysicalNames:
        """The entry with exactly this key. An empty entry is added if there is none."""
        entries = self._entries.setdefault(key[1], [])
        self._known.clear()
        for known, names in entries:
            if known == key:
                return names
        names = PhysicalNames()
        entries.append((key, names))
        return names

    def find(self, key: TransformationKey) -> PhysicalNames | None:
        """The entry for ``key``: of the entries with its name, the one that agrees best with its
        namespace and version. None if no entry has the name.

        An entry with equal namespace and version is preferred, then one with equal namespace, then
        one with equal version, then any other; of equally good entries, the first.
        """
        if key not in self._known:
            entries = self._entries.get(key[1], [])
            self._known[key] = max(
                entries,
                key=lambda entry: (entry[0][0] == key[0], entry[0][2] == key[2]),
                default=(key, None),
            )[1]
        return self._known[key]


def find_subworkflow(
    document: Document,
    node: str,
    name: str,
    places: PhysicalNames | None,
    directory: Path,
    line: int,
) -> SubworkflowDraft:
    """Find the document ``name`` of the sub-workflow ``node``.

    It is searched at its path in the replica catalog; then in ``directory``, the directory of the
    including document, under ``name``; then in ``directory`` under the file name in the catalog.
    Raises InvalidError, with the places that were searched, if it is at none of them.
    """
    path = places.path(directory) if places is not None else None
    candidates = [] if path is None else [Path(path)]
    candidates.append(directory / name)
    if path is not None:
        candidates.append(directory / Path(path).name)
    for candidate in candidates:
        if candidate.is_file():
            return SubworkflowDraft(node, candidate, line)
    looked = ", ".join(dict.fromkeys(map(str, candidates)))
    return document.refuse(
        f"sub-workflow {node}: its document {name} is not there",
        line,
        f"Put it at one of: {looked}.",
    )


def use_catalog_entry(
    document: Document, entry: PhysicalNames, draft: TaskDraft, directory: Path, line: int
) -> None:
    """Set a task's program, environment and container in ``draft`` to those of its entry in the
    transformation catalog."""
    if entry.env:
        draft.env = entry.env
    draft.container = entry.container
    path = entry.path(directory)
    if path is not None and entry.container is not None and entry.is_staged:
        draft.executable = f"./{draft.name}"
        draft.inputs.append(FileUse(draft.name, executable=True))
        document.add_url(draft.name, path)
    elif path is not None:
        draft.executable = path
    elif entry.places:
        text = "transformation whose catalog entry is not on this machine, looked up by name"
        document.warn(text, line)
