"""One workflow document while it is read: its lines, its warnings, and the values it holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import InputSource
from wfrun.parsers.syntax.limits import MAX_BYTES, MAX_SECONDS
from wfrun.parsers.workflows.profiles import ProfileError, ProfileRequests, Profiles, requests_of

Place = tuple[str, int | None, Callable[[int], int]]
"""A document, a position in it, and the function that turns the position into a line."""


def refuse_at(place: Place, message: str, hint: str | None = None) -> NoReturn:
    """Raise InvalidError for the text at ``place``."""
    source, position, locate = place
    line = None if position is None else locate(position)
    raise InvalidError(message, source=source, line=line, hint=hint)


class Document:
    """A document that is being read, and what its reader found beside tasks and edges.

    A document shares warnings, file URLs and equal requests with the documents that it includes.
    With ``emulate`` negative sizes and run times count as 0, otherwise as unknown.
    """

    def __init__(
        self, path: Path, *, emulate: bool = False, node: str = "", outer: Document | None = None
    ) -> None:
        """Open the document at ``path``. If it is a sub-workflow, ``outer`` is the including
        document, and ``node`` the node of ``outer`` that it replaces."""
        self.source = str(path)
        self.name = path.stem
        self.emulate = emulate
        self.prefix: str = "" if outer is None else f"{outer.prefix}{node}."
        """Prefix of the ids of the document's tasks in the workflow."""
        self.locate: Callable[[int], int] = int
        """Turns a position into a line. It may be slow, so it is called for messages only."""
        self.warnings: dict[str, tuple[int, Place]] = {} if outer is None else outer.warnings
        """(number of occurrences, first place) of each warning, by its text."""
        self.urls: dict[str, str] = {} if outer is None else outer.urls
        """URL of each file by name, from the replica catalogs."""
        self.sources: dict[str, list[InputSource]] = {} if outer is None else outer.sources
        """All places of each file by name, from the replica catalogs."""
        self.checksums: dict[str, str] = {} if outer is None else outer.checksums
        """SHA-256 checksum of each file by name, from the replica catalogs."""
        self._requests: dict[tuple[tuple[tuple[str, str], str], ...], ProfileRequests] = (
            {} if outer is None else outer._requests
        )

    def place(self, line: int | None) -> Place:
        """A record of the position ``line`` in this document, for messages that may be needed
        later."""
        return (self.source, line, self.locate)

    def refuse(self, message: str, line: int | None, hint: str | None = None) -> NoReturn:
        """Raise InvalidError for the text at ``line``."""
        refuse_at(self.place(line), message, hint)

    def warn(self, text: str, line: int | None, count: int = 1) -> None:
        """Count a warning. Equal warnings become one message with the first place."""
        seen, place = self.warnings.get(text) or (0, self.place(line))
        self.warnings[text] = (seen + count, place)

    def add_url(self, name: str, url: str) -> None:
        """Note a file's URL from the replica catalog. If there are several, the first counts."""
        self.urls.setdefault(name, url)

    def add_sources(self, name: str, sources: Iterable[InputSource]) -> None:
        """Note all places of a file from the replica catalog."""
        known = self.sources.setdefault(name, [])
        known += [source for source in sources if source not in known]

    def size(self, text: str | float, line: int | None) -> int | None:
        """Convert to bytes. A negative size gives None (unknown), or 0 under emulation. Raises
        InvalidError if it is not a number or too large."""
        try:
            size = int(text)
        except (ValueError, OverflowError):
            size = self._integral(text, line)
        if 0 <= size <= MAX_BYTES:
            return size
        if size > 0:
            self.refuse(f"file size {text} is too large", line)
        counted = "0" if self.emulate else "unknown"
        self.warn(f"negative file size, counted as {counted}", line)
        return 0 if self.emulate else None

    def _integral(self, text: str | float, line: int | None) -> int:
        try:
            return int(float(text))
        except (ValueError, OverflowError):
            self.refuse(f"file size {text!r} is not a number of bytes", line)

    def runtime(self, text: str | float, line: int | None) -> float | None:
        """Convert to seconds. A negative run time gives None (unknown), or 0 under emulation.
        Raises InvalidError if it is not a finite number or too large."""
        try:
            runtime_s = float(text)
        except (ValueError, OverflowError):
            runtime_s = math.nan
        if not math.isfinite(runtime_s):
            self.refuse(f"run time {text!r} is not a number of seconds", line)
        if runtime_s > MAX_SECONDS:
            self.refuse(f"run time {text!r} is more than {MAX_SECONDS:,.0f} seconds", line)
        if runtime_s >= 0:
            return runtime_s
        counted = "0" if self.emulate else "unknown"
        self.warn(f"negative run time, counted as {counted}", line)
        return 0.0 if self.emulate else None

    def requests(self, profiles: Profiles, line: int | None) -> ProfileRequests:
        """The requests that profiles make; equal profiles give the same object."""
        key = tuple(profiles.items())
        known = self._requests.get(key)
        if known is None:
            try:
                known = requests_of(profiles, emulate=self.emulate)
            except ProfileError as error:
                self.refuse(str(error), line, error.hint)
            for text in known.warnings:
                self.warn(text, line)
            self._requests[key] = known
        return known
