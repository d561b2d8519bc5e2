"""The transfer method that always works: a stream through this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

from msgspec.structs import replace

from wfrun.engine.exchange import Content, Receipt
from wfrun.engine.files.copies import SHARED_BYTES
from wfrun.sites.transfers.bandwidth_cap import BandwidthCaps, RateLimit, limited, spend
from wfrun.sites.transfers.endpoints.clean_tree import CleanTree
from wfrun.sites.transfers.endpoints.endpoint import (
    Endpoint,
    FileEnd,
    at_most,
    check_size,
    digest_of,
    digest_to_have,
    hold_slots,
)
from wfrun.sites.transfers.local.disk import absent
from wfrun.sites.transfers.method import Location, with_digest
from wfrun.sites.transfers.relay.hashed import HashedStream
from wfrun.sites.transfers.relay.read_ahead import read_ahead
from wfrun.sites.transfers.relay.room import Room
from wfrun.sites.transfers.relay.stall import StallGuard
from wfrun.sites.transfers.resume import resuming, trusted

ROOM_BYTES = 4 << 20
"""Maximum number of bytes in memory, for each pair of sites, of files that share messages: enough
for two messages being read, and two being written."""


class Stream:
    """Implements ``TransferMethod`` between any two endpoints, over the sites' connections.

    A file between two clusters passes through the memory of this machine, without a copy on its
    disk. Files up to SHARED_BYTES share messages. A directory is sent as a tar archive.
    """

    computes_digest = True

    def __init__(self, caps: BandwidthCaps | None = None) -> None:
        """``caps`` has the maximum bandwidths of the catalog, which copies obey."""
        self._caps = caps or BandwidthCaps()
        self._rooms: dict[tuple[int, int], Room] = {}
        """Memory for the content of files that share messages, by pair of sites."""

    async def can_carry(self, source: Endpoint, destination: Endpoint) -> bool:
        return True

    async def copy(
        self, source: Location, destination: Location, key: str, expected: Content
    ) -> Receipt:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        reader, writer = source.endpoint, destination.endpoint
        stat = await reader.stat(source.name)
        if stat is None:
            raise absent(source.path)
        size_bytes = stat.size_bytes
        if stat.is_directory:
            expected = await with_digest(source, expected)
            async with (
                hold_slots(reader, writer),
                aclosing(reader.read_tree(source.name)) as archive,
                aclosing(read_ahead(archive)) as ahead,
                aclosing(limited(ahead, self._caps.between(reader, writer))) as slowed,
            ):
                guard = StallGuard(source.path, destination.path)
                watched = guard.pieces(slowed)
                tree = CleanTree(source.path, watched, links_may_leave=reader.spec is None)
                async with aclosing(watched), aclosing(tree.pieces()) as pieces:
                    writing = writer.write_tree(destination.name, pieces, expected, key)
                    await guard.watch(writing)
                size_bytes = tree.size_bytes
            return Receipt(size_bytes, loop.time() - begun_s, expected.digest)
        check_size(source.path, size_bytes, expected.size_bytes)
        whole = Content(size_bytes, expected.digest, expected.verify)
        if size_bytes <= SHARED_BYTES:
            ends = reader.index, writer.index
            async with self._rooms.setdefault(ends, Room(ROOM_BYTES)).hold(size_bytes):
                begun_s = loop.time()  # the wait for room is no property of the link
                digest = await self._share(source, destination, key, whole, stat.is_executable)
        else:
            copy = partial(self._send, source, destination, key, whole, stat.is_executable)
            digest, start = await resuming(writer, destination.name, key, size_bytes, copy)
            if start:
                elapsed_s = loop.time() - begun_s
                return Receipt(size_bytes, elapsed_s, digest, sent_bytes=size_bytes - start)
        return Receipt(size_bytes, loop.time() - begun_s, digest)

    async def _share(
        self, source: Location, destination: Location, key: str, whole: Content, executable: bool
    ) -> str | None:
        """Copy a file of a known size in messages that it shares with other files. Returns the
        file's digest, if that is known or computed."""
        reader, writer, size_bytes = source.endpoint, destination.endpoint, whole.size_bytes
        assert size_bytes is not None
        content = await reader.read_small(source.name, size_bytes)
        check_size(source.path, len(content), size_bytes)
        if whole.verify and whole.digest is None:
            whole = replace(whole, digest=digest_of(content))
        await spend(self._caps.between(reader, writer), size_bytes)
        await writer.write_small(destination.name, content, whole, executable, key)
        return whole.digest

    async def _send(
        self,
        source: Location,
        destination: Location,
        key: str,
        whole: Content,
        executable: bool,
        left: int,
    ) -> tuple[str | None, int]:
        """Copy a file of which ``left`` bytes are at the destination already. Returns the file's
        digest, if that is known or computed, and the number of bytes that were not sent."""
        reader, writer = source.endpoint, destination.endpoint
        if start := trusted(left):  # What is there is not hashed on its way.
            whole = await with_digest(source, whole)
        elif left:
            await writer.discard(destination.name, key)
        limits = self._caps.between(reader, writer)
        async with hold_slots(reader, writer):
            digest = await stream_file(
                reader, writer, source, destination, key, whole, executable, limits, start
            )
            return digest, start

    def close(self) -> None:
        """Nothing to release: a copy ends with its task."""


async def stream_file(
    reader: FileEnd,
    writer: FileEnd,
    source: Location,
    destination: Location,
    key: str,
    whole: Content,
    is_executable: bool,
    limits: Sequence[RateLimit],
    start: int = 0,
) -> str | None:
    """Copy a file of a known size from the byte ``start`` on, through the memory of this machine,
    with reading ahead. Returns the file's digest, if that is known or computed. If ``start`` is
    not 0 and the file is to be compared, ``whole`` must have the digest."""
    assert whole.size_bytes is not None
    guard = StallGuard(source.path, destination.path, start)
    # A stream that begins later has not the digest of the file: what is written is read back.
    is_hashed = not start and (whole.verify or whole.digest is not None)
    async with (
        aclosing(reader.read(source.name, start)) as data,
        aclosing(read_ahead(data)) as ahead,
    ):
        sent = HashedStream(ahead) if is_hashed else None
        async with (
            aclosing(ahead if sent is None else sent.pieces()) as hashed,
            aclosing(limited(hashed, limits)) as slowed,
            aclosing(
                guard.pieces(at_most(slowed, whole.size_bytes - start, source.path))
            ) as pieces,
        ):
            writing = writer.write(destination.name, pieces, whole, is_executable, key, sent, start)
            await guard.watch(writing)
    return digest_to_have(whole, sent)
