"""Late copies: a copy that takes much longer than its link suggests is tried another way.

A transfer may hang on a path that others do not use. It is given up once: for the nearest of the
other places that have the file, else for another transfer method between the same sites. The second
copy gets all the time that it needs. A late copy that no attempt waits for any more has no second.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, NamedTuple

from wfrun.engine import events as ev
from wfrun.engine.actions import SetTimer
from wfrun.engine.capability import Capability, Decisions, Run
from wfrun.engine.copies import SHARED_BYTES
from wfrun.engine.copy_queue import Key

_TIMER = "late-copies"

LATE_FACTOR = 4.0
"""Minimum ratio of the time that a copy has taken to its expected time at which it is late. Copies
of one link vary by less."""

MIN_LATE_S = 30.0
"""Minimum time after which a copy is late, in seconds: short copies vary by more, and to begin
again costs about as much."""

MIN_INTERVAL_S = 30.0
"""Minimum interval between two looks at the copies under way."""


class _UnderWay(NamedTuple):
    """A large copy under way."""

    serial: int
    source: int
    began_s: float
    avoid: tuple[str, ...]
    method: str = ""
    other: str = ""
    """The transfer method, and another one that could carry the file; empty: there is no other."""


class LateCopies(Capability):
    """Redirects late copies of large files to another source or method, each once.

    The expected time is that of the link, from this run's copies, else from those of earlier runs
    or the catalog, times the number of large copies that share an end of it. Nothing is expected of
    a link of which nothing is known.

    Cost: constant for a copy, but for a heap; of a look, the copies that are due.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._under_way: dict[Key, _UnderWay] = {}
        self._at: Counter[int] = Counter()
        """Number of large copies under way, by site at either end."""
        self._due: list[tuple[float, int, Key]] = []
        """Heap of (time, serial number, copy). Entries of copies that have ended are stale."""
        self._serial = 0
        self._wake_up_s = inf
        """When to look next. The log does not state it: each engine sets its own timer."""
        self._late: list[Key] = []

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        """Where copies are real. Simulated ones take the time that their links promise."""
        return run.state.own_outputs

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return {
            ev.TransferEnded: self._ended,
            ev.TransferFailed: self._ended,
            ev.CopyRouted: self._routed,
            ev.CopyLate: self._given_up,
            ev.TimerFired: self._timer_fired,
        }

    def on_copy_started(self, key: Key, source: int) -> None:
        size_bytes = self.state.workflows[key[0]].sizes[key[1]]
        if size_bytes <= SHARED_BYTES:  # They share messages. Nothing is expected of unknown sizes.
            return
        self._forget(key)
        self._serial += 1
        copy = self.state.copies[key]
        self._under_way[key] = _UnderWay(self._serial, source, self.state.now_s, copy.avoid)
        for place in (source, key[2]):  # Methods of Counter cost more than the rest.
            self._at[place] += 1
        if not copy.was_late:
            due_s = self.state.now_s + MIN_LATE_S
            heapq.heappush(self._due, (due_s, self._serial, key))
            self._look_at(due_s)

    def began_s(self, key: Key) -> float | None:
        """When a large copy under way started; None for all others."""
        one = self._under_way.get(key)
        return None if one is None else one.began_s

    def _late_s(self, key: Key) -> float | None:
        """When a copy is late; None: never."""
        one = self._under_way[key]
        size_bytes = self.state.workflows[key[0]].sizes[key[1]]
        expected_s = self.state.network.expected_s(one.source, key[2], size_bytes)
        if expected_s is None:
            return None
        shared = max(self._at[one.source], self._at[key[2]])
        return one.began_s + max(MIN_LATE_S, LATE_FACTOR * shared * expected_s)

    def _look_at(self, at_s: float) -> None:
        if at_s < self._wake_up_s:
            self._wake_up_s = at_s
            self.run.outbox.append(SetTimer(_TIMER, at_s))

    def _ended(self, event: ev.TransferEnded | ev.TransferFailed) -> None:
        key = event.workflow, event.file, event.destination
        one = self._under_way.get(key)
        if one is not None and (one.source, one.avoid) == (event.source, event.avoided):
            self._forget(key)

    def _routed(self, event: ev.CopyRouted) -> None:
        key = event.workflow, event.file, event.destination
        one = self._under_way.get(key)
        if one is not None and one.source == event.source:
            self._under_way[key] = one._replace(method=event.method, other=event.other)

    def _given_up(self, event: ev.CopyLate) -> None:
        """The core has cancelled the copy, whose end is not reported. The second one may have
        started already."""
        key = event.workflow, event.file, event.destination
        if key not in self.state.copy_queue.under_way:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        one = self._under_way.pop(key, None)
        if one is not None:
            for place in (one.source, key[2]):
                self._at[place] -= 1

    def on_resumed(self, dismissed: bool) -> None:
        """The copies ended with the engine that ran them."""
        self._under_way.clear()
        self._at.clear()
        self._due.clear()
        self._late.clear()
        self._wake_up_s = inf

    def _timer_fired(self, event: ev.TimerFired) -> None:
        """Look for late copies."""
        if event.timer != _TIMER or event.at_s < self._wake_up_s:
            return
        self._wake_up_s = inf
        now_s = self.state.now_s
        while self._due:
            due_s, serial, key = self._due[0]
            one = self._under_way.get(key)
            is_stale = one is None or one.serial != serial
            if not is_stale and due_s > now_s:
                break
            heapq.heappop(self._due)
            if not is_stale:
                self._examine(serial, key)
        if self._due:
            self._look_at(max(self._due[0][0], now_s + MIN_INTERVAL_S))
        self.run.decision_due = self.run.decision_due or bool(self._late)

    def _examine(self, serial: int, key: Key) -> None:
        """Note a copy as late, or look again later."""
        late_s = self._late_s(key)
        if late_s is not None and late_s > self.state.now_s:
            heapq.heappush(self._due, (late_s, serial, key))
        elif late_s is not None:
            self._late.append(key)

    def decide(self, decisions: Decisions, possible: bool) -> None:
        late, self._late = self._late, []
        for key in late:
            copy, one = self.state.copies.get(key), self._under_way.get(key)
            if copy is None or one is None:
                continue
            methods = one.method, one.other
            if self._has_other_source(key, one.source):
                methods = "", ""
            elif not one.other:
                continue
            now_s = self.state.now_s
            ends = *key[:2], one.source, key[2]
            decisions.take(ev.CopyLate(now_s, *ends, now_s - one.began_s, *methods))

    def _has_other_source(self, key: Key, source: int) -> bool:
        present = self.state.workflows[key[0]].present[key[1]]
        return bool(present & ~self.state.network.bit(source))

    def end_replay(self) -> None:
        """The decisions that follow from the log are in the log."""
        self._late.clear()
