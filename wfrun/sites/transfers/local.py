"""Copies between sites on this machine, each with a directory of its own."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import heapq
import itertools
import os
import shutil
import stat
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.exchange import Receipt
from wfrun.engine.model import ORIGIN, LinkSpec

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
    """A link of the grid. The files on it share its bandwidth evenly, as `SimNetwork` has it, and
    as connections over a line do; a file takes part after the latency.

    ``_served`` counts what a file has got that has been there since the link was last idle, so that
    each ends at a count that is known when it begins (Demers, Keshav and Shenker 1989).
    """

    def __init__(self, spec: LinkSpec) -> None:
        self._bandwidth = spec.bandwidth_bytes_per_s
        self._latency_s = spec.latency_s
        self._served = 0.0
        self._settled_s = 0.0
        """When ``_served`` was that."""
        self._ends: list[tuple[float, int, asyncio.Future[None]]] = []
        """A heap: the count at which a file has arrived, its number, and who waits for it."""
        self._serial = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    async def carry(self, size_bytes: int) -> None:
        """Return when so many bytes have arrived; a cancelled file leaves the link."""
        await asyncio.sleep(self._latency_s)
        if self._bandwidth is None:
            return
        loop = asyncio.get_running_loop()
        self._settle(loop)
        arrived = loop.create_future()
        entry = (self._served + size_bytes, next(self._serial), arrived)
        heapq.heappush(self._ends, entry)
        self._settle(loop)
        try:
            await arrived
        except asyncio.CancelledError:
            self._settle(loop)
            if entry in self._ends:
                self._ends.remove(entry)
                heapq.heapify(self._ends)
                self._settle(loop)
            raise

    def _settle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let arrive what has arrived until now, each at its time, and be called for the next."""
        assert self._bandwidth is not None
        now_s = loop.time()
        due_s = now_s
        while self._ends:
            end, _, arrived = self._ends[0]
            due_s = self._settled_s + (end - self._served) * len(self._ends) / self._bandwidth
            if due_s > now_s:
                self._served += self._bandwidth / len(self._ends) * (now_s - self._settled_s)
                break
            heapq.heappop(self._ends)
            self._served, self._settled_s = end, max(due_s, self._settled_s)
            if not arrived.done():
                arrived.set_result(None)
        else:
            self._served = 0.0
        self._settled_s = now_s
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(due_s, self._settle, loop) if self._ends else None


class LocalTransfer:
    """Implements ``Transfer`` between the file stores of local sites.

    ``stores`` and ``site_names`` are in the order of the sites; ``links`` name sites, or
    ``origin``. The files on a link share its bandwidth evenly; a file takes part in that
    ``latency_s`` after it was asked for. Pairs of sites without an entry are as fast as the disk.
    At most ``slots`` files are copied at once.

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

    def path(self, site: int, name: str) -> Path:
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
        origin = self.path(source, source_path)
        final = self.path(destination, destination_path)
        temporary = final.with_name(f"{_PART}{os.getpid()}-{next(self._serial)}")
        writable = destination == ORIGIN
        abort = threading.Event()
        work: Future[int] = self._pool.submit(
            _copy, origin, temporary, writable, (abort, self._aborted)
        )
        arrival: asyncio.Task[None] | None = None
        try:
            link = self._links.get((source, destination))
            if link is not None:  # the disk's time is part of the link's
                arrival = asyncio.create_task(link.carry(_size_bytes(origin)))
            size_bytes = await asyncio.wrap_future(work)
            if arrival is not None:
                await arrival
            replace(temporary, final)
        except OSError as error:
            raise explain(error, origin, final) from error
        finally:
            # Also after a cancellation, when the thread may still be at work.
            abort.set()
            if arrival is not None:
                arrival.cancel()
            work.add_done_callback(lambda _: remove(temporary))
        return Receipt(size_bytes, loop.time() - asked_s)

    def close(self) -> None:
        """Abort what is being copied and end the threads."""
        self._aborted.set()
        self._pool.shutdown(wait=True, cancel_futures=True)


def remove_parts(directory: Path) -> None:
    """Remove what copies into ``directory`` or below it left when their process was killed. None
    may be under way there."""
    for path in list(directory.rglob(f"{_PART}*")):
        remove(path)


def explain(error: OSError, source: Path, destination: Path) -> WfrunError:
    if error.errno == errno.ENOENT and not source.exists():
        return InfeasibleError(
            f"{source} can't be copied: it is absent",
            hint="Was it removed, or the task that writes it run elsewhere?",
        )
    message = f"{source} can't be copied to {destination}: {error.strerror or error}"
    if error.errno in _HOPELESS:
        return InfeasibleError(message, hint="Make room at the destination, or check permissions.")
    return TransientError(message)


def _size_bytes(source: Path) -> int:
    """Of a file, or of all that a directory holds."""
    if not source.is_dir():
        return source.stat().st_size
    return sum(
        path.stat().st_size
        for directory, _, names in os.walk(source)
        for name in names
        if not (path := Path(directory, name)).is_symlink()
    )


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


def replace(temporary: Path, final: Path) -> None:
    """Give the copy its name; only what it replaces can be seen until then."""
    try:
        temporary.rename(final)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR, errno.ENOTDIR):
            raise
        remove(final)
        temporary.rename(final)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        path.unlink()
