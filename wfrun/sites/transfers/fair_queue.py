"""Transfers that share a rate evenly, in continuous time."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import inf


class FairQueue:
    """Computes the ends of transfers that all have the same rate at any time.

    Fair queueing by virtual time (Demers, Keshav and Shenker 1989). ``served_bytes`` is the number
    of bytes received by a transfer that joined when the queue was last idle. When a transfer joins,
    the value of ``served_bytes`` at its end is known, and no later change affects it. So a change
    costs O(log n). The owner makes all changes in order of time, and sets the rate after each.
    """

    __slots__ = ("count", "due_s", "ends", "rate", "served_bytes", "settled_s")

    def __init__(self) -> None:
        self.count = 0
        """Number of transfers."""
        self.rate = 0.0
        """Rate of each transfer, in bytes per second."""
        self.due_s = inf
        """Time at which the first transfer ends, at the present rate."""
        self.served_bytes = 0.0
        self.settled_s = 0.0
        """Time of the last update of ``served_bytes``."""
        self.ends: list[tuple[float, int]] = []
        """Heap: ``served_bytes`` at the end of a transfer, and its serial number."""

    def join(self, serial: int, size_bytes: float, now_s: float) -> None:
        """Add a transfer."""
        self._settle(now_s)
        heappush(self.ends, (self.served_bytes + size_bytes, serial))
        self.count += 1

    def leave(self, now_s: float) -> list[int]:
        """Remove the transfer that ends first, and those that end with it. Returns their serial
        numbers."""
        served_bytes = self.served_bytes = self.ends[0][0]  # exactly, whatever was rounded
        self.settled_s = now_s
        ended = []
        while self.ends and self.ends[0][0] <= served_bytes:
            ended.append(heappop(self.ends)[1])
        self.count = len(self.ends)
        return ended

    def remove(self, serial: int, now_s: float) -> None:
        """Remove a cancelled transfer."""
        self._settle(now_s)
        self.ends = [entry for entry in self.ends if entry[1] != serial]
        heapify(self.ends)
        self.count = len(self.ends)

    def set_rate(self, rate: float, now_s: float) -> None:
        """Set the rate of each transfer from now on, in bytes per second. An empty queue gets the
        rate 0."""
        if not self.count:
            self.rate, self.served_bytes, self.due_s = 0.0, 0.0, inf
            return
        self._settle(now_s)
        self.rate = rate
        left_bytes = self.ends[0][0] - self.served_bytes
        # Rounding may have passed the end.
        self.due_s = now_s + left_bytes / rate if left_bytes > 0 else now_s

    def _settle(self, now_s: float) -> None:
        self.served_bytes += self.rate * (now_s - self.settled_s)
        self.settled_s = now_s
