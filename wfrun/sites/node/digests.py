"""Sizes and digests of stored files and directories.

A digest is that of BLAKE2b with 128 bits, as 32 hexadecimal digits. The digest of a directory is
taken over the paths of its members, in order, with the digests of files and the targets of links.

On a head node it is a program: it reads ``{"paths": [...], "digests": true}`` on stdin, and prints
``[[size, digest], ...]``: null for a path that is absent, and for a digest that is not asked for.
It needs the standard library of Python >= 3.6 alone.
"""

import hashlib
import json
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional, Tuple

DIGEST_BYTES = 16
READ_BYTES = 1 << 20


def digest_of_bytes(content: bytes) -> str:
    """The digest of a file with this content."""
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def digest_of_file(path: bytes) -> str:
    """The digest of a regular file. Raises OSError."""
    total = hashlib.blake2b(digest_size=DIGEST_BYTES)
    with open(path, "rb", buffering=0) as file:
        while True:
            data = file.read(READ_BYTES)
            if not data:
                return total.hexdigest()
            total.update(data)


def measure(path: str, with_digest: bool) -> "Tuple[int, Optional[str]]":
    """Size in bytes of a file, or of all files of a directory, and the digest. Raises OSError."""
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
        kind = stat.S_IFMT(status.st_mode)
        lines.append(b"%o %d:%s %d:%s\n" % (kind, len(member), member, len(content), content))
    return size, digest_of_bytes(b"".join(lines)) if with_digest else None


def members_of(top: bytes) -> "List[bytes]":
    """The paths of all that is in a directory, relative to it, in order. Raises OSError."""
    found = []

    def fail(error: OSError) -> None:
        raise error

    for directory, names, files in os.walk(top, onerror=fail):
        place = os.path.relpath(directory, top)
        found += [os.path.normpath(os.path.join(place, name)) for name in names + files]
    return sorted(found)


def main() -> None:
    """Answer the question on stdin."""
    asked = json.loads(sys.stdin.read())
    answers = []  # type: List[Optional[Tuple[int, Optional[str]]]]
    for path in asked["paths"]:
        try:
            answers.append(measure(path, asked["digests"]))
        except OSError:
            answers.append(None)
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
