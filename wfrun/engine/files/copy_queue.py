"""The queue of copies of large files, which are under way or wait for room at sites and links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from heapq import heappop, heappush
from math import inf

import msgspec

from wfrun.engine.model import ORIGIN, LinkSpec, SiteSpec

Key = tuple[int, int, int]
"""Identifies a copy: (workflow, file, destination)."""
Begun = tuple[int, tuple[str, ...], float]
"""A copy under way: its source, the transfer methods that it avoids, and its start time in seconds.
The event of its end repeats the source and the methods."""
Rank = tuple[float, int]
"""Rank of a waiting copy: (time in seconds, serial number). The lowest rank starts first. The time
is that of the placement of the waiting attempt plus the expected transfer time of its inputs. So an
attempt with few missing inputs does not wait for the many inputs of another attempt, and an early
attempt is not overtaken for ever."""


class Copy(msgspec.Struct, eq=False, gc=False):
    """A file that is being copied to a site, or waits for room."""

    source: int = ORIGIN
    waiting: list[str] = []
    """Keys of the attempts that wait for the copy."""
    failures: int = 0
    awaits_source: bool = False
    """Whether the source was paused when the copy started, and has not been reopened since."""
    rank: Rank | None = None
    """Rank of the copy in the queue; None: it does not wait for room."""
    slow: int = 0
    """Places from which the copy was late or has failed, as a bit mask. They are sources only if no
    other place has the file."""
    avoid: tuple[str, ...] = ()
    """Transfer methods by which the copy was late. They are used only if there is no other
    method."""

    @property
    def was_late(self) -> bool:
        """Whether the copy was given up before, for another source or method."""
        return bool(self.slow or self.avoid)

    def is_given_up(self, source: int, bit: int, avoided: tuple[str, ...]) -> bool:
        """Return whether the copy from ``source`` that avoided the methods ``avoided`` is an
        earlier copy, which was given up for the present copy. ``bit``: bit of ``source`` in
        masks."""
        return (bool(self.slow & bit) and self.source != source) or self.avoid != avoided


class CopyQueue:
    """Large copies of a run by their links: those under way, and those that wait for room."""

    def __init__(self) -> None:
        self.running: dict[Key, tuple[int, int]] = {}
        """Source and destination of each large copy under way, including copies that the run has
        given up."""
        self.waiting: dict[tuple[int, int], list[tuple[Rank, Key]]] = {}
        """By source and destination: heap of waiting copies. An entry is void if the copy has
        another rank now."""
        self.under_way: dict[Key, Begun] = {}
        """All copies under way, also those that the run has given up."""
        self.outdated: dict[Key, Begun] = {}
        """The copies under way whose file was written again since they began."""
        self._load: defaultdict[int, int] = defaultdict(int)
        """By first site with a login host: number of large copies under way to or from the host."""
        self._hosts: list[int] = []
        """By site: the first site with the same login host. Sites with the same host share its
        room."""
        self._room: list[float] = []
        """Maximum number of large copies at a time, by site."""
        self._link_load: defaultdict[tuple[int, int], int] = defaultdict(int)
        """By link with a maximum: number of large copies under way."""
        self._link_room: dict[tuple[int, int], int] = {}
        """By link with a maximum: the maximum number of large copies at a time."""
        self._serial = 0
        self.is_bounded = False
        """Whether large copies may have to wait."""

    def set_bounds(self, specs: Sequence[SiteSpec], links: Sequence[LinkSpec]) -> None:
        """Set the maximum number of concurrent copies of each site and link from the catalog.
        Copies under way count towards the maximum."""
        first: dict[tuple[str, ...], int] = {}
        self._hosts = []
        for site, spec in enumerate(specs):
            hosts = spec.access.hosts if spec.access is not None else ()
            self._hosts.append(first.setdefault(hosts, site) if hosts else site)
        self._room = [spec.max_transfers or inf for spec in specs]
        index = {spec.name: site for site, spec in enumerate(specs)} | {"origin": ORIGIN}
        self._link_room = {
            (index[link.source], index[link.destination]): link.max_transfers
            for link in links
            if link.max_transfers is not None
        }
        self.is_bounded = bool(self._link_room) or min(self._room, default=inf) < inf
        running, self.running = self.running, {}
        self._load.clear()
        self._link_load.clear()
        for key, (source, destination) in running.items():
            self.begin(key, source, destination)

    def has_room(self, source: int, destination: int) -> bool:
        """Whether both ends, and the link between them, can take a further large copy."""
        link = source, destination
        if link in self._link_room and self._link_load[link] >= self._link_room[link]:
            return False
        return all(
            site == ORIGIN or self._load[self._hosts[site]] < self._room[site]
            for site in (source, destination)
        )

    def begin(self, key: Key, source: int, destination: int) -> None:
        """Count a large copy that starts."""
        self.running[key] = source, destination
        self._count((source, destination), 1)

    def end(self, key: Key) -> None:
        """Stop counting a copy that has ended or failed, if it was counted."""
        if (ends := self.running.pop(key, None)) is not None:
            self._count(ends, -1)

    def _count(self, ends: tuple[int, int], change: int) -> None:
        if ends in self._link_room:
            self._link_load[ends] += change
        for site in ends:
            if site != ORIGIN:
                self._load[self._hosts[site]] += change

    def take_serial(self) -> int:
        """A serial number for a rank: copies with equal times start in the order of their
        requests."""
        self._serial += 1
        return self._serial

    def add(self, key: Key, source: int, rank: Rank) -> None:
        """Add a large copy that waits for room."""
        heappush(self.waiting.setdefault((source, key[2]), []), (rank, key))

    def next(self) -> tuple[Rank, Key] | None:
        """Remove and return the entry with the lowest rank on the links that have room; None if
        there is none."""
        best = None
        for link, heap in self.waiting.items():
            if self.has_room(*link) and (best is None or heap[0] < self.waiting[best][0]):
                best = link
        if best is None:
            return None
        entry = heappop(self.waiting[best])
        if not self.waiting[best]:
            del self.waiting[best]
        return entry

    def clear(self) -> None:
        """Forget all copies: the engine that ran them has ended."""
        self.running.clear()
        self.waiting.clear()
        self.under_way.clear()
        self.outdated.clear()
        self._load.clear()
        self._link_load.clear()
