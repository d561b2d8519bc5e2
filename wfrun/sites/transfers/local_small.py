"""Small files of this machine, many in one call of a thread.

For each file alone, changing threads would take longer than reading or writing it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from stat import S_ISDIR
from typing import NamedTuple

from wfrun.engine.copies import SHARED_BYTES
from wfrun.engine.errors import WfrunError
from wfrun.sites.remote.host import Stat
from wfrun.sites.transfers.disk import (
    explain_read,
    explain_write,
    make_folders,
    open_regular,
    remove,
    replace,
    sync_folder,
    write_new,
)
from wfrun.sites.transfers.endpoint import check_size, compare_digests, digest_of

_SYNC_THREADS = 8
"""Number of files whose content is made durable at once: they share commits of the file system's
journal."""


class SmallFile(NamedTuple):
    """A file to be written. ``digest`` is compared with the content, unless it is None."""

    final: Path
    temporary: Path
    content: bytes
    mode: int
    size_bytes: int | None
    digest: str | None


def stat_all(paths: Sequence[str]) -> list[Stat | WfrunError | None]:
    """Size and type of each path, symbolic links followed; None if it is absent."""
    return [_stat(path) for path in paths]


def _stat(path: str) -> Stat | WfrunError | None:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return explain_read(error, Path(path))
    return Stat(found.st_size, bool(found.st_mode & 0o111), S_ISDIR(found.st_mode))


def read_all(paths: Sequence[str]) -> list[bytes | WfrunError]:
    """The content of each file, up to SHARED_BYTES + 1 of it: one that is longer is refused by its
    size."""
    return [_read(path) for path in paths]


def _read(path: str) -> bytes | WfrunError:
    try:
        with open(path, "rb", opener=open_regular) as file:
            return file.read(SHARED_BYTES + 1)
    except OSError as error:
        return explain_read(error, Path(path))


def write_all(files: Sequence[SmallFile], *, sync_names: bool) -> list[WfrunError | None]:
    """Write each file under its temporary name, make its content durable, and rename it; with
    ``sync_names`` its name is durable, too. Returns the errors."""
    with ThreadPoolExecutor(min(_SYNC_THREADS, len(files)), "transfer") as pool:
        errors = list(pool.map(_write, files))
    if sync_names:
        for folder in {file.final.parent for file in files}:
            sync_folder(folder)
    return errors


def _write(file: SmallFile) -> WfrunError | None:
    try:
        check_size(str(file.final), len(file.content), file.size_bytes)
        if file.digest is not None:
            compare_digests(str(file.final), digest_of(file.content), file.digest)
        make_folders(file.final.parent)
        write_new(file.temporary, file.content, file.mode)
        replace(file.temporary, file.final)
    except WfrunError as error:
        return error
    except OSError as error:
        remove(file.temporary)
        return explain_write(error, file.final)
    return None
