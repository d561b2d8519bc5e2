"""The transfer method within this machine."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from wfrun.engine.exchange import Content, Receipt
from wfrun.engine.model import LinkSpec
from wfrun.sites.node.digests import measure
from wfrun.sites.transfers.disk import (
    copy_path,
    copy_small,
    explain,
    remove,
    replace,
    size_of,
    sync_folder,
)
from wfrun.sites.transfers.emulated_link import EmulatedLink
from wfrun.sites.transfers.endpoint import (
    Endpoint,
    check_size,
    compare_digests,
    endpoint_name,
    part_name,
)
from wfrun.sites.transfers.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.method import Location


class LocalCopy:
    """Implements ``TransferMethod`` between directories of this machine.

    A link of the catalog between two of them is emulated: its files share its bandwidth evenly,
    after its latency. Without one a copy is as fast as the disk. At most ``threads`` files are
    copied at once. Directories can be copied, and sparse files stay sparse.
    """

    computes_digest = True

    def __init__(self, links: Sequence[LinkSpec] = (), *, threads: int = 8) -> None:
        self._links = {(link.source, link.destination): EmulatedLink(link) for link in links}
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="transfer")
        self._aborted = threading.Event()

    async def can_carry(self, source: Endpoint, destination: Endpoint) -> bool:
        return isinstance(source, LocalEndpoint) and isinstance(destination, LocalEndpoint)

    async def copy(
        self, source: Location, destination: Location, key: str, expected: Content
    ) -> Receipt:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
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
            ends = endpoint_name(source.endpoint), endpoint_name(destination.endpoint)
            if link := self._links.get(ends):
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
                await asyncio.wrap_future(self._pool.submit(sync_folder, final.parent))
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

    def close(self) -> None:
        self._aborted.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
