"""Identities of files at the time when a run read them, and digests of their contents.

A run records the identities of its inputs in its log. A later run compares them: a file with the
same path, size, time of change and inode is assumed to have the same content, and is not read. So
the records of earlier runs also serve as a cache of digests.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import msgspec

from wfrun.engine.errors import InfeasibleError
from wfrun.sites.transfers.local.disk import open_regular

SMALL_BYTES = 1 << 20
"""Maximum size in bytes of a file that is hashed even if no earlier run has read a file of the same
size."""
MAX_HASHED_BYTES = 64 << 20
"""Maximum total size in bytes of such small files that are hashed for a run. Hashing them delays a
start by 0.1 s."""
_CHUNK_BYTES = 1 << 20
_DIGEST_BYTES = 16


class Identity(msgspec.Struct, frozen=True, array_like=True):
    """Identity of a file or directory at one time. The identity of a directory combines those of
    its members."""

    size_bytes: int
    changed_ns: int
    """Time of the last change (ctime) in nanoseconds. The time of the last modification (mtime) is
    not used, because programs can set it."""
    inode: int
    digest: bytes = b""
    """BLAKE2 digest of the content; empty if the content was not read."""


class Record(msgspec.Struct, frozen=True):
    """Identities of the files that a run read on the submit host, by absolute path."""

    names: tuple[str, ...] = ()
    """Names of the run's workflows."""
    documents: Mapping[str, Identity] = {}
    files: Mapping[str, Identity] = {}
    """Initial inputs and programs."""
    programs: Mapping[str, str] = {}
    """Paths of programs on the submit host, by `wfrun.runners.run.reuse.keys.program_of`."""


class Identifier:
    """Identifies the files of a new run, and reads as few of them as possible."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int, int], bytes] = {}
        """Digests by path, size, time of change and inode; empty for a file that was not
        read."""
        self._sizes: set[int] = set()
        """Sizes of the files with a known digest. A file of another size equals none of them, and
        need not be hashed."""
        self._left_bytes = MAX_HASHED_BYTES

    def add(self, record: Record) -> None:
        """Add the files of an earlier run, whose digests need not be computed again."""
        for path, identity in record.files.items():
            self._add(path, identity)

    def _add(self, path: str, identity: Identity) -> None:
        key = (path, identity.size_bytes, identity.changed_ns, identity.inode)
        self._known[key] = identity.digest or self._known.get(key, b"")
        if identity.digest:
            self._sizes.add(identity.size_bytes)

    def token(self, path: str, identity: Identity) -> bytes:
        """Token of the content of a file: its digest if it is known, otherwise path, size, time of
        change and inode. Files whose contents are known to be equal have equal tokens."""
        key = (path, identity.size_bytes, identity.changed_ns, identity.inode)
        digest = identity.digest or self._known.get(key, b"")
        return digest or msgspec.msgpack.encode(key)

    def identify(self, path: str, *, always: bool = False) -> Identity | None:
        """Return the identity of a file or directory; None if it does not exist. The identity has a
        digest if the file is small, if it may equal a file of an earlier run, or if ``always`` is
        set. Raises InfeasibleError if the file cannot be read."""
        try:
            found = os.stat(path)
            if stat.S_ISDIR(found.st_mode):
                size_bytes, changed_ns, inode = _tree(path)
            else:
                size_bytes, changed_ns = found.st_size, found.st_ctime_ns
                inode = found.st_ino
            known = self._known.get((path, size_bytes, changed_ns, inode))
            if (always and not known) or (known is None and self._is_wanted(size_bytes)):
                known = digest_of(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            place = error.filename or path  # a member of a directory
            raise InfeasibleError(f"{place} cannot be read: {error.strerror}") from error
        identity = Identity(size_bytes, changed_ns, inode, known or b"")
        self._add(path, identity)
        return identity

    def _is_wanted(self, size_bytes: int) -> bool:
        """Whether to hash a file that no earlier run has read: a file of a known size, or a small
        file, whose size is deducted from the rest of `MAX_HASHED_BYTES`."""
        if size_bytes in self._sizes:
            return True
        if size_bytes > min(SMALL_BYTES, self._left_bytes):
            return False
        self._left_bytes -= size_bytes
        return True


def identify_all(
    identifier: Identifier, paths: Collection[str], *, always: bool = False
) -> dict[str, Identity]:
    """The identities of files by path. Leaves out absent files, and paths that the log cannot
    hold."""
    named = (path for path in dict.fromkeys(paths) if _is_text(path))
    found = ((path, identifier.identify(path, always=always)) for path in named)
    return {path: identity for path, identity in found if identity is not None}


def _is_text(path: str) -> bool:
    """Whether the file system and the log can hold a path: it has no NUL, and no byte that is not
    UTF-8."""
    return "\0" not in path and os.fsencode(path).decode(errors="ignore") == path


def changed_documents(record: Record) -> list[str]:
    """The paths of the documents of a run whose contents have changed since the run read them.
    Deleted documents are left out."""
    identifier = Identifier()
    identifier.add(msgspec.structs.replace(record, files=record.documents))
    now = identify_all(identifier, record.documents, always=True)
    return [path for path, found in now.items() if found.digest != record.documents[path].digest]


def digest_of(path: str) -> bytes:
    """Digest of the content of a file, or of the names and contents in a directory. Raises
    OSError."""
    total = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    if not os.path.isdir(path):
        # A pipe would be waited for, and a device may have no end.
        with open(path, "rb", opener=open_regular) as file:
            while chunk := file.read(_CHUNK_BYTES):
                total.update(chunk)
        return total.digest()
    for name, member in _members(path):
        is_link = os.path.islink(member)
        part = os.fsencode(os.readlink(member)) if is_link else digest_of(member)
        total.update(msgspec.msgpack.encode((os.fsencode(name), part)))
    return total.digest()


def _tree(path: str) -> tuple[int, int, int]:
    """(total size in bytes, latest change in nanoseconds, number) of the files of a directory. The
    number, a hash of their names and attributes, takes the place of an inode."""
    size_bytes = changed_ns = 0
    total = hashlib.blake2b(digest_size=7)
    for name, member in _members(path):
        found = os.lstat(member)
        size_bytes += found.st_size
        changed_ns = max(changed_ns, found.st_ctime_ns)
        facts = (os.fsencode(name), found.st_size, found.st_ctime_ns, found.st_ino)
        total.update(msgspec.msgpack.encode(facts))
    return size_bytes, changed_ns, int.from_bytes(total.digest(), "big")


def _members(path: str) -> Iterator[tuple[str, str]]:
    """Yield (path relative to the directory, path) for each file below a directory, in a fixed
    order."""
    for directory, folders, names in os.walk(path):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(directory, name))]
        for name in sorted((*names, *links)):
            member = os.path.join(directory, name)
            yield str(Path(member).relative_to(path)), member
