"""The network of a simulation: transfers that share links and head nodes, on a virtual clock.

The model is the fluid one: at any time every transfer has a rate, and the rates are max-min fair,
so that no rate can grow without a smaller or equal one shrinking (Bertsekas and Gallager, *Data
Networks*, 2nd edition, section 6.5.2). A transfer gets a rate after the latency of its link. It
uses the one-way link from its source to its destination. It also uses the head nodes of both sites,
if these have a bound: all traffic into and out of a site shares the head node.

Transfers from one place to another always have equal rates. They form one *pair*, a `FairQueue`, so
that most changes cost O(log n). Rates are computed again (progressive filling) over pairs, not
transfers, and only when a change can reach beyond its pair, through a head node.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set
from heapq import heapify, heappop, heappush
from math import inf
from typing import Generic, Literal, TypeAlias, TypeVar

from wfrun.engine.errors import InvalidError
from wfrun.engine.files.network import DEFAULT_BANDWIDTH_BYTES_PER_S
from wfrun.engine.model import ORIGIN, LinkSpec
from wfrun.sites.transfers.fair_queue import FairQueue

Key = TypeVar("Key")


class _Head:
    """The head node of a site, which bounds the traffic of the site in both directions together."""

    __slots__ = ("capacity", "level", "pairs", "remaining", "weight")

    def __init__(self, capacity: float) -> None:
        self.capacity = capacity
        """Maximum traffic in both directions together, in bytes per second."""
        self.pairs: list[_Pair] = []
        self.level = inf
        """Rate of the transfers that this head node limits; inf: it limits none."""
        self.remaining = 0.0
        self.weight = 0
        """During filling: ``remaining`` is the bandwidth not yet assigned, in bytes per second, and
        ``weight`` the number of transfers without a rate."""

    @property
    def load(self) -> float:
        """Traffic through the head node, in bytes per second."""
        return sum(pair.filled * pair.rate for pair in self.pairs)


class _Pair(FairQueue):
    """All transfers from one place to another that are past their latency."""

    __slots__ = ("alone_rate", "capacity", "filled", "heads", "held", "index", "latency_s",
                 "next_rate", "version")  # fmt: skip

    def __init__(self, index: int, capacity: float, latency_s: float, heads: list[_Head]) -> None:
        super().__init__()
        self.index = index
        self.capacity = capacity
        """Bandwidth of the link, in bytes per second."""
        self.latency_s = latency_s
        self.heads = heads
        self.alone_rate = min([capacity, *(head.capacity for head in heads)])
        """Rate of a transfer without others, in bytes per second; inf: no bound."""
        self.filled = 0
        """``count`` when the rate was last computed."""
        self.next_rate = 0.0
        """During filling: the new rate; negative: not yet determined."""
        self.held = False
        """Whether a head node limits the rate, not the link."""
        self.version = 0
        """Incremented with each change of ``due_s``; marks stale entries of the heap."""

    def settle_rate(self, rate: float, *, held: bool) -> None:
        """During filling: set the new rate, and subtract it from the head nodes."""
        self.next_rate = rate
        self.held = held
        for head in self.heads:
            head.remaining -= self.count * rate
            head.weight -= self.count


_Waiting: TypeAlias = tuple[float, int, "_Pair | None", float, Hashable]
"""A transfer during its latency: end of the latency, serial number, pair, size in bytes, task. A
transfer without a pair has no bandwidth limit and ends with its latency. The task is set for serial
sharing only."""


class SimNetwork(Generic[Key]):
    """Transfers between sites (by index; ORIGIN is the submit host) at virtual times.

    ``links`` are one-way; a link without a bandwidth has no bound. Pairs of places without a link
    get DEFAULT_BANDWIDTH_BYTES_PER_S, as scheduling decisions assume, and are listed in
    ``assumed``. ``head_bytes_per_s`` bounds the traffic of each head node, both directions
    together; its keys are names of sites and ``origin``. Transfers within a site take no time.

    ``sharing="serial"`` is the model of thesis section 6.2.1 instead of max-min sharing. The
    transfers of one task run one after another, each as if it were alone, and transfers of
    different tasks do not slow each other down. The delay of a task is the sum of latency +
    size/bandwidth.

    The owner may call ``advance`` at any time, also before or after ``next_change_s``. The results
    depend only on the start times, not on the order of simultaneous starts or the number of
    advances. Methods raise ValueError if time goes back.

    The constructor raises InvalidError for a bandwidth that is not positive, a negative latency, or
    an unknown site.
    """

    def __init__(
        self,
        site_names: Sequence[str],
        links: Sequence[LinkSpec],
        *,
        head_bytes_per_s: Mapping[str, float] | None = None,
        sharing: Literal["max-min", "serial"] = "max-min",
    ) -> None:
        self._serial = sharing == "serial"
        self._names = [*site_names, "origin"]  # index -1, that of ORIGIN, is the last
        self._pairs: list[_Pair] = []
        self.assumed: list[tuple[str, str]] = []
        """(source, destination) of the pairs of places for which the catalog has no link."""
        heads = {
            name: _Head(capacity)
            for name, capacity in self._checked_heads(head_bytes_per_s or {}).items()
        }
        self._heads = list(heads.values())
        self._table = self._make_pairs(self._checked_links(links), heads)
        self._headed = [pair for pair in self._pairs if pair.heads]
        self._now_s = -inf
        self._started = 0
        self._keys: dict[int, Key] = {}
        """Keys of the present transfers, by serial number."""
        self._change_s: float | None = inf
        """Time of the next end of a transfer or of a latency; None: it has to be computed."""
        self._waiting: list[_Waiting] = []
        self._due: list[tuple[float, int, int]] = []
        """Heap of (due_s, pair, version); entries of an old version are stale."""
        self._dirty: set[int] = set()
        """Pairs whose number of transfers has changed since rates were computed."""
        self._finished: list[Key] = []
        self._lanes: dict[Hashable, float] = {}
        """Serial sharing: time at which the last transfer of each task ends."""

    def start(
        self,
        key: Key,
        source: int,
        destination: int,
        size_bytes: float,
        now_s: float,
        task: Hashable = None,
    ) -> None:
        """Begin a transfer. ``advance`` returns ``key`` when the transfer has ended.

        With serial sharing, a transfer waits for the earlier ones of its ``task``; a transfer
        without a task does not wait. Raises InvalidError for a negative size.
        """
        if size_bytes < 0:
            raise InvalidError(f"transfer {key!r} has a negative size: {size_bytes} bytes")
        if now_s != self._now_s:
            self._run_to(now_s)
        pair = self._table[source][destination]
        bounded = size_bytes > 0 and pair.alone_rate < inf
        if source == destination or not (bounded or pair.latency_s or self._serial):
            self._finished.append(key)
            return
        self._change_s = None
        serial = self._started
        self._started += 1
        self._keys[serial] = key
        if self._serial:
            begin_s = now_s if task is None else max(now_s, self._lanes.get(task, now_s))
            end_s = begin_s + pair.latency_s + size_bytes / pair.alone_rate
            if task is not None:
                self._lanes[task] = end_s
            heappush(self._waiting, (end_s, serial, None, 0.0, task))
            return
        if pair.latency_s == 0:
            self._join(pair, serial, size_bytes)
            return
        shared = pair if bounded else None
        heappush(self._waiting, (now_s + pair.latency_s, serial, shared, size_bytes, None))

    @property
    def next_change_s(self) -> float:
        """Virtual time of the next change if no transfer is started before: the end of a transfer,
        or of the latency at its beginning. Infinite if there is no transfer. Never earlier than
        ``now_s`` of the last call."""
        if self._finished:
            return self._now_s
        if self._change_s is None:
            self._change_s = self._find_next_s()
        return self._change_s

    def advance(self, now_s: float) -> list[Key]:
        """Let time pass until ``now_s``, which may be infinite. Returns the transfers that have
        ended since the last call, in the order of their ends. Transfers that end at the same time
        are in the order of their starts."""
        self._run_to(now_s)
        finished, self._finished = self._finished, []
        return finished

    def throughput_bytes_per_s(self, source: int, destination: int) -> float:
        """Present throughput of all transfers from one place to another. Raises ValueError within a
        site, and with serial sharing."""
        if source == destination or self._serial:
            raise ValueError("only shared links have a throughput")
        self._fill()
        pair = self._table[source][destination]
        return pair.count * pair.rate

    # Time

    def _run_to(self, now_s: float) -> None:
        if now_s < self._now_s:
            raise ValueError(f"time went back from {self._now_s} s to {now_s} s")
        while True:
            at_s = self._find_next_s() if self._change_s is None else self._change_s
            if at_s > now_s or at_s == inf:
                break
            self._change_to(at_s)
        self._now_s, self._change_s = now_s, at_s

    def _change_to(self, at_s: float) -> None:
        """Go to the time of the next change: end the transfers that are due, and give the transfers
        whose latency ends to their pairs."""
        self._now_s, self._change_s = at_s, None
        ended: list[int] = []
        waiting, due, pairs = self._waiting, self._due, self._pairs
        while waiting and waiting[0][0] <= at_s:
            self._arrive(heappop(waiting), ended)
        while due and due[0][0] <= at_s:
            _, index, version = heappop(due)
            if pairs[index].version == version:
                self._leave(pairs[index], ended)
        if ended:
            ended.sort()
            self._finished += [self._keys.pop(serial) for serial in ended]

    def _find_next_s(self) -> float:
        """Time of the next end of a transfer or of a latency; infinite: there is none."""
        if self._dirty:
            self._fill()
        due, pairs = self._due, self._pairs
        while due:
            due_s, index, version = due[0]
            if pairs[index].version == version:
                break
            heappop(due)
        else:
            return self._waiting[0][0] if self._waiting else inf
        if self._waiting and self._waiting[0][0] < due_s:
            return self._waiting[0][0]
        return due_s

    def _arrive(self, entry: _Waiting, ended: list[int]) -> None:
        at_s, serial, pair, size_bytes, task = entry
        if pair is not None:
            self._join(pair, serial, size_bytes)
            return
        ended.append(serial)
        if task is not None and self._lanes.get(task, inf) <= at_s:
            del self._lanes[task]  # two of one task may end at the same time

    def _join(self, pair: _Pair, serial: int, size_bytes: float) -> None:
        pair.join(serial, size_bytes, self._now_s)
        self._dirty.add(pair.index)

    def _leave(self, pair: _Pair, ended: list[int]) -> None:
        """End the pair's first transfer and all transfers that end at the same time."""
        ended += pair.leave(self._now_s)
        pair.version += 1
        self._dirty.add(pair.index)

    # Rates

    def _fill(self) -> None:
        """Compute the rates of all pairs that are affected by changes since the last call."""
        dirty = sorted(self._dirty)
        self._dirty.clear()
        spread = False
        for index in dirty:
            pair = self._pairs[index]
            if not pair.heads:
                self._set_rate(pair, pair.capacity / pair.count if pair.count else 0.0)
            elif spread or self._reaches_others(pair):
                spread = True
            elif pair.filled != pair.count:
                self._set_rate(pair, pair.capacity / pair.count if pair.count else 0.0)
            else:
                self._set_rate(pair, pair.rate)
        if spread:
            self._fill_heads(frozenset(dirty))
        if len(self._due) > 64 + 4 * len(self._pairs):
            self._due = [(p.due_s, p.index, p.version) for p in self._pairs if p.count]
            heapify(self._due)

    def _reaches_others(self, pair: _Pair) -> bool:
        """Whether a change of a pair's number of transfers may change the rates of other pairs.

        It cannot in two cases. First, the pair uses as much of its head nodes as before, and its
        rate is at most that of each transfer that these head nodes limit. Second, the head nodes
        limit no transfer, before and after the change. In both cases each transfer still has a
        saturated link or head node on which no other transfer has a higher rate, which is the
        definition of max-min fairness.
        """
        if pair.count == pair.filled:
            return False
        if pair.held or pair.capacity == inf:
            return True
        level = min(head.level for head in pair.heads)
        if pair.count == 0:
            return level < inf
        if pair.filled:
            return pair.capacity / pair.count > level
        return level < inf or any(h.load + pair.capacity > h.capacity for h in pair.heads)

    def _fill_heads(self, changed: Set[int]) -> None:
        """Compute rates by progressive filling: all rates grow equally until a link or a head node
        is saturated. This fixes the rates of the transfers that use it; the others go on growing.
        ``changed`` are the pairs whose number of transfers has changed."""
        active = [pair for pair in self._headed if pair.count]
        for head in self._heads:
            head.remaining, head.weight, head.level = head.capacity, 0, inf
        for pair in active:
            pair.next_rate = -1.0
            for head in pair.heads:
                head.weight += pair.count
        heads = [head for head in self._heads if head.weight]
        by_link = [(pair.capacity / pair.count, pair.index) for pair in active]
        heapify(by_link)
        level = 0.0
        while heads:
            lowest, narrow = inf, heads[0]
            for head in heads:
                share = head.remaining / head.weight
                if share < lowest:
                    lowest, narrow = share, head
            level = max(level, lowest)  # rounding must not decrease it
            if by_link[0][0] > level:
                narrow.level = level
                for pair in narrow.pairs:
                    if pair.count and pair.next_rate < 0:
                        pair.settle_rate(level, held=True)
            while by_link and (by_link[0][0] <= level or self._pairs[by_link[0][1]].next_rate >= 0):
                bound, index = heappop(by_link)
                if self._pairs[index].next_rate < 0:
                    self._pairs[index].settle_rate(bound, held=False)
            heads = [head for head in heads if head.weight]
        for pair in active:
            if pair.next_rate != pair.rate or pair.index in changed:
                self._set_rate(pair, pair.next_rate)
        for index in changed:
            if self._pairs[index].heads and not self._pairs[index].count:
                self._set_rate(self._pairs[index], 0.0)

    def _set_rate(self, pair: _Pair, rate: float) -> None:
        pair.version += 1
        pair.filled = pair.count
        pair.set_rate(rate, self._now_s)
        if pair.count:
            heappush(self._due, (pair.due_s, pair.index, pair.version))
        else:
            pair.held = False

    # Checks

    def _checked_heads(self, heads: Mapping[str, float]) -> dict[str, float]:
        for name, capacity in heads.items():
            self._index(name, "the bandwidth of a head node")
            if not capacity > 0:
                raise InvalidError(
                    f"the head node of {name} has a bandwidth of {capacity} bytes/s",
                    hint="it must be positive; leave it out for no bound",
                )
        return {name: capacity for name, capacity in heads.items() if capacity < inf}

    def _checked_links(self, links: Sequence[LinkSpec]) -> dict[tuple[int, int], LinkSpec]:
        checked = {}
        for link in links:
            what = f"the link from {link.source} to {link.destination}"
            bandwidth = link.bandwidth_bytes_per_s
            if bandwidth is not None and not bandwidth > 0:
                raise InvalidError(
                    f"{what} has a bandwidth of {bandwidth} bytes/s",
                    hint="it must be positive; leave it out for no bound",
                )
            if not 0 <= link.latency_s < inf:
                raise InvalidError(
                    f"{what} has a latency of {link.latency_s} s", hint="use 0 or more seconds"
                )
            checked[self._index(link.source, what), self._index(link.destination, what)] = link
        return checked

    def _index(self, name: str, what: str) -> int:
        if name not in self._names:
            raise InvalidError(
                f"{what} names {name!r}, which is no site",
                hint=f"sites are: {', '.join(self._names)}",
            )
        index = self._names.index(name)
        return ORIGIN if index == len(self._names) - 1 else index

    def _make_pairs(
        self, links: Mapping[tuple[int, int], LinkSpec], heads: Mapping[str, _Head]
    ) -> list[list[_Pair]]:
        """The pair of each source and destination; index -1 is that of ORIGIN."""
        places = [*range(len(self._names) - 1), ORIGIN]
        table = []
        for source in places:
            row = []
            for destination in places:
                ends = (self._names[source], self._names[destination])
                link = links.get((source, destination))
                if link is None:
                    link = LinkSpec(*ends, DEFAULT_BANDWIDTH_BYTES_PER_S)
                    if source != destination:
                        self.assumed.append(ends)
                bandwidth = link.capped_bytes_per_s
                shared = [heads[name] for name in dict.fromkeys(ends) if name in heads]
                pair = _Pair(len(self._pairs), bandwidth or inf, link.latency_s, shared)
                self._pairs.append(pair)
                for head in shared:
                    head.pairs.append(pair)
                row.append(pair)
            table.append(row)
        return table
