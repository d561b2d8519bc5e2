"""An emulated network link between local sites."""

from __future__ import annotations

import asyncio
import heapq
import itertools

from wfrun.engine.model import LinkSpec


class EmulatedLink:
    """Delays files as a link of this bandwidth and latency would.

    The files on the link share its bandwidth evenly, as in `SimNetwork` and as TCP connections on
    a line do. A file joins them after the latency.

    Fair queueing by virtual time (Demers, Keshav and Shenker 1989): ``_served_bytes`` is the
    number of bytes that a file has got which has been on the link since it was last idle. The
    count at which a file ends is thus known when it joins, whatever joins or leaves later.
    """

    def __init__(self, spec: LinkSpec) -> None:
        self._bandwidth = spec.bandwidth_bytes_per_s
        self._latency_s = spec.latency_s
        self._served_bytes = 0.0
        self._settled_s = 0.0
        """Time of the last update of ``_served_bytes``."""
        self._ends: list[tuple[float, int, asyncio.Future[None]]] = []
        """Heap: the count at which a file ends, its serial number, and its waiting caller."""
        self._serial = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    async def carry(self, size_bytes: int) -> None:
        """Return when a file of this size would have arrived. A cancelled one leaves the link."""
        await asyncio.sleep(self._latency_s)
        if self._bandwidth is None:
            return
        loop = asyncio.get_running_loop()
        self._settle(loop)
        arrived = loop.create_future()
        entry = (self._served_bytes + size_bytes, next(self._serial), arrived)
        heapq.heappush(self._ends, entry)
        self._settle(loop)
        try:
            await arrived
        except asyncio.CancelledError:
            self._settle(loop)
            if entry in self._ends:
                self._ends.remove(entry)
                heapq.heapify(self._ends)
                self._settle(loop)
            raise

    def _settle(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the files that have arrived by now, in order, and set a timer for the next one."""
        assert self._bandwidth is not None
        now_s = loop.time()
        due_s = now_s
        while self._ends:
            end, _, arrived = self._ends[0]
            due_s = self._settled_s + (end - self._served_bytes) * len(self._ends) / self._bandwidth
            if due_s > now_s:
                elapsed_s = now_s - self._settled_s
                self._served_bytes += self._bandwidth / len(self._ends) * elapsed_s
                break
            heapq.heappop(self._ends)
            self._served_bytes, self._settled_s = end, max(due_s, self._settled_s)
            if not arrived.done():
                arrived.set_result(None)
        else:
            self._served_bytes = 0.0
        self._settled_s = now_s
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(due_s, self._settle, loop) if self._ends else None
