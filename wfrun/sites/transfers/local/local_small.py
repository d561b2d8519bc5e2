"""Small files of this machine, many in one call of a thread.

For a single file the change of threads would take longer than reading or writing it.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from stat import S_ISDIR
from typing import NamedTuple

from wfrun.engine.errors import WfrunError
from wfrun.engine.files.copies import SHARED_BYTES
from wfrun.sites.remote.host import Stat
from wfrun.sites.transfers.endpoints.endpoint import check_size, compare_digests, digest_of
from wfrun.sites.transfers.local.disk import (
    copy_path,
    copy_small,
    explain,
    explain_read,
    explain_write,
    is_small,
    make_folders,
    open_regular,
    remove,
    replace,
    sync_folder,
    write_new,
)

_SYNC_THREADS = 8
"""Number of files whose content is made durable at once. They share commits of the file system's
journal."""


Copied = tuple[int, str | None] | WfrunError | None
"""Result of a copy: size in bytes and digest of the file, or the error; None if it is no small
file."""


class SmallFile(NamedTuple):
    """A file to be written. ``digest`` is compared with the content, unless it is None."""

    final: str
    temporary: str
    content: bytes
    mode: int
    size_bytes: int | None
    digest: str | None


class SmallCopy(NamedTuple):
    """A file to be copied within this machine. If ``is_compared``, the digest of the copy is
    computed, and compared with ``digest`` unless that is None."""

    source: Path
    temporary: Path
    final: Path
    is_output: bool
    """Whether the copy is a final output. Its copies at sites may be removed next, so its name is
    made durable."""
    is_compared: bool
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
    """At most the first SHARED_BYTES + 1 bytes of each file, or its error. Receivers refuse a
    longer file by its size."""
    return [_read(path) for path in paths]


def _read(path: str) -> bytes | WfrunError:
    try:
        with open(path, "rb", opener=open_regular) as file:
            return file.read(SHARED_BYTES + 1)
    except OSError as error:
        return explain_read(error, Path(path))


def lstat_all(paths: Sequence[str]) -> list[os.stat_result | None]:
    """Status of each path; for a symbolic link, its own. None if the path is absent or its status
    cannot be read."""
    return [_lstat(path) for path in paths]


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def copy_all(copies: Sequence[SmallCopy], aborted: threading.Event) -> list[Copied]:
    """Copy each file under its temporary name, make its content durable, and rename it. The names
    of final outputs are made durable, too. Returns for each file its size in bytes and digest, or
    an error, or None if it is not a small file. Nothing is copied once ``aborted`` is set."""

    def copy(one: SmallCopy) -> Copied:
        return _copy(one, aborted)

    with ThreadPoolExecutor(min(_SYNC_THREADS, len(copies)), "transfer") as pool:
        answers = list(pool.map(copy, copies))
    for folder in {one.final.parent for one in copies if one.is_output}:
        sync_folder(folder)
    return answers


def _copy(one: SmallCopy, aborted: threading.Event) -> Copied:
    source, temporary = one.source, one.temporary
    found: tuple[int, str | None] | None
    try:
        if aborted.is_set():
            raise OSError(errno.EINTR, "the transfer was cancelled")
        if one.is_compared:
            found = copy_small(source, temporary, one.is_output)
        elif is_small(source):
            found = copy_path(source, temporary, one.is_output, (aborted,)), None
        else:
            found = None
        if found is None:
            return None
        check_size(str(source), found[0], one.size_bytes)
        if one.digest is not None:
            compare_digests(str(one.final), found[1], one.digest)
        replace(temporary, one.final)
    except WfrunError as error:
        remove(temporary)
        return error
    except OSError as error:
        remove(temporary)
        return explain(error, source, one.final)
    return found


def write_all(files: Sequence[SmallFile], *, sync_names: bool) -> list[WfrunError | None]:
    """Write each file under its temporary name, make its content durable, and rename it. With
    ``sync_names`` the final name is made durable, too. Returns the error of each file, None if it
    has none."""
    with ThreadPoolExecutor(min(_SYNC_THREADS, len(files)), "transfer") as pool:
        errors = list(pool.map(_write, files))
    if sync_names:
        for folder in {os.path.dirname(file.final) for file in files}:
            sync_folder(Path(folder))
    return errors


def _write(file: SmallFile) -> WfrunError | None:
    # Paths are made where they are needed: a Path takes as long as the system calls for the file.
    try:
        check_size(file.final, len(file.content), file.size_bytes)
        if file.digest is not None:
            compare_digests(file.final, digest_of(file.content), file.digest)
        folder = os.path.dirname(file.final)
        if not os.path.isdir(folder):
            make_folders(Path(folder))
        write_new(file.temporary, file.content, file.mode)
        try:
            os.rename(file.temporary, file.final)
        except OSError:  # of a directory, which has to be removed first
            replace(Path(file.temporary), Path(file.final))
    except WfrunError as error:
        return error
    except OSError as error:
        remove(Path(file.temporary))
        return explain_write(error, Path(file.final))
    return None
