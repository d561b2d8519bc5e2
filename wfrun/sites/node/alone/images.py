"""The cache of container images at a site: files that outlive runs, named by their SHA-256
checksums.

A program of the head node, which is passed to ``python -c``. It reads a JSON object on stdin:

    ask       "take": link the image from the cache into the store of a run;
              "keep": link it from the store into the cache
    cache     the directory of the cache, which this user alone can enter
    sha256    the checksum of the image
    stored    the path of the image in the store
    part      a path beside it for a temporary link

It prints whether the image is in the store ("take") or in the cache ("keep") now, and an error on
stderr. The store and the cache share the file by hard links. It needs only the standard library of
Python >= 3.6.

The checksum of a cached file is computed before its first use. ``<sha256>.checked`` records the
file's size, modification time and inode at that time; if they differ later, the checksum is
computed again. A file with a wrong checksum is removed from the cache; runs that use it keep their
own links.
"""

import contextlib
import hashlib
import json
import os
import stat
import sys

READ_BYTES = 1 << 20
MODE = 0o555
"""Permissions of cached images. Executable, since some images are run as programs, and all links to
a file share one mode."""


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
    """The size, modification time and inode of a regular file, which show whether it has changed;
    empty for other files. The ctime would change with each new link. Raises OSError."""
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode):
        return ""
    return "%d %d %d" % (found.st_size, found.st_mtime_ns, found.st_ino)


def write_mark(cached: str, stamp: str) -> None:
    """Record in ``<sha256>.checked`` that the file with this stamp has the right checksum. Raises
    OSError."""
    temporary = "%s.%d-%s" % (cached, os.getpid(), os.urandom(4).hex())
    with open(temporary, "x") as file:
        file.write(stamp)
    os.rename(temporary, cached + ".checked")


def checked(cached: str, sha256: str) -> str:
    """Check a cached image; returns its stamp, or an empty string if it is absent or damaged. A
    damaged image is removed. Raises OSError."""
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
    """Link the cached image into the store, where it replaces an existing file. Returns False if
    there is no valid image. Raises OSError."""
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
    """Link the image of the store into the cache. Returns False if its checksum is wrong. Raises
    OSError."""
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
    """Execute the request on stdin, and print its result."""
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
