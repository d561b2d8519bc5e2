"""The transfer method within this machine."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

from wfrun.engine.errors import WfrunError
from wfrun.engine.exchange import Content, Receipt
from wfrun.engine.files.copies import SMALL_BYTES
from wfrun.engine.model import LinkSpec
from wfrun.sites.node.tasks.digests import measure
from wfrun.sites.transfers.endpoints.endpoint import (
    Endpoint,
    check_size,
    compare_digests,
    endpoint_name,
    part_name,
)
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint, in_batches
from wfrun.sites.transfers.endpoints.request_batcher import RequestBatcher
from wfrun.sites.transfers.local.disk import (
    copy_path,
    copy_small,
    explain,
    remove,
    replace,
    size_of,
    sync_folder,
)
from wfrun.sites.transfers.local.emulated_link import EmulatedLink
from wfrun.sites.transfers.local.local_small import Copied, SmallCopy, copy_all
from wfrun.sites.transfers.method import Location


class LocalCopy:
    """Implements ``TransferMethod`` between directories of this machine.

    If the catalog has a link between two sites, the link is emulated: its files share its bandwidth
    evenly, after its latency. Without a link, a copy is as fast as the disk, and small files are
    copied in batches, many in one call of a thread. At most ``threads`` other copies run at once.
    Directories can be copied, and sparse files stay sparse.
    """

    computes_digest = True

    def __init__(self, links: Sequence[LinkSpec] = (), *, threads: int = 8) -> None:
        self._links = {(link.source, link.destination): EmulatedLink(link) for link in links}
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="transfer")
        self._aborted = threading.Event()
        self._small: dict[int, RequestBatcher[SmallCopy, Copied]] = {}
        """Batchers by source, so that a source whose file system hangs does not stop the others."""
        self._sync_folder = in_batches(_sync_folders)
        """Makes the names in a directory durable. One call serves all copies that have just ended
        in the directory."""

    async def can_carry(self, source: Endpoint, destination: Endpoint) -> bool:
        return isinstance(source, LocalEndpoint) and isinstance(destination, LocalEndpoint)

    async def copy(
        self, source: Location, destination: Location, key: str, expected: Content
    ) -> Receipt:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        link = self._links.get(
            (endpoint_name(source.endpoint), endpoint_name(destination.endpoint))
        )
        if link is None and (expected.size_bytes or 0) <= SMALL_BYTES:
            copied = await self._copy_small(source, destination, key, expected)
            if isinstance(copied, WfrunError):
                raise copied
            if copied is not None:
                return Receipt(copied[0], loop.time() - begun_s, copied[1])
        origin, final = Path(source.path), Path(destination.path)
        temporary = final.with_name(part_name(key))
        writable = destination.endpoint.spec is None
        abort = threading.Event()
        arrival: asyncio.Task[None] | None = None
        reading: Future[tuple[int, str | None]] | None = None

        def carry() -> tuple[int, str | None]:
            nonlocal reading
            try:
                is_compared = expected.verify or expected.digest is not None
                if is_compared and (small := copy_small(origin, temporary, writable)):
                    return small
                if is_compared and expected.digest is None:  # beside the copy
                    reading = self._pool.submit(measure, str(origin), True)
                is_own = os.path.isabs(source.name)  # the user's own, not the run's
                aborts = abort, self._aborted
                size = copy_path(origin, temporary, writable, aborts, links_may_leave=is_own)
                return size, measure(str(temporary), True)[1] if is_compared else None
            finally:
                if abort.is_set():  # nobody waits for it any more
                    remove(temporary)

        try:
            # Where no thread can be started it stays in the queue, and another one may take it up.
            work: Future[tuple[int, str | None]] = self._pool.submit(carry)
            if link:
                # Beside the copy: the emulated time includes that of the disk.
                arrival = asyncio.create_task(link.carry(size_of(origin)))
            size_bytes, found = await asyncio.wrap_future(work)
            if not temporary.is_dir():
                check_size(source.path, size_bytes, expected.size_bytes)
            digest = expected.digest or found
            if reading is not None:
                _, digest = await asyncio.wrap_future(reading)
            compare_digests(str(final), found, digest)
            if arrival is not None:
                await arrival
            replace(temporary, final)
            if writable:  # a final output, whose copies at sites may be removed next
                await self._sync_folder(final.parent)
        except OSError as error:
            raise explain(error, origin, final) from error
        finally:
            abort.set()
            if reading is not None:
                reading.cancel()
            if arrival is not None:
                arrival.cancel()
            remove(temporary)  # after a cancellation the thread may still write, and does it too
        return Receipt(size_bytes, loop.time() - begun_s, digest)

    async def _copy_small(
        self, source: Location, destination: Location, key: str, expected: Content
    ) -> Copied:
        final, index = Path(destination.path), source.endpoint.index
        if index not in self._small:
            self._small[index] = in_batches(partial(copy_all, aborted=self._aborted))
        return await self._small[index](
            SmallCopy(
                Path(source.path),
                final.with_name(part_name(key)),
                final,
                is_output=destination.endpoint.spec is None,
                is_compared=expected.verify or expected.digest is not None,
                size_bytes=expected.size_bytes,
                digest=expected.digest,
            )
        )

    def close(self) -> None:
        self._aborted.set()
        self._pool.shutdown(wait=True, cancel_futures=True)


def _sync_folders(folders: Sequence[Path]) -> list[None]:
    for folder in set(folders):
        sync_folder(folder)
    return [None] * len(folders)
