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


class Member:
    """A node of a launcher. ``is_open``: it takes attempts now."""

    __slots__ = (
        "cores",
        "ends_s",
        "gpus",
        "held",
        "host",
        "is_open",
        "latency_s",
        "launcher",
        "memory_bytes",
        "node",
        "parts",
        "used_cores",
        "used_gpus",
        "used_memory_bytes",
        "walltime_s",
    )

    def __init__(self, launcher: str, node: int = 0) -> None:
        self.launcher = launcher
        self.node = node
        self.host = ""
        self.cores = 0
        self.memory_bytes = 0
        """0: not stated."""
        self.gpus = 0
        self.walltime_s: float | None = None
        """That it was asked for."""
        self.ends_s: float | None = None
        """When its time is over, by the clock of ``Pool``'s callers; None: unknown."""
        self.latency_s = 0.0
        self.is_open = False
        self.held: dict[str, Held] = {}
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


class Held:
    """An attempt whose end is to be told."""

    __slots__ = (
        "asked",
        "cancelled",
        "key",
        "members",
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
        self.members: tuple[Member, ...] = ()
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
        self.refused_by: tuple[Member, ...] = ()
        """Gave it back without being asked."""

    @property
    def member(self) -> Member | None:
        return self.members[0] if self.members else None


_Likeness = tuple[Resources, tuple[str, ...], int | None, tuple[Member, ...]]


class Pool:
    """Attempts and launchers of one site."""

    def __init__(self) -> None:
        self.attempts: dict[str, Held] = {}
        """All whose end is to be told."""
        self.members: dict[tuple[str, int], Member] = {}
        self.mean_s: float | None = None
        """How long tasks have taken of late; None: none has ended yet."""
        self._waiting: dict[_Likeness, OrderedDict[str, Held]] = {}
        """Like attempts, each kind in order of their numbers."""
        self._made = 0

    # -- attempts

    def add(self, request: AttemptRequest) -> Held:
        """A new one waits."""
        held = self.learn(request.key, request)
        self.wait(held)
        return held

    def learn(self, key: str, request: AttemptRequest | None = None) -> Held:
        """One of which it is to be found out who has it."""
        self._made += 1
        held = self.attempts[key] = Held(key, request, self._made)
        return held

    def wait(self, held: Held) -> None:
        """It waits for a launcher; one that was given out before, in front."""
        assert held.request is not None
        self.set_aside(held)
        held.started = held.returning = False
        like = self._waiting.setdefault(_likeness(held, held.request), OrderedDict())
        newest = next(reversed(like.values())).number if like else 0
        like[held.key] = held
        if held.number < newest:
            for key in [key for key, other in like.items() if other.number > held.number]:
                like.move_to_end(key)

    def is_waiting(self, held: Held) -> bool:
        if held.members or held.request is None:
            return False
        return held.key in self._waiting.get(_likeness(held, held.request), ())

    def set_aside(self, held: Held) -> None:
        """It neither waits nor is with a launcher."""
        for member in held.members:
            member.charge(held.asked, -1)
            member.held.pop(held.key, None)
        held.members = ()
        if held.request is not None:
            likeness = _likeness(held, held.request)
            like = self._waiting.get(likeness)
            if like is not None and like.pop(held.key, None) is not None and not like:
                del self._waiting[likeness]

    def hold(self, held: Held, members: Sequence[Member]) -> None:
        """These have it."""
        if held.members and held.members[0] is members[0]:
            return
        self.set_aside(held)
        held.members = tuple(members)
        held.returning = False
        for member in members:
            member.charge(held.asked, +1)
        members[0].held[held.key] = held

    def end(self, key: str, took_s: float | None = None) -> Held | None:
        """It has ended, after so long; None: this is known, or it is none of ours."""
        held = self.attempts.pop(key, None)
        if held is not None:
            self.set_aside(held)
            if took_s is not None:
                took_s = max(1e-6, took_s)  # clocks are set back
                mean_s = took_s if self.mean_s is None else self.mean_s
                self.mean_s = mean_s + WEIGHT * (took_s - mean_s)
        return held

    def waiting(self) -> int:
        return sum(len(like) for like in self._waiting.values())

    # -- launchers

    def join(self, launcher: str, node: int) -> Member:
        """A node of a launcher, which may have been here before."""
        return self.members.setdefault((launcher, node), Member(launcher, node))

    def leave(self, launcher: str) -> list[Held]:
        """It is gone; returns what it had, of which it is to be found out what became."""
        gone = [member for (name, _), member in self.members.items() if name == launcher]
        had = []
        for member in gone:
            del self.members[member.launcher, member.node]
            for held in [h for h in self.attempts.values() if member in h.members]:
                self.set_aside(held)
                had.append(held)
        return had

    # -- decisions

    def assign(self, now_s: float) -> list[Held]:
        """Give out what there is room for; each is with its members then."""
        room = {member: 1 + self._stock(member) for member in self.members.values()
                if member.is_open and self._is_free(member)}  # fmt: skip
        heads = [(next(iter(like.values())).number, likeness)
                 for likeness, like in self._waiting.items()]  # fmt: skip
        heapq.heapify(heads)
        given = []
        kept = False
        while heads and room:
            _, likeness = heapq.heappop(heads)
            like = self._waiting[likeness]
            held = next(iter(like.values()))
            members = self._room_for(held, room, now_s)
            if not members:
                if not kept:
                    kept = self._keep_for(held, room, now_s)
                continue
            more = len(like) > 1
            self.hold(held, members)
            held.sent_s = now_s
            given.append(held)
            for member in members:
                if member.used_cores >= member.cores * room[member]:
                    del room[member]
            if more:
                heapq.heappush(heads, (next(iter(like.values())).number, likeness))
        return given

    def _stock(self, member: Member) -> int:
        return 0 if member.parts else prefetch_per_slot(member.latency_s, self.mean_s)

    def _is_free(self, member: Member) -> bool:
        return member.used_cores < member.cores * (1 + self._stock(member))

    def _room_for(
        self, held: Held, room: dict[Member, int], now_s: float
    ) -> Sequence[Member] | None:
        """The least loaded of those with room."""
        assert held.request is not None
        asked = held.asked
        if asked.nodes > 1:
            return self._rooms_for(held, list(room), now_s)
        best: Member | None = None
        least = 0.0
        avoided = held.request.avoid_hosts and self._avoided(held, now_s)
        for member, times in room.items():
            if not member.could_hold(asked) or not member.has_room(asked, times):
                continue
            if not member.lasts(held.request, now_s):
                continue
            if (avoided and member.host in avoided) or member in held.refused_by:
                continue
            load = member.used_cores / member.cores
            if best is None or load < least:
                best, least = member, load
        return (best,) if best is not None else None

    def _rooms_for(
        self, held: Held, room: Sequence[Member], now_s: float
    ) -> Sequence[Member] | None:
        """Nodes of one launcher, with cores that are idle on each."""
        assert held.request is not None
        by_launcher: dict[str, list[Member]] = {}
        for member in room:
            if member.has_room(held.asked) and member.lasts(held.request, now_s):
                by_launcher.setdefault(member.launcher, []).append(member)
        for members in by_launcher.values():
            if len(members) >= held.asked.nodes and members[0] not in held.refused_by:
                return members[: held.asked.nodes]
        return None

    def _could_run(self, held: Held, now_s: float) -> list[Member]:
        """Those that could run it if they had nothing else."""
        request = held.request
        assert request is not None
        return [
            member
            for member in self.members.values()
            if member.is_open
            and member.could_hold(held.asked)
            and member.lasts(request, now_s)
            and member not in held.refused_by
        ]

    def _avoided(self, held: Held, now_s: float) -> tuple[str, ...]:
        """The hosts that it can do without."""
        assert held.request is not None
        avoided = held.request.avoid_hosts
        if any(member.host not in avoided for member in self._could_run(held, now_s)):
            return avoided
        return ()

    def _keep_for(self, held: Held, room: dict[Member, int], now_s: float) -> bool:
        """Nothing more goes to the launcher that will have room for it first."""
        candidates = self._could_run(held, now_s)
        if held.request is not None and held.request.avoid_hosts:
            avoided = self._avoided(held, now_s)
            candidates = [member for member in candidates if member.host not in avoided]
        by_launcher: dict[str, list[Member]] = {}
        for member in candidates:
            by_launcher.setdefault(member.launcher, []).append(member)
        choices = []
        for members in by_launcher.values():
            members.sort(key=lambda member: member.used_cores - member.cores)
            if len(members) >= held.asked.nodes:
                choices.append(members[: held.asked.nodes])
        if not choices:
            return False  # it waits for another launcher
        for member in min(choices, key=lambda m: m[-1].used_cores - m[-1].cores):
            room.pop(member, None)
        return True

    def surplus(self, now_s: float) -> dict[Member, list[str]]:
        """What to ask back from stocks, for launchers that are idle."""
        idle = [m for m in self.members.values() if m.is_open and m.used_cores < m.cores]
        wanted = sum(member.cores - member.used_cores for member in idle)
        if not idle or self._waiting:
            return {}
        back: dict[Member, list[str]] = {}
        rich = [m for m in self.members.values() if m.is_open and m.used_cores > m.cores]
        for member in sorted(rich, key=lambda m: m.cores - m.used_cores):
            spare = member.used_cores - member.cores
            patience_s = max(TAKE_BACK_S, 4 * member.latency_s)
            for held in reversed(member.held.values()):
                cores = held.asked.cores
                if min(wanted, spare) < cores:
                    break
                if held.returning:
                    wanted -= cores
                    spare -= cores
                elif (
                    not held.started
                    and held.request is not None
                    and now_s - held.sent_s > patience_s
                    and any(other.has_room(held.asked) for other in idle)
                ):
                    held.returning = True
                    back.setdefault(member, []).append(held.key)
                    wanted -= cores
                    spare -= cores
        return back

    def check(self) -> None:
        """Raises AssertionError where the books are wrong. For tests."""
        waiting = [key for like in self._waiting.values() for key in like]
        assert len(waiting) == len(set(waiting))
        for key in waiting:
            assert not self.attempts[key].members
        for member in self.members.values():
            parts = [h for h in self.attempts.values() if member in h.members]
            assert member.used_cores == sum(h.asked.cores // h.asked.nodes for h in parts)
            assert member.used_memory_bytes == sum(h.asked.memory_bytes for h in parts)
            assert member.used_gpus == sum(h.asked.gpus for h in parts)
            assert set(member.held) == {h.key for h in parts if h.members[0] is member}


def _likeness(held: Held, request: AttemptRequest) -> _Likeness:
    """Attempts that fit in the same places, but for a little in their length."""
    length = None if request.expected_s is None else frexp(request.expected_s)[1]
    return request.resources, request.avoid_hosts, length, held.refused_by
