"""The rates of the links of a run, from the copies that have ended lately."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import NamedTuple

from wfrun.engine.events import AnyEvent, TransferEnded

WINDOW_S = 60.0
"""Length of the window over which rates are averaged, in seconds."""

Link = tuple[int, int]
"""Source and destination."""


class LinkRate(NamedTuple):
    """What a link has carried in the window."""

    files: int
    bytes_per_s: float


class LinkRates:
    """The copies of the last `WINDOW_S` seconds by link. A copy that took longer counts for the
    part of its time that lies in the window."""

    def __init__(self) -> None:
        self._copies: defaultdict[Link, deque[TransferEnded]] = defaultdict(deque)

    def observe(self, events: Iterable[AnyEvent]) -> None:
        """Add the copies among these events."""
        for event in events:
            if isinstance(event, TransferEnded):
                self._copies[event.source, event.destination].append(event)

    def at(self, now_s: float) -> dict[Link, LinkRate]:
        """The rate of each link that has ended copies in the window; forgets earlier copies."""
        begin_s = now_s - WINDOW_S
        for copies in self._copies.values():
            while copies and copies[0].at_s < begin_s:
                copies.popleft()
        return {
            link: LinkRate(len(copies), sum(_moved(c, begin_s) for c in copies) / WINDOW_S)
            for link, copies in self._copies.items()
            if copies
        }


def _moved(copy: TransferEnded, begin_s: float) -> float:
    """The bytes of a copy that were moved since ``begin_s``, if it was steady."""
    size = copy.size_bytes if copy.sent_bytes is None else copy.sent_bytes
    if copy.elapsed_s <= 0:
        return size
    return size * min(1.0, (copy.at_s - begin_s) / copy.elapsed_s)
