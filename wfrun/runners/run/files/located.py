"""Locates files and programs that documents name, and makes the messages for missing ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from wfrun.engine.errors import InvalidError
from wfrun.engine.explain.visible import command_line
from wfrun.parsers.file_urls import path_of_url, scheme_of

SHOWN = 20
"""Maximum number of missing files or programs that a message names."""


def local_path(url: str) -> str | None:
    """The path that a ``file:`` URL or a plain path names; None for other URLs."""
    return path_of_url(url) if scheme_of(url) else url


def is_program(path: Path) -> bool:
    """Whether this is a file that may be executed."""
    return path.is_file() and os.access(path, os.X_OK)


def find_locked(paths: Iterable[Path]) -> Path | None:
    """The first path to a file that the user may not execute; None if there is no such file."""
    # os.path takes names that no file can have, from hostile documents.
    files = (path for path in paths if os.path.isfile(path))
    return next((path for path in files if not os.access(path, os.X_OK)), None)


def locked_program(path: Path, source: str, line: int | None = None) -> InvalidError:
    """The error for a program that exists but is not executable."""
    return InvalidError(
        f"the executable {path} may not be executed",
        source=source,
        line=line,
        hint=f"make it executable: {command_line('chmod', '+x', path)}",
    )


def in_path(program: str, path: str | None) -> Iterator[Path]:
    """The paths at which to look for a program: in the folders of ``path``, or of the environment
    variable PATH if ``path`` is None."""
    folders = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
    return (Path(folder) / program for folder in folders if folder)


def is_inside(path: str, folder: Path) -> bool:
    """Whether an absolute path leads into the folder."""
    return Path(os.path.normpath(path)).is_relative_to(folder.absolute())


def some(names: Iterable[str]) -> str:
    """The first `SHOWN` names of a list, and the number of further names, for messages."""
    listed = list(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more


def missing_inputs(
    names: Sequence[str], looked: str, source: str, line: int | None = None, *, all_: bool = True
) -> InvalidError:
    """The error for input files that were not found. ``looked`` names the places of the search.
    ``all_`` is False if further files may be missing."""
    count = f"{len(names)}" if all_ else f"{len(names)} or more"
    return InvalidError(
        f"{count} input files are missing: {some(names)}"
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
