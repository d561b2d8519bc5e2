"""Files of this machine: copied by the kernel, renamed into place, removed."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import threading
from pathlib import Path

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.files.copies import SMALL_BYTES
from wfrun.sites.node.tasks.outputs import stays_inside
from wfrun.sites.remote.agent import write_all as write_fully
from wfrun.sites.transfers.endpoints.endpoint import (
    KEPT_PATTERN,
    PART_PATTERN,
    digest_of,
    file_mode,
)

_CHUNK_BYTES = 16 << 20
"""Maximum number of bytes copied between two checks of the abort flags."""
MANY_FILES = 1000
"""Number of files of a directory above which its whole file system is synced. An fsync of each file
does not wait for other data, but takes 5 ms even for a tiny file."""
_MAKE_ROOM = "Make room at the destination, or check permissions."
_PERMANENT = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.ENAMETOOLONG,
    errno.EFBIG,
    errno.ELOOP,
    errno.EINVAL,
}
"""Errors that a retry does not mend."""
_NOT_IN_KERNEL = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EBADF}
"""Errors of copy_file_range after which the file is read and written instead."""


def copy_path(
    source: Path,
    temporary: Path,
    writable: bool,
    aborts: tuple[threading.Event, ...],
    *,
    links_may_leave: bool = False,
) -> int:
    """Copy a file or directory to a new name; returns the size of its files in bytes.

    Runs in a thread, and raises OSError soon after one of ``aborts`` is set. Symbolic links in a
    directory are copied as links. Raises InfeasibleError for a link that leads out of the
    directory, unless ``links_may_leave``, which is for the user's own directories.
    """
    make_folders(temporary.parent)
    if not source.is_dir():
        return _copy_file(source, temporary, writable, aborts, synced=True)
    size_bytes = 0
    for directory, names, files in os.walk(source):
        target = temporary / Path(directory).relative_to(source)
        target.mkdir()
        for name in (*names, *files):
            member = Path(directory, name)
            if member.is_symlink():
                if not (links_may_leave or stays_inside(str(source), str(member))):
                    inner = member.relative_to(source)
                    raise InfeasibleError(
                        f"{source} cannot be copied: its link {str(inner)!r} leads out of it",
                        hint="Look at this directory: wfrun has put no such link there.",
                    )
                (target / name).symlink_to(os.readlink(member))
            elif name in files:
                size_bytes += _copy_file(member, target / name, writable, aborts, synced=False)
    # When all are written, the disk takes them together.
    sync_tree(temporary, aborts)
    return size_bytes


def open_regular(path: str | Path, flags: int = 0) -> int:
    """Open a file for reading; returns its descriptor. Raises OSError for a pipe or a device, which
    may have no end."""
    # Without O_NONBLOCK it would wait for a writer of a named pipe.
    reader = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(reader).st_mode):
        os.close(reader)
        raise OSError(errno.EINVAL, "it is neither a file nor a directory", str(path))
    return reader


def _copy_file(
    source: Path,
    target: Path,
    writable: bool,
    aborts: tuple[threading.Event, ...],
    *,
    synced: bool,
) -> int:
    reader = open_regular(source)
    try:
        status = os.fstat(reader)
        writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _copy_content(reader, writer, status.st_size, aborts)
            os.fchmod(writer, file_mode(bool(status.st_mode & 0o111), writable))
            # Before the log says that the file is there: it may be durable long before the data,
            # and after a power failure the file would have its length, and zeros for content.
            if synced:
                os.fsync(writer)
        finally:
            os.close(writer)  # A network file system reports a full disk here at the latest.
    finally:
        os.close(reader)
    return status.st_size


def _copy_content(
    reader: int, writer: int, size_bytes: int, aborts: tuple[threading.Event, ...]
) -> None:
    """Copy the data between the holes; raises OSError if the file's size changed meanwhile."""
    os.ftruncate(writer, size_bytes)
    position = 0
    while position < size_bytes:
        try:
            position = os.lseek(reader, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # There is no data after this position.
                raise
            break
        end = os.lseek(reader, position, os.SEEK_HOLE)
        while position < end:
            _check(aborts)
            count = min(end - position, _CHUNK_BYTES)
            copied = _copy_chunk(reader, writer, position, count)
            if copied == 0:
                raise OSError(errno.EAGAIN, "the file became shorter while it was copied")
            position += copied
    if os.fstat(reader).st_size != size_bytes:
        raise OSError(errno.EAGAIN, "the file changed its size while it was copied")


def _check(aborts: tuple[threading.Event, ...]) -> None:
    if any(abort.is_set() for abort in aborts):
        raise OSError(errno.EINTR, "the transfer was cancelled")


def _copy_chunk(reader: int, writer: int, position: int, count: int) -> int:
    """Copy at most ``count`` bytes at ``position``, in the kernel if it can; returns the number
    of bytes copied, 0 at the end of the file."""
    try:
        copied = os.copy_file_range(reader, writer, count, position, position)
    except OSError as error:
        if error.errno not in _NOT_IN_KERNEL:
            raise
        copied = 0
    if copied:
        return copied
    data = os.pread(reader, min(count, 1 << 20), position)
    return os.pwrite(writer, data, position)


def is_small(source: Path) -> bool:
    """Whether a path is a small file. Raises OSError where it is absent."""
    status = source.stat()
    return stat.S_ISREG(status.st_mode) and status.st_size <= SMALL_BYTES


def copy_small(source: Path, temporary: Path, writable: bool) -> tuple[int, str] | None:
    """Copy a small file to a new name through memory. Returns its size in bytes and the digest of
    the written content; None if the source is not a small file. Raises OSError."""
    if source.is_dir():
        return None
    reader = open_regular(source)
    try:
        status = os.fstat(reader)
        if status.st_size > SMALL_BYTES:
            return None
        content = os.read(reader, SMALL_BYTES + 1)
    finally:
        os.close(reader)
    if len(content) != status.st_size:
        raise OSError(errno.EAGAIN, "the file changed its size while it was copied")
    make_folders(temporary.parent)
    write_new(temporary, content, file_mode(bool(status.st_mode & 0o111), writable))
    return len(content), digest_of(content)


def write_new(path: str | Path, content: bytes, mode: int) -> None:
    """Write a new file durably. Raises OSError."""
    writer = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        write_fully(writer, content)
        os.fchmod(writer, mode)
        os.fsync(writer)
    finally:
        os.close(writer)


def size_of(source: Path) -> int:
    """Size of a file, or of all files below a directory except symbolic links, in bytes."""
    if not source.is_dir():
        return source.stat().st_size
    return sum(
        path.stat().st_size
        for directory, _, names in os.walk(source)
        for name in names
        if not (path := Path(directory, name)).is_symlink()
    )


def replace(temporary: Path, final: Path) -> None:
    """Rename a complete copy to its final name, replacing a file or directory there."""
    try:
        temporary.rename(final)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR, errno.ENOTDIR):
            raise
        remove(final)
        temporary.rename(final)


