"""Files and programs that documents name: where they are, and messages for missing ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import File
from wfrun.engine.visible import command_line
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
    """The first of the paths that is a file that may not be executed."""
    # os.path takes names that no file can have, from hostile documents.
    files = (path for path in paths if os.path.isfile(path))
    return next((path for path in files if not os.access(path, os.X_OK)), None)


def locked_program(path: Path, source: str, line: int | None = None) -> InvalidError:
    """The error for a program that is there, but may not be executed."""
    return InvalidError(
        f"the executable {path} may not be executed",
        source=source,
        line=line,
        hint=f"make it executable: {command_line('chmod', '+x', path)}",
    )


def in_path(program: str, path: str | None) -> Iterator[Path]:
    """Where the program is sought: in the folders of ``path``; None: of the PATH."""
    folders = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
    return (Path(folder) / program for folder in folders if folder)


def is_inside(path: str, folder: Path) -> bool:
    """Whether an absolute path leads into the folder."""
    return Path(os.path.normpath(path)).is_relative_to(folder.absolute())


def some(names: Iterable[str]) -> str:
    """The first names of a list, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more


def missing_inputs(
    names: Sequence[str], looked: str, source: str, line: int | None = None, *, all_: bool = True
) -> InvalidError:
    """The error for input files that were not found; ``looked`` says where they were sought. Not
    ``all_``: further ones may be missing."""
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


def check_url(file: File, source: str, allow_urls: str) -> None:
    """Raise InvalidError for an input whose URL is not fetched."""
    # Imported lazily: few runs fetch files, and the libraries of the schemes take long.
    from wfrun.sites.transfers.urls import SCHEMES
    from wfrun.sites.transfers.urls.source import allowed_hosts, host_of

    host = host_of(file.url or "")
    if host is None or scheme_of(file.url or "") not in SCHEMES:
        hint = f"URLs of {', '.join(SCHEMES)} are fetched; --inputs DIR names a folder that has it"
    elif host not in allowed_hosts(allow_urls):
        hint = f"--allow-urls {host} fetches it; --inputs DIR names a folder that has it"
    else:
        return
    raise InvalidError(
        f"the input file {file.name!r} is at {file.url}, from where it is not fetched",
        source=source,
        hint=hint,
    )


def folders(places: Iterable[Path]) -> str:
    """The absolute paths of folders, for messages."""
    return "in " + " and ".join(str(place.absolute()) for place in places)
