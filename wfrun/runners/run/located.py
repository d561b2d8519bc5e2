"""Files and programs that documents name: where they are, and messages for missing ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from wfrun.engine.errors import InvalidError

SHOWN = 20
"""Maximum number of missing files or programs that a message names."""


def local_path(url: str) -> str | None:
    """The path that a ``file:`` URL or a plain path names; None for other URLs."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return unquote(parts.path) if parts.netloc in ("", "localhost") else None
    return url if "://" not in url else None


def is_program(path: Path) -> bool:
    """Whether this is a file that may be executed."""
    return path.is_file() and os.access(path, os.X_OK)


def is_inside(path: str, folder: Path) -> bool:
    """Whether an absolute path leads into the folder."""
    return Path(os.path.normpath(path)).is_relative_to(folder.absolute())


def some(names: Iterable[str]) -> str:
    """The first names of a list, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more


def missing_inputs(
    names: Sequence[str], looked: str, source: str, line: int | None = None
) -> InvalidError:
    """The error for input files that were not found; ``looked`` says where they were sought."""
    return InvalidError(
        f"{len(names)} input files are missing: {some(names)}"
        if len(names) > 1
        else f"the input file {names[0]!r} is missing",
        source=source,
        line=line,
        hint=f"looked {looked}; --inputs DIR names another place, and --emulate needs no "
        "input files",
    )


def folders(places: Iterable[Path]) -> str:
    """The absolute paths of folders, for messages."""
    return "in " + " and ".join(str(place.absolute()) for place in places)