def make_folders(path: Path) -> None:
    """Make a directory and its parents durably, where they do not exist."""
    if not path.is_dir():
        make_folders(path.parent)
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a directory durable, if the file system supports that."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def sync_tree(path: Path, aborts: tuple[threading.Event, ...] = ()) -> None:
    """Make all files of a directory and their names durable. Raises OSError if the disk fails to
    store a file, or soon after one of ``aborts`` is set."""
    folders = [(Path(folder), names) for folder, _, names in os.walk(path)]
    if sum(len(names) for _, names in folders) > MANY_FILES and _sync_file_system(path):
        return
    for folder, names in folders:
        for name in names:
            _check(aborts)
            _sync_file(folder / name)
        sync_folder(folder)


def _sync_file(path: Path) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # a link, or a file that its owner may not read
        return
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a pipe
            raise
    finally:
        os.close(fd)


def _sync_file_system(path: Path) -> bool:
    """Make all of a file system durable (syncfs(2)); returns False where there is no such call."""
    # Imported lazily: few directories have many files.
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:
        return False
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if call(fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(fd)
    return True


def remove(path: Path) -> None:
    """Remove a file or directory. Ignores errors, such as an absent path."""
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def left_part(path: Path) -> int | None:
    """Size in bytes of the part that an earlier copy has left at ``path``; the part becomes
    writable. If something else is there, remove it. Returns None if there is no part."""
    with contextlib.suppress(OSError):
        found = os.lstat(path)
        if stat.S_ISREG(found.st_mode):
            os.chmod(path, 0o600)
            return found.st_size
    remove(path)
    return None


def remove_parts(directory: Path, *, kept: bool) -> None:
    """Remove the incomplete copies that a killed process left in and below a directory. With
    ``kept``, also remove incomplete copies that a later copy could resume. No copy into the
    directory may be running."""
    for path in list(directory.rglob(PART_PATTERN)):
        if kept or not path.match(KEPT_PATTERN):
            remove(path)


def explain(error: OSError, source: Path, destination: Path) -> WfrunError:
    """The error of a copy that failed."""
    if error.errno == errno.ENOENT and not source.exists():
        return absent(str(source))
    return _failed(f"{source} cannot be copied to {destination}", error)


def explain_read(error: OSError, source: Path) -> WfrunError:
    """The error of a failed read of a source file on this machine."""
    return _failed(f"{source} cannot be read", error, "Was it removed? Check permissions.")


def explain_write(error: OSError, destination: Path) -> WfrunError:
    """The error of a failed write of a destination file on this machine."""
    return _failed(f"{destination} cannot be written", error)


def _failed(what: str, error: OSError, hint: str = _MAKE_ROOM) -> WfrunError:
    message = f"{what}: {error.strerror or error}"
    if error.errno in _PERMANENT:
        return InfeasibleError(message, hint=hint)
    return TransientError(message)


def absent(path: str) -> InfeasibleError:
    """The error of a copy whose source is absent."""
    return InfeasibleError(
        f"{path} cannot be copied: it is absent",
        hint="Was it removed, or did the task that writes it run elsewhere?",
    )
