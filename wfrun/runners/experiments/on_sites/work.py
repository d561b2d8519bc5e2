"""The input file of tasks that simulate: a pickle of the simulation, and the cells of each task.

A pickle is safe here, because only this installation writes it, for its own tasks. The files that
the simulation reads are staged as inputs of the tasks; ``read`` replaces their paths in the pickle
by the paths of the staged copies.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wfrun.engine.errors import InvalidError
from wfrun.parsers.atomic import drafted

NAME = "work.pickle"
"""Name of the file in the sandbox."""

Files = Mapping[Path, Sequence[Path]]
"""Files that a simulation reads, by the path of the file or folder that the simulation was
given."""


class Work(NamedTuple):
    """The content of the file."""

    simulate: Callable[[Any], Any]
    chunks: Sequence[Sequence[Any]]
    """The cells of each task."""


def staged(files: Files) -> dict[str, Path]:
    """The inputs of a task: paths on this machine by name in the sandbox."""
    return {
        os.path.join(_name(number, path), found.relative_to(path)) if found != path else
        _name(number, path): found
        for number, (path, all_found) in enumerate(files.items())
        for found in all_found
    }  # fmt: skip


def _name(number: int, path: Path) -> str:
    return f"files/{number}/{path.name or 'folder'}"


def write(work: Work, files: Files, path: Path) -> None:
    """Write ``work`` to ``path``. Paths of ``files`` in the simulation are written as names in the
    sandbox."""
    names = {str(place): _name(number, place) for number, place in enumerate(files)}
    with drafted(path, 0o600) as stream:
        _Pickler(stream, names).dump(work)


def read(path: Path) -> Work:
    """Read the content of the file. Paths of staged files are relative to the current folder."""
    with path.open("rb") as stream:
        work = _Unpickler(stream).load()
    assert isinstance(work, Work)
    return work


class _Pickler(pickle.Pickler):
    def __init__(self, stream: Any, names: Mapping[str, str]) -> None:
        super().__init__(stream, pickle.HIGHEST_PROTOCOL)
        self._names = names

    def persistent_id(self, obj: Any) -> tuple[bool, str] | None:
        is_path = isinstance(obj, Path)
        name = self._names.get(str(obj)) if is_path or type(obj) is str else None
        return None if name is None else (is_path, name)


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> str | Path:
        is_path, name = pid
        return Path(name) if is_path else str(name)


def check_readable(files: Files) -> None:
    """Raise InvalidError for the first of the files that cannot be read."""
    for found in files.values():
        for path in found:
            if not os.access(path, os.R_OK):
                raise InvalidError("the file cannot be read", source=str(path))
