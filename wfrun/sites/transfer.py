"""Copies between sites on this machine, each with a directory of its own."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import shutil
import stat
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.model import ORIGIN, LinkSpec
from wfrun.engine.records import Receipt

_CHUNK_BYTES = 16 << 20
_PART = ".wfrun-part-"
"""Begins the names of copies that are not complete."""
_HOPELESS = {
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
_NOT_IN_KERNEL = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EBADF}


class _Link:
    """A link of the grid carries one file after another."""

    def __init__(self, spec: LinkSpec) -> None:
        self._spec = spec
        self._busy_until_s = 0.0

    def occupy(self, asked_s: float, size_bytes: int) -> float:
        """Take the next free time of the link; returns when the last byte has arrived."""
        begin_s = max(asked_s, self._busy_until_s)
        bandwidth = self._spec.bandwidth_bytes_per_s
        if bandwidth is not None:
            self._busy_until_s = begin_s + size_bytes / bandwidth
        else:
            self._busy_until_s = begin_s
        return self._busy_until_s + self._spec.latency_s


class LocalTransfer:
    """Implements ``Transfer`` between the file stores of local sites.

    ``stores`` and ``site_names`` are in the order of the sites; ``links`` name sites, or
    ``origin``. A link with a bandwidth carries no more than that, in the order of arrival, and
    every file arrives ``latency_s`` after its last byte was sent. Pairs of sites without an entry
    are as fast as the disk. At most ``slots`` files are copied at once.

    A file becomes read-only in a store (its execute permission is kept) and writable for its
    owner at ORIGIN. Directories can be copied too; sparse files stay sparse.
    """

    def __init__(
        self,
        stores: Sequence[Path],
        links: Sequence[LinkSpec],
        site_names: Sequence[str],
        *,
        slots: int = 8,
    ) -> None:
        self._stores = tuple(stores)
        numbers = {name: number for number, name in enumerate(site_names)}
        numbers["origin"] = ORIGIN
        self._links = {
            (numbers[link.source], numbers[link.destination]): _Link(link)
            for link in links
            if link.source in numbers and link.destination in numbers
        }
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="transfer")
        self._aborted = threading.Event()
        self._serial = itertools.count()

    def _path(self, site: int, name: str) -> Path:
        return Path(name) if site == ORIGIN else self._stores[site] / name

    async def copy(
        self, source: int, source_path: str, destination: int, destination_path: str
    ) -> Receipt:
        """Copy one file or directory; what was there under its name is replaced at the end.

        Raises InfeasibleError when the source is absent or the destination can't take it (full,
        read-only, no permission), TransientError for any other failure. Nothing is left behind.
        """
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        origin = self._path(source, source_path)
        final = self._path(destination, destination_path)
        temporary = final.with_name(f"{_PART}{os.getpid()}-{next(self._serial)}")
        writable = destination == ORIGIN
        abort = threading.Event()
        work: Future[int] = self._pool.submit(
            _copy, origin, temporary, writable, (abort, self._aborted)
        )
        try:
            size_bytes = await asyncio.wrap_future(work)
            link = self._links.get((source, destination))
            if link is not None:
                arrival_s = link.occupy(asked_s, size_bytes)
                await asyncio.sleep(max(0.0, arrival_s - loop.time()))
            _replace(temporary, final)
        except OSError as error:
            raise _explain(error, origin, final) from error
        finally:
            # Also after a cancellation, when the thread may still be at work.
            abort.set()
            work.add_done_callback(lambda _: _remove(temporary))
        return Receipt(size_bytes, loop.time() - asked_s)

    def close(self) -> None:
        """Abort what is being copied and end the threads."""
        self._aborted.set()
        self._pool.shutdown(wait=True, cancel_futures=True)


def remove_parts(directory: Path) -> None:
    """Remove what copies into ``directory`` or below it left when their process was killed. None
    may be under way there."""
    for path in list(directory.rglob(f"{_PART}*")):
        _remove(path)


def _explain(error: OSError, source: Path, destination: Path) -> WfrunError:
    if error.errno == errno.ENOENT and not source.exists():
        return InfeasibleError(
            f"{source} can't be copied: it is absent",
            hint="Was it removed, or the task that writes it run elsewhere?",
        )
    message = f"{source} can't be copied to {destination}: {error.strerror or error}"
    if error.errno in _HOPELESS:
        return InfeasibleError(message, hint="Make room at the destination, or check permissions.")
    return TransientError(message)


def _copy(
    source: Path, temporary: Path, writable: bool, aborts: tuple[threading.Event, ...]
) -> int:
    """Copy to a temporary name; returns the size in bytes. Runs in a thread."""
    temporary.parent.mkdir(parents=True, exist_ok=True)
    if not source.is_dir():
        return _copy_file(source, temporary, writable, aborts)
    size_bytes = 0
    for directory, names, files in os.walk(source):
        target = temporary / Path(directory).relative_to(source)
        target.mkdir()
        for name in (*names, *files):
            member = Path(directory, name)
            if member.is_symlink():
                (target / name).symlink_to(os.readlink(member))
            elif name in files:
                size_bytes += _copy_file(member, target / name, writable, aborts)
    return size_bytes


def _copy_file(
    source: Path, target: Path, writable: bool, aborts: tuple[threading.Event, ...]
) -> int:
    # Not blocking, lest the thread wait for somebody to write into a named pipe.
    reader = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(reader)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is neither a file nor a directory", str(source))
        writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _copy_content(reader, writer, status.st_size, aborts)
            mode = 0o555 if status.st_mode & 0o111 else 0o444
            os.fchmod(writer, mode | 0o200 if writable else mode)
        finally:
            os.close(writer)  # Where a network file system says at last that it is full.
    finally:
        os.close(reader)
    return status.st_size


def _copy_content(
    reader: int, writer: int, size_bytes: int, aborts: tuple[threading.Event, ...]
) -> None:
    """Copy what there is between the holes, and check that it was all of it."""
    os.ftruncate(writer, size_bytes)
    position = 0
    while position < size_bytes:
        try:
            position = os.lseek(reader, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # Only a hole is left.
                raise
            break
        end = os.lseek(reader, position, os.SEEK_HOLE)
        while position < end:
            if any(abort.is_set() for abort in aborts):
                raise OSError(errno.EINTR, "the transfer was cancelled")
            count = min(end - position, _CHUNK_BYTES)
            copied = _copy_chunk(reader, writer, position, count)
            if copied == 0:
                raise OSError(errno.EAGAIN, "the file became shorter while it was copied")
            position += copied
    if os.fstat(reader).st_size != size_bytes:
        raise OSError(errno.EAGAIN, "the file changed its size while it was copied")


def _copy_chunk(reader: int, writer: int, position: int, count: int) -> int:
    """Copy at most ``count`` bytes at ``position``, in the kernel if it can; returns how many."""
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


def _replace(temporary: Path, final: Path) -> None:
    """Give the copy its name; only what it replaces can be seen until then."""
    try:
        temporary.rename(final)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR, errno.ENOTDIR):
            raise
        _remove(final)
        temporary.rename(final)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        path.unlink()
