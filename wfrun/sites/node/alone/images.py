"""The cache of container images at a site: files that outlive runs, named by their SHA-256
checksums.

A program of the head node, which is passed to ``python -c``. It reads
``{"ask": "take" | "keep", "cache", "sha256", "stored", "part"}`` on stdin, the last three with the
checksum of the image, its path in the store of a run, and a path for a temporary link beside that.
The cache is a directory that this user alone can enter. The program prints

    take    whether the image is in the store now, as a hard link to the cached file
    keep    whether the image, which is in the store, is in the cache now

and on stderr what has failed. It needs the standard library of Python >= 3.6 alone.

A cached file is read in full before its first use, and again when its size, modification time or
inode are not those of then, which ``<sha256>.checked`` has. One with another checksum is removed:
runs that use it have links of their own.
"""

import contextlib
import hashlib
import json
import os
import stat
import sys

READ_BYTES = 1 << 20
MODE = 0o555
"""Permissions of cached images. Some are executable, and all links of a file share its mode."""


def sha256_of(path: str) -> str:
    """The checksum of a file. Raises OSError."""
    total = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while True:
            data = file.read(READ_BYTES)
            if not data:
                return total.hexdigest()
            total.update(data)


def stamp_of(path: str) -> str:
    """Size, modification time and inode of a regular file, which change when it is written or
    replaced; empty for other files. The time of the last status change is not included, since each
    link changes it. Raises OSError."""
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode):
        return ""
    return "%d %d %d" % (found.st_size, found.st_mtime_ns, found.st_ino)


def write_mark(cached: str, stamp: str) -> None:
    """Note that the file with this stamp has its checksum. Raises OSError."""
    temporary = "%s.%d-%s" % (cached, os.getpid(), os.urandom(4).hex())
    with open(temporary, "x") as file:
        file.write(stamp)
    os.rename(temporary, cached + ".checked")


def checked(cached: str, sha256: str) -> str:
    """The stamp of a cached image that has its checksum. Empty if the image is absent or damaged; a
    damaged one is removed. Raises OSError."""
    try:
        stamp = stamp_of(cached)
    except FileNotFoundError:
        return ""
    with contextlib.suppress(FileNotFoundError), open(cached + ".checked") as file:
        if stamp and file.read() == stamp:
            return stamp
    if stamp and sha256_of(cached) == sha256:
        write_mark(cached, stamp)
        return stamp
    os.unlink(cached)
    sys.stderr.write("%s was damaged and is removed" % cached)
    return ""


def take(cached: str, sha256: str, stored: str, part: str) -> bool:
    """Link the cached image into the store, replacing what is there. Raises OSError."""
    stamp = checked(cached, sha256)
    if not stamp:
        return False
    os.link(cached, part)
    try:
        if stamp_of(part) != stamp:  # another run has replaced it since
            return False
        os.rename(part, stored)
        return True
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)  # rename(2) leaves it if both are links to the same file


def keep(cached: str, sha256: str, stored: str) -> bool:
    """Link the image of the store into the cache. Raises OSError."""
    if sha256_of(stored) != sha256:
        sys.stderr.write("%s has another checksum" % stored)
        return False
    os.chmod(stored, MODE)
    try:
        os.link(stored, cached)
    except FileExistsError:  # another run was faster
        return True
    write_mark(cached, stamp_of(cached))
    return True


def main() -> None:
    """Answer the question on stdin."""
    asked = json.loads(sys.stdin.read())
    sha256, stored = asked["sha256"], asked["stored"]
    cached = os.path.join(asked["cache"], sha256)
    try:
        if asked["ask"] == "take":
            done = take(cached, sha256, stored, asked["part"])
        else:
            done = keep(cached, sha256, stored)
    except OSError as error:  # for instance a file system without hard links
        sys.stderr.write(str(error))
        done = False
    print(json.dumps(done))


if __name__ == "__main__":
    main()
