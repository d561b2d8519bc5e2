"""Copies files within the file system of a head node.

A program that is passed to ``python -c``. It reads ``{"files": [[source, temporary, final, mode,
digest], ...]}`` on stdin. Each file is copied to its temporary name, compared with its digest
unless that is null, and renamed to its final name. The program prints a list with an item for each
file: ``[size, null]``, or ``[null, [kind, message]]`` if the file was not copied. The kind is
``uncarried`` (no regular file), ``absent``, ``infeasible`` or ``transient``. It needs only the
standard library of Python >= 3.6.

A copy shares the blocks of its source if the file system supports it (ioctl_ficlone(2)). Else the
kernel copies the data if it can (copy_file_range(2)).
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Optional, Tuple

FICLONE = 0x40049409
"""Number of the ioctl that shares the blocks of a file, from linux/fs.h."""
CHUNK_BYTES = 1 << 24
READ_BYTES = 1 << 20
PASSING = (
    errno.EAGAIN,
    errno.EBUSY,
    errno.EINTR,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ESTALE,
    errno.ETIMEDOUT,
)
"""Values of errno after which a retry may succeed."""


class FailedError(Exception):
    """A file was not copied. Arguments: the kind of failure, as it is printed, and a message."""


def copy(source: str, temporary: str, final: str, mode: int, digest: "Optional[str]") -> int:
    """Copy one file; returns its size. Raises OSError, FailedError."""
    reader = open_regular(source)
    try:
        size = os.fstat(reader).st_size
        with contextlib.suppress(FileExistsError):
            os.makedirs(os.path.dirname(temporary), 0o700)
        writer = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            try:
                fill(reader, writer, size)
                if {os.fstat(fd).st_size for fd in (reader, writer)} != {size}:
                    raise FailedError("transient", "%s changed while it was copied" % source)
                if digest is not None and digest_of(writer) != digest:
                    what = "its checksum is not that of the file that was to be copied"
                    raise FailedError("transient", "%s: %s" % (final, what))
                os.fchmod(writer, mode)
            finally:
                os.close(writer)  # A network file system reports a full disk here at the latest.
            put_in_place(temporary, final)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        return size
    finally:
        os.close(reader)


def open_regular(path: str) -> int:
    """Open a regular file. Raises OSError, or FailedError if the file is absent or not regular. A
    link is not followed, since the other side might not be allowed to read its target."""
    try:
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FailedError("uncarried", "copies no links") from None
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise FailedError("absent", path) from None
        raise
    if not stat.S_ISREG(os.fstat(reader).st_mode):
        os.close(reader)
        raise FailedError("uncarried", "copies regular files alone")
    return reader


def fill(reader: int, writer: int, size: int) -> None:
    """Copy the content, by the fastest way that the file system has. Holes stay holes."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(writer, FICLONE, reader)
        return
    os.ftruncate(writer, size)
    position = 0
    while position < size:
        try:
            position = os.lseek(reader, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # There is no data after this position.
                return
            raise
        end = os.lseek(reader, position, os.SEEK_HOLE)
        while position < end:
            copied = copy_chunk(reader, writer, position, end - position)
            if not copied:
                raise FailedError("transient", "the file became shorter while it was copied")
            position += copied


def copy_chunk(reader: int, writer: int, position: int, count: int) -> int:
    """Copy at most ``count`` bytes at ``position``; returns their number, 0 at the end."""
    by_range = getattr(os, "copy_file_range", None)  # since Python 3.8
    if by_range is not None:
        # Errors, such as one of two file systems, come from the other way, too.
        with contextlib.suppress(OSError):
            copied = by_range(reader, writer, min(count, CHUNK_BYTES), position, position)
            if copied:
                return int(copied)
    return os.pwrite(writer, os.pread(reader, min(count, READ_BYTES), position), position)


def digest_of(fd: int) -> str:
    """The SHA-256 digest of an open file, in hex as in ``digests.py``."""
    total = hashlib.sha256()
    position = 0
    while True:
        data = os.pread(fd, READ_BYTES, position)
        if not data:
            return total.hexdigest()
        total.update(data)
        position += len(data)


def put_in_place(temporary: str, final: str) -> None:
    """Rename a complete copy to ``final``, where an existing file or directory is deleted."""
    try:
        os.rename(temporary, final)
    except OSError as error:
        if error.errno not in (errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST):
            raise
        shutil.rmtree(final)
        os.rename(temporary, final)


def answer_to(file: "List[Any]") -> "Tuple[Optional[int], Optional[Tuple[str, str]]]":
    """Copy one file; returns its item of the printed list."""
    try:
        return copy(*file), None
    except FailedError as error:
        return None, error.args
    except OSError as error:
        kind = "transient" if error.errno in PASSING else "infeasible"
        return None, (kind, "%s cannot be written: %s" % (file[2], error.strerror))


def main() -> None:
    """Copy the files named on stdin, and print the results."""
    question = json.load(sys.stdin)
    print(json.dumps([answer_to(file) for file in question["files"]]))


if __name__ == "__main__":
    main()
