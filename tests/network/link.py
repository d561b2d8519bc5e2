"""A link between two hosts: when a packet that enters it comes out."""

from __future__ import annotations

from dataclasses import dataclass

QUEUE_S = 0.1
QUEUE_BYTES = 256 * 1024
"""A packet is dropped if this much waits already (of the two, what is more at the link's rate), so
that TCP finds the rate. Long enough for the first packets of a connection, which come at once."""


@dataclass(slots=True)
class Link:
    """One direction between two hosts."""

    rate: float | None = None
    """Bytes per second; None: as fast as packets can be forwarded."""
    latency_s: float = 0.0
    up: bool = True
    carried: int = 0
    """Bytes of the packets that it has delivered or will."""
    _free_at_s: float = 0.0

    def enter(self, size: int, now_s: float) -> float | None:
        """Return the time at which a packet of this size arrives; None: it is dropped."""
        if not self.up:
            return None
        sent_s = now_s
        if self.rate is not None:
            begins_s = max(now_s, self._free_at_s)
            if begins_s - now_s > max(QUEUE_S, QUEUE_BYTES / self.rate):
                return None
            sent_s = self._free_at_s = begins_s + size / self.rate
        self.carried += size
        return sent_s + self.latency_s

    def change(self, rate: float | None, latency_s: float, up: bool) -> None:
        """Change it from now on; packets that wait for their turn at the old rate keep it."""
        self.rate, self.latency_s, self.up = rate, latency_s, up
        self._free_at_s = 0.0
