"""The files of a site, or of this machine, as transfer methods see them."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Protocol

from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.engine.exchange import Content
from wfrun.engine.model import SiteSpec
from wfrun.sites.remote.host import Stat
from wfrun.sites.transfers.relay.following import Following
from wfrun.sites.transfers.relay.hashed import HashedStream

CHUNK_BYTES = 1024 * 1024
"""Maximum size of a piece of a stream."""
_PART = ".wfrun-part-"


class FileEnd(Protocol):
    """One end of the stream of a file. ``name`` is a name in the site's store. It is an absolute
    path at ORIGIN, and for an input that a replica catalog lists at a site.

    Reading and writing raise InfeasibleError when the source is absent or the destination cannot
    take the file, TransientError for any other failure. A written file is first compared with
    ``expected``. If it differs, TransientError is raised; else it replaces any file (atomically) or
    directory of its name. A write that fails removes its part, unless ``keeps_part`` keeps it.
    """

    def read(self, name: str, start: int = 0) -> AsyncGenerator[bytes, None]:
        """Stream the bytes of a file from the byte ``start`` on. Callers close the generator unless
        they exhaust it."""

    async def write(
        self,
        name: str,
        content: AsyncIterator[bytes],
        expected: Content,
        is_executable: bool,
        key: str,
        sent: HashedStream | None = None,
        start: int = 0,
    ) -> None:
        """Write a file of a known size. ``sent`` has the digest of the stream once the stream has
        ended. ``content`` begins at the byte ``start``, a multiple of 1 MiB; an existing part has
        the bytes before it."""


class Endpoint(FileEnd, Protocol):
    """One end of a copy. The guarantees of ``FileEnd`` about errors and writing hold for all
    methods."""

    index: int
    """Number of the site; ORIGIN for this machine."""
    spec: SiteSpec | None
    """The catalog entry; None for ORIGIN."""
    slot: AbstractAsyncContextManager[Any]
    """Held during a large copy, by any method: bounds the number of large copies at this site."""

    def path(self, name: str) -> str:
        """Absolute path of a file."""

    async def stat(self, name: str) -> Stat | None:
        """Size and type of a file, symbolic links followed; None if it is absent."""

    async def read_small(self, name: str, size_bytes: int) -> bytes:
        """Content of a file of ``size_bytes``, at most SHARED_BYTES. Concurrent calls share a
        message. If the file has grown, at most SHARED_BYTES + 1 bytes are returned."""

    async def write_small(
        self, name: str, content: bytes, expected: Content, is_executable: bool, key: str
    ) -> None:
        """Write a file of at most SHARED_BYTES. Concurrent calls share a message."""

    def read_tree(self, name: str) -> AsyncGenerator[bytes, None]:
        """Stream a directory as a tar archive. Callers close the generator unless they exhaust
        it."""

    async def write_tree(
        self, name: str, content: AsyncIterator[bytes], expected: Content, key: str
    ) -> None:
        """Write a directory from a tar archive, which ``CleanTree`` has checked."""

    # For programs that write the part of a copy themselves, at either end:

    def part(self, name: str, key: str) -> str:
        """Absolute path of the incomplete copy, beside its final name."""

    async def prepare(self, name: str) -> None:
        """Make the directory that a file goes into."""

    async def follow(self, path: str, size_bytes: int) -> str | None:
        """Compute the digest of a part of ``size_bytes`` while the part is written. Returns None if
        the part has to be read back, for example because it is not written in order."""

    async def complete(
        self,
        name: str,
        key: str,
        expected: Content,
        is_executable: bool,
        followed: Following | None = None,
    ) -> None:
        """Compare the part of a file with ``expected``, and rename it to its final name. The part
        is read back unless ``followed`` has its right digest. Raises TransientError if the part
        differs, InfeasibleError if it is absent or belongs to another user."""

    async def left(self, name: str, key: str) -> int | None:
        """Size of the part that an earlier copy has left; None if there is none. The part becomes
        writable."""

    async def discard(self, name: str, key: str) -> None:
        """Remove a part, if the site can be reached."""

    async def measure(self, path: str, size_bytes: int | None) -> Content | None:
        """Size and digest of a file or directory, None if it is absent. ``size_bytes`` is its size
        if known. Concurrent calls for files that are not large share a message."""


def endpoint_name(endpoint: Endpoint) -> str:
    """The name of the site in the catalog; ``origin`` for this machine."""
    return "origin" if endpoint.spec is None else endpoint.spec.name


@contextlib.asynccontextmanager
async def hold_slots(source: Endpoint, destination: Endpoint) -> AsyncIterator[None]:
    """Hold a slot of both ends of a copy; only one slot for a copy within a site."""
    ends = {endpoint.index: endpoint for endpoint in (source, destination)}
    async with AsyncExitStack() as stack:
        # All copies take slots in the order of the sites, so that no two wait for each other.
        for index in sorted(ends):
            await stack.enter_async_context(ends[index].slot)
        yield


KEPT = "kept-"
"""Prefix of the keys of parts that a failed copy leaves for the next one."""


def is_kept(key: str) -> bool:
    """Whether a failed copy leaves the part with this key."""
    return key.startswith(KEPT)


def part_name(key: str) -> str:
    """The name of the incomplete copy with this key."""
    return f"{_PART}{key}"


PART_PATTERN = part_name("*")
KEPT_PATTERN = part_name(f"{KEPT}*")
"""Glob patterns of all incomplete copies, and of those that are left for the next copy."""


def file_mode(is_executable: bool, writable: bool = False) -> int:
    """Permissions of a copied file: read-only in a store, writable by its owner at ORIGIN."""
    return (0o555 if is_executable else 0o444) | (0o200 if writable else 0)


def check_size(path: str, found_bytes: int, size_bytes: int | None) -> None:
    """Raise TransientError if a file does not have ``size_bytes``; None: any size."""
    if size_bytes is not None and found_bytes != size_bytes:
        raise TransientError(f"{path} has {found_bytes} of {size_bytes} bytes")


async def at_most(
    data: AsyncIterator[bytes], size_bytes: int, path: str
) -> AsyncGenerator[bytes, None]:
    """Pass on the bytes of a file. Raises TransientError after ``size_bytes``: a file that is
    longer than its site said must neither fill the disk at the other end nor be read without
    end."""
    async for piece in data:
        size_bytes -= len(piece)
        if size_bytes < 0:
            raise longer(path)
        yield piece


def longer(path: str) -> TransientError:
    """The error of a file that has more bytes than its site said."""
    return TransientError(f"{path} became longer while it was copied")


def missing_part(final: str, temporary: str) -> InfeasibleError:
    """The error of a copy whose program succeeded but whose file is not visible here."""
    return InfeasibleError(
        f"{final} was not written: {os.path.basename(temporary)} is absent beside it",
        hint="Does the server that wrote it show another file system than the site has?",
    )


def digest_to_have(expected: Content, sent: HashedStream | None) -> str | None:
    """The digest that a written file must have: the source's or, if that is unknown, the digest of
    the stream that was sent. None if the file is not compared."""
    if expected.digest is not None or sent is None:
        return expected.digest
    return sent.digest


async def check_digest(
    endpoint: Endpoint,
    path: str,
    expected: Content,
    sent: HashedStream | None = None,
    followed: Following | None = None,
) -> None:
    """Compare the digest of a written file with the expected one, which `digest_to_have` gives for
    ``expected`` and ``sent``. Do nothing if no digest is expected.

    The file is read back, unless the digest that ``followed`` computed during the write is the
    expected one. Raises DigestError, a TransientError, if the digests differ or the file is absent.
    """
    digest = digest_to_have(expected, sent)
    if digest is None or (followed is not None and await followed.digest() == digest):
        return
    found = await endpoint.measure(path, expected.size_bytes)
    compare_digests(path, None if found is None else found.digest, digest)


def digest_of(content: bytes) -> str:
    """The digest of a file with this content. It is computed by OpenSSL, which ``digests.py``
    avoids loading for tasks."""
    return hashlib.sha256(content).hexdigest()


def wrong_checksum(path: str, found: str | None, stated: str | None) -> InfeasibleError:
    """The error of an input whose checksum differs from that in its replica catalog."""
    return InfeasibleError(
        f"{path} cannot be read as an input: its SHA-256 checksum is {found}, and the replica "
        f"catalog says {stated}"
    )


class DigestError(TransientError):
    """The copy differs from its source."""


def compare_digests(path: str, found: str | None, digest: str | None) -> None:
    """Raise DigestError if ``found`` is not ``digest``."""
    if found != digest:
        raise DigestError(f"{path}: its checksum is not that of the file that was to be copied")
