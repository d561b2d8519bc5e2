"""An emulated network link between local sites."""

from __future__ import annotations

import asyncio
import itertools

from wfrun.engine.model import LinkSpec
from wfrun.sites.transfers.fair_queue import FairQueue


class EmulatedLink:
    """Delays files as a link with the bandwidth and latency of ``spec`` would.

    The files on the link share its bandwidth evenly, as in `SimNetwork` and as TCP connections on a
    line do. A file gets its share after the latency.
    """

    def __init__(self, spec: LinkSpec) -> None:
        self._bandwidth = spec.capped_bytes_per_s
        self._latency_s = spec.latency_s
        self._queue = FairQueue()
        self._arrivals: dict[int, asyncio.Future[None]] = {}
        """Future that the caller of ``carry`` awaits, by serial number of its file."""
        self._serial = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    async def carry(self, size_bytes: int) -> None:
        """Wait until a file of ``size_bytes`` would have arrived. If the caller is cancelled, its
        file leaves the link."""
        await asyncio.sleep(self._latency_s)
        if self._bandwidth is None:
            return
        loop = asyncio.get_running_loop()
        serial = next(self._serial)
        arrived = self._arrivals[serial] = loop.create_future()
        self._queue.join(serial, size_bytes, self._advance(loop))
        self._set_timer(loop)
        try:
            await arrived
        except asyncio.CancelledError:
            now_s = self._advance(loop)
            if self._arrivals.pop(serial, None) is not None:
                self._queue.remove(serial, now_s)
            self._set_timer(loop)
            raise

    def _advance(self, loop: asyncio.AbstractEventLoop) -> float:
        """End the files that have arrived by now, each at its time of arrival. Returns the present
        time."""
        now_s, queue = loop.time(), self._queue
        while queue.due_s <= now_s:
            at_s = queue.due_s
            for serial in queue.leave(at_s):
                arrived = self._arrivals.pop(serial)
                if not arrived.done():
                    arrived.set_result(None)
            self._share(at_s)
        return now_s

    def _share(self, now_s: float) -> None:
        """Divide the bandwidth among the files."""
        assert self._bandwidth is not None
        self._queue.set_rate(self._bandwidth / max(1, self._queue.count), now_s)

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        """Share the bandwidth anew, and set the timer to the next arrival."""
        self._share(loop.time())
        if self._timer is not None:
            self._timer.cancel()
        due_s = self._queue.due_s
        self._timer = loop.call_at(due_s, self._on_timer, loop) if self._queue.count else None

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._advance(loop)
        self._set_timer(loop)
