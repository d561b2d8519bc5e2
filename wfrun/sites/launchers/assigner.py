"""Which launcher runs what: attempts that wait, and launchers that have room. No I/O.

Attempts are given out in the order in which they came, each to the least loaded launcher that has
room for it. One that fits nowhere for now gets the next room that is made for it: a launcher is
kept for the first such attempt, and others go past it elsewhere.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Sequence
from math import frexp

from wfrun.engine.exchange import AttemptRequest
from wfrun.engine.model import Resources
from wfrun.engine.prefetch import prefetch_per_slot

WEIGHT = 0.05
"""Of the last task in the mean of how long tasks take."""
TAKE_BACK_S = 0.5
"""What has waited for so long in a launcher's stock can be taken back for one that is idle."""


class LauncherNode:
    """A node of a launcher. ``is_open``: it takes attempts now."""

    __slots__ = (
        "cores",
        "ends_s",
        "gpus",
        "attempts",
        "host",
        "is_open",
        "latency_s",
        "launcher",
        "memory_bytes",
        "number",
        "parts",
        "used_cores",
        "used_gpus",
        "used_memory_bytes",
        "walltime_s",
    )

    def __init__(self, launcher: str, number: int = 0) -> None:
        self.launcher = launcher
        self.number = number
        self.host = ""
        self.cores = 0
        self.memory_bytes = 0
        """0: not stated."""
        self.gpus = 0
        self.walltime_s: float | None = None
        """That it was asked for."""
        self.ends_s: float | None = None
        """When its time is over, by the clock of ``AttemptAssigner``'s callers; None: unknown."""
        self.latency_s = 0.0
        self.is_open = False
        self.attempts: dict[str, PoolAttempt] = {}
        """In the order in which they were given to it."""
        self.parts = 0
        """Attempts of several nodes that have cores here. It knows only of those that it was
        given itself, so it holds nothing in advance meanwhile."""
        self.used_cores = 0
        self.used_memory_bytes = 0
        self.used_gpus = 0

    def could_hold(self, asked: Resources) -> bool:
        """Whether there would be room if nothing else were here."""
        return (
            asked.cores // asked.nodes <= self.cores
            and (not self.memory_bytes or asked.memory_bytes <= self.memory_bytes)
            and asked.gpus <= self.gpus
        )

    def has_room(self, asked: Resources, times: int = 1) -> bool:
        """Whether there is room now; for ``times`` as much as can run at once."""
        memory_bytes = self.used_memory_bytes + asked.memory_bytes
        return (
            self.used_cores + asked.cores // asked.nodes <= self.cores * times
            and (not self.memory_bytes or memory_bytes <= self.memory_bytes * times)
            and (not asked.gpus or self.used_gpus + asked.gpus <= self.gpus * times)
        )

    def lasts(self, request: AttemptRequest, now_s: float) -> bool:
        """Whether its time is long enough, as far as that can be said."""
        need_s = request.expected_s
        if need_s is None:
            need_s = request.resources.walltime_s
            if need_s is None or self.walltime_s is None or need_s >= self.walltime_s:
                return True
        return self.ends_s is None or now_s + need_s <= self.ends_s

    def charge(self, asked: Resources, sign: int) -> None:
        self.used_cores += sign * (asked.cores // asked.nodes)
        self.used_memory_bytes += sign * asked.memory_bytes
        self.used_gpus += sign * asked.gpus
        if asked.nodes > 1:
            self.parts += sign


class PoolAttempt:
    """An attempt whose end is to be told."""

    __slots__ = (
        "asked",
        "cancelled",
        "key",
        "nodes",
        "number",
        "refused_by",
        "request",
        "returning",
        "sent_s",
        "started",
        "stray",
        "withdrawn",
    )

    def __init__(self, key: str, request: AttemptRequest | None, number: int) -> None:
        self.key = key
        self.request = request
        """None: an engine before this one gave it out."""
        self.number = number
        self.asked = request.resources if request is not None else Resources()
        self.nodes: tuple[LauncherNode, ...] = ()
        """That have it, the first of them runs it; none: it waits, or nobody knows who has it."""
        self.started = False
        self.sent_s = 0.0
        self.returning = False
        """It was asked back."""
        self.withdrawn = False
        """It is to end where it has not started."""
        self.cancelled = False
        """It is to end in any case."""
        self.stray = False
        """A launcher that can't be reached may have it too."""
        self.refused_by: tuple[LauncherNode, ...] = ()
        """Gave it back without being asked."""

    @property
    def first_node(self) -> LauncherNode | None:
        return self.nodes[0] if self.nodes else None


_Likeness = tuple[Resources, tuple[str, ...], int | None, tuple[LauncherNode, ...]]


class AttemptAssigner:
    """Attempts and launchers of one site."""

    def __init__(self) -> None:
        self.attempts: dict[str, PoolAttempt] = {}
        """All whose end is to be told."""
        self.nodes: dict[tuple[str, int], LauncherNode] = {}
        self.mean_s: float | None = None
        """How long tasks have taken of late; None: none has ended yet."""
        self._waiting: dict[_Likeness, OrderedDict[str, PoolAttempt]] = {}
        """Like attempts, each kind in order of their numbers."""
        self._made = 0

    # -- attempts

    def add(self, request: AttemptRequest) -> PoolAttempt:
        """A new one waits."""
        attempt = self.learn(request.key, request)
        self.wait(attempt)
        return attempt

    def learn(self, key: str, request: AttemptRequest | None = None) -> PoolAttempt:
        """One of which it is to be found out who has it."""
        self._made += 1
        attempt = self.attempts[key] = PoolAttempt(key, request, self._made)
        return attempt

    def wait(self, attempt: PoolAttempt) -> None:
        """It waits for a launcher; one that was given out before, in front."""
        assert attempt.request is not None
        self.set_aside(attempt)
        attempt.started = attempt.returning = False
        like = self._waiting.setdefault(_likeness(attempt, attempt.request), OrderedDict())
        newest = next(reversed(like.values())).number if like else 0
        like[attempt.key] = attempt
        if attempt.number < newest:
            for key in [key for key, other in like.items() if other.number > attempt.number]:
                like.move_to_end(key)

    def is_waiting(self, attempt: PoolAttempt) -> bool:
        if attempt.nodes or attempt.request is None:
            return False
        return attempt.key in self._waiting.get(_likeness(attempt, attempt.request), ())

    def set_aside(self, attempt: PoolAttempt) -> None:
        """It neither waits nor is with a launcher."""
        for node in attempt.nodes:
            node.charge(attempt.asked, -1)
            node.attempts.pop(attempt.key, None)
        attempt.nodes = ()
        if attempt.request is not None:
            likeness = _likeness(attempt, attempt.request)
            like = self._waiting.get(likeness)
            if like is not None and like.pop(attempt.key, None) is not None and not like:
                del self._waiting[likeness]

    def hold(self, attempt: PoolAttempt, nodes: Sequence[LauncherNode]) -> None:
        """These have it."""
        if attempt.nodes and attempt.nodes[0] is nodes[0]:
            return
        self.set_aside(attempt)
        attempt.nodes = tuple(nodes)
        attempt.returning = False
        for node in nodes:
            node.charge(attempt.asked, +1)
        nodes[0].attempts[attempt.key] = attempt

    def end(self, key: str, took_s: float | None = None) -> PoolAttempt | None:
        """It has ended, after so long; None: this is known, or it is none of ours."""
        attempt = self.attempts.pop(key, None)
        if attempt is not None:
            self.set_aside(attempt)
            if took_s is not None:
                took_s = max(1e-6, took_s)  # clocks are set back
                mean_s = took_s if self.mean_s is None else self.mean_s
                self.mean_s = mean_s + WEIGHT * (took_s - mean_s)
        return attempt

    def waiting(self) -> int:
        return sum(len(like) for like in self._waiting.values())

    # -- launchers

    def join(self, launcher: str, node: int) -> LauncherNode:
        """A node of a launcher, which may have been here before."""
        return self.nodes.setdefault((launcher, node), LauncherNode(launcher, node))

    def leave(self, launcher: str) -> list[PoolAttempt]:
        """It is gone; returns what it had, of which it is to be found out what became."""
        gone = [node for (name, _), node in self.nodes.items() if name == launcher]
        had = []
        for node in gone:
            del self.nodes[node.launcher, node.number]
            for attempt in [h for h in self.attempts.values() if node in h.nodes]:
                self.set_aside(attempt)
                had.append(attempt)
        return had

    # -- decisions

    def assign(self, now_s: float) -> list[PoolAttempt]:
        """Give out what there is room for; each is with its nodes then."""
        room = {node: 1 + self._stock(node) for node in self.nodes.values()
                if node.is_open and self._is_free(node)}  # fmt: skip
        heads = [(next(iter(like.values())).number, likeness)
                 for likeness, like in self._waiting.items()]  # fmt: skip
        heapq.heapify(heads)
        given = []
        kept = False
        while heads and room:
            _, likeness = heapq.heappop(heads)
            like = self._waiting[likeness]
            attempt = next(iter(like.values()))
            nodes = self._room_for(attempt, room, now_s)
            if not nodes:
                if not kept:
                    kept = self._keep_for(attempt, room, now_s)
                continue
            more = len(like) > 1
            self.hold(attempt, nodes)
            attempt.sent_s = now_s
            given.append(attempt)
            for node in nodes:
                if node.used_cores >= node.cores * room[node]:
                    del room[node]
            if more:
                heapq.heappush(heads, (next(iter(like.values())).number, likeness))
        return given

    def _stock(self, node: LauncherNode) -> int:
        return 0 if node.parts else prefetch_per_slot(node.latency_s, self.mean_s)

    def _is_free(self, node: LauncherNode) -> bool:
        return node.used_cores < node.cores * (1 + self._stock(node))

    def _room_for(
        self, attempt: PoolAttempt, room: dict[LauncherNode, int], now_s: float
    ) -> Sequence[LauncherNode] | None:
        """The least loaded of those with room."""
        assert attempt.request is not None
        asked = attempt.asked
        if asked.nodes > 1:
            return self._rooms_for(attempt, list(room), now_s)
        best: LauncherNode | None = None
        least = 0.0
        avoided = attempt.request.avoid_hosts and self._avoided(attempt, now_s)
        for node, times in room.items():
            if not node.could_hold(asked) or not node.has_room(asked, times):
                continue
            if not node.lasts(attempt.request, now_s):
                continue
            if (avoided and node.host in avoided) or node in attempt.refused_by:
                continue
            load = node.used_cores / node.cores
            if best is None or load < least:
                best, least = node, load
        return (best,) if best is not None else None

    def _rooms_for(
        self, attempt: PoolAttempt, room: Sequence[LauncherNode], now_s: float
    ) -> Sequence[LauncherNode] | None:
        """Nodes of one launcher, with cores that are idle on each."""
        assert attempt.request is not None
        by_launcher: dict[str, list[LauncherNode]] = {}
        for node in room:
            if node.has_room(attempt.asked) and node.lasts(attempt.request, now_s):
                by_launcher.setdefault(node.launcher, []).append(node)
        for nodes in by_launcher.values():
            if len(nodes) >= attempt.asked.nodes and nodes[0] not in attempt.refused_by:
                return nodes[: attempt.asked.nodes]
        return None

    def _could_run(self, attempt: PoolAttempt, now_s: float) -> list[LauncherNode]:
        """Those that could run it if they had nothing else."""
        request = attempt.request
        assert request is not None
        return [
            node
            for node in self.nodes.values()
            if node.is_open
            and node.could_hold(attempt.asked)
            and node.lasts(request, now_s)
            and node not in attempt.refused_by
        ]

    def _avoided(self, attempt: PoolAttempt, now_s: float) -> tuple[str, ...]:
        """The hosts that it can do without."""
        assert attempt.request is not None
        avoided = attempt.request.avoid_hosts
        if any(node.host not in avoided for node in self._could_run(attempt, now_s)):
            return avoided
        return ()

    def _keep_for(self, attempt: PoolAttempt, room: dict[LauncherNode, int], now_s: float) -> bool:
        """Nothing more goes to the launcher that will have room for it first."""
        candidates = self._could_run(attempt, now_s)
        if attempt.request is not None and attempt.request.avoid_hosts:
            avoided = self._avoided(attempt, now_s)
            candidates = [node for node in candidates if node.host not in avoided]
        by_launcher: dict[str, list[LauncherNode]] = {}
        for node in candidates:
            by_launcher.setdefault(node.launcher, []).append(node)
        choices = []
        for nodes in by_launcher.values():
            nodes.sort(key=lambda node: node.used_cores - node.cores)
            if len(nodes) >= attempt.asked.nodes:
                choices.append(nodes[: attempt.asked.nodes])
        if not choices:
            return False  # it waits for another launcher
        for node in min(choices, key=lambda m: m[-1].used_cores - m[-1].cores):
            room.pop(node, None)
        return True

    def surplus(self, now_s: float) -> dict[LauncherNode, list[str]]:
        """What to ask back from stocks, for launchers that are idle."""
        idle = [m for m in self.nodes.values() if m.is_open and m.used_cores < m.cores]
        wanted = sum(node.cores - node.used_cores for node in idle)
        if not idle or self._waiting:
            return {}
        back: dict[LauncherNode, list[str]] = {}
        rich = [m for m in self.nodes.values() if m.is_open and m.used_cores > m.cores]
        for node in sorted(rich, key=lambda m: m.cores - m.used_cores):
            spare = node.used_cores - node.cores
            patience_s = max(TAKE_BACK_S, 4 * node.latency_s)
            for attempt in reversed(node.attempts.values()):
                cores = attempt.asked.cores
                if min(wanted, spare) < cores:
                    break
                if attempt.returning:
                    wanted -= cores
                    spare -= cores
                elif (
                    not attempt.started
                    and attempt.request is not None
                    and now_s - attempt.sent_s > patience_s
                    and any(other.has_room(attempt.asked) for other in idle)
                ):
                    attempt.returning = True
                    back.setdefault(node, []).append(attempt.key)
                    wanted -= cores
                    spare -= cores
        return back

    def check(self) -> None:
        """Raises AssertionError where the books are wrong. For tests."""
        waiting = [key for like in self._waiting.values() for key in like]
        assert len(waiting) == len(set(waiting))
        for key in waiting:
            assert not self.attempts[key].nodes
        for node in self.nodes.values():
            parts = [h for h in self.attempts.values() if node in h.nodes]
            assert node.used_cores == sum(h.asked.cores // h.asked.nodes for h in parts)
            assert node.used_memory_bytes == sum(h.asked.memory_bytes for h in parts)
            assert node.used_gpus == sum(h.asked.gpus for h in parts)
            assert set(node.attempts) == {h.key for h in parts if h.nodes[0] is node}


def _likeness(attempt: PoolAttempt, request: AttemptRequest) -> _Likeness:
    """Attempts that fit in the same places, but for a little in their length."""
    length = None if request.expected_s is None else frexp(request.expected_s)[1]
    return request.resources, request.avoid_hosts, length, attempt.refused_by
