"""Sizes and digests of stored files and directories.

A digest is SHA-256 in hex, as ``sha256sum`` prints it. The digest of a directory is that of the
sorted list of its members: types, paths, digests of files, targets of links.

On a head node this file is also a program, which is passed to ``python -c``. It reads
``{"paths": [...], "digests": true}`` on stdin, and prints a list with ``[size, digest]`` for each
path, or null for an absent one. Digests are null unless asked for. It needs only the standard
library of Python >= 3.6.
"""

import errno
import json
import os
import stat
import sys
import threading

# Python's own code. OpenSSL is ten times as fast, but its memory would count for every task.
try:
    from _sha256 import sha256  # type: ignore[import-not-found]
except ImportError:
    try:
        from _sha2 import sha256  # type: ignore[import-not-found]  # since Python 3.12
    except ImportError:  # Distributions with FIPS mode leave them out.
        from hashlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

ABSENT = (FileNotFoundError, NotADirectoryError, PermissionError)
"""Exceptions for a file that is absent or that we may not read. Other errors may be transient."""
UNREADABLE = 75
"""The program's exit code after an error that is not in ABSENT."""
READ_BYTES = 1 << 20
PAGE_BYTES = 1 << 12
LARGE_BYTES = 1 << 20
"""Total number of bytes to hash from which OpenSSL is worth loading."""
TINY_BYTES = 1 << 10
"""File size in bytes up to which OpenSSL is no faster."""
INLINE_BYTES = 4 << 20
"""Maximum total size in bytes of outputs that the launcher hashes in its event loop. Larger outputs
of an attempt are hashed by a thread."""


class StillReadingError(Exception):
    """A thread still computes the digests. The call has to be repeated later."""


class _Work:
    own_bytes = 0
    """Number of bytes hashed by Python's own code in this process, tiny files not counted."""


def new_digest(size: int) -> "Any":
    """Make a SHA-256 object for content of about ``size`` bytes. It is OpenSSL's only if the
    content is not tiny, and if OpenSSL is loaded or worth loading for the bytes hashed so far."""
    if size <= TINY_BYTES:
        return sha256()
    if "hashlib" not in sys.modules:
        _Work.own_bytes += size
        if _Work.own_bytes < LARGE_BYTES:
            return sha256()
    import hashlib

    return hashlib.sha256()


def digest_of_bytes(content: bytes) -> str:
    """The digest of a file with this content."""
    total = new_digest(len(content))
    total.update(content)
    return str(total.hexdigest())


def digest_of_file(path: bytes) -> str:
    """The digest of a regular file. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # a file object would cost as much as the rest
    try:
        size = os.fstat(fd).st_size
        total = new_digest(size)
        # A buffer for a large read takes longer than a page.
        count = min(READ_BYTES, size + PAGE_BYTES)
        data = os.read(fd, count)
        while data:
            total.update(data)
            data = os.read(fd, count)
        return str(total.hexdigest())
    finally:
        os.close(fd)


def measure(path: str, with_digest: bool) -> "Tuple[int, Optional[str]]":
    """Size in bytes and digest of a file or directory; without ``with_digest`` the digest is None.
    The size of a directory is the total size of its files. Raises OSError."""
    top = os.fsencode(path)
    status = os.stat(top)
    if not stat.S_ISDIR(status.st_mode):
        return status.st_size, digest_of_file(top) if with_digest else None
    size = 0
    lines = []
    for member in members_of(top):
        whole = os.path.join(top, member)
        status = os.lstat(whole)
        content = b""
        if stat.S_ISREG(status.st_mode):
            size += status.st_size
            content = digest_of_file(whole).encode() if with_digest else b""
        elif stat.S_ISLNK(status.st_mode):
            content = os.readlink(whole)
        elif not stat.S_ISDIR(status.st_mode):
            continue  # a socket or a pipe, which is not copied
        kind = stat.S_IFMT(status.st_mode)
        lines.append(b"%o %d:%s %d:%s\n" % (kind, len(member), member, len(content), content))
    return size, digest_of_bytes(b"".join(lines)) if with_digest else None


def members_of(top: bytes) -> "List[bytes]":
    """The sorted relative paths of everything in a directory, at all levels. Raises OSError."""
    found = []

    def fail(error: OSError) -> None:
        raise error

    for directory, names, files in os.walk(top, onerror=fail):
        place = os.path.relpath(directory, top)
        found += [os.path.normpath(os.path.join(place, name)) for name in names + files]
    return sorted(found)


class OutputDigests:
    """Computes the digests of committed outputs, those of large outputs in threads."""

    def __init__(self) -> None:
        self._readings: "Dict[str, Reading]" = {}

    def of(self, key: str, paths: "List[Optional[str]]", size: int) -> "List[Optional[str]]":
        """The digests of the outputs of attempt ``key``; None where a path is None. ``size`` is
        their total size in bytes. Raises StillReadingError while a thread computes them, OSError if
        an output cannot be read."""
        reading = self._readings.get(key)
        if reading is None:
            if size <= INLINE_BYTES:
                return digests_of(paths)
            reading = Reading(paths)
            try:
                reading.start()
            except RuntimeError as error:
                raise OSError(errno.EAGAIN, "no thread can be started: %s" % error) from None
            self._readings[key] = reading
        if reading.is_alive():
            raise StillReadingError
        del self._readings[key]
        return reading.result()

    def forget(self, key: str) -> None:
        """Forget the thread of an attempt that has ended without its digests, if there is one."""
        self._readings.pop(key, None)


def digests_of(paths: "List[Optional[str]]") -> "List[Optional[str]]":
    """The digests of files and directories; None for None. Raises OSError."""
    return [None if path is None else measure(path, True)[1] for path in paths]


class Reading(threading.Thread):
    """A thread that computes the digests of the outputs of one attempt."""

    def __init__(self, paths: "List[Optional[str]]") -> None:
        threading.Thread.__init__(self, daemon=True)
        self._paths = paths
        self._digests: "List[Optional[str]]" = []
        self._error: "Optional[OSError]" = None

    def run(self) -> None:
        """Compute all digests, in the thread."""
        try:
            self._digests = digests_of(self._paths)
        except OSError as error:
            self._error = error

    def result(self) -> "List[Optional[str]]":
        """The digests, after the thread's end. Raises the thread's OSError."""
        if self._error is not None:
            raise self._error
        return self._digests


def main() -> None:
    """Measure the paths on stdin, and print the results."""
    asked = json.loads(sys.stdin.read())
    answers: "List[Optional[Tuple[int, Optional[str]]]]" = []
    for path in asked["paths"]:
        try:
            answers.append(measure(path, asked["digests"]))
        except ABSENT:
            answers.append(None)
        except OSError as error:
            sys.stderr.write("%s cannot be read: %s" % (path, error.strerror or error))
            sys.exit(UNREADABLE)
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
