"""Late copies: a copy that takes much longer than its link suggests is tried another way.

A transfer may hang on a path that others do not use. It is given up once: for the nearest of the
other places that have the file, else for another transfer method between the same sites. The second
copy gets all the time that it needs. A late copy that no attempt waits for any more has no second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from wfrun.engine import events as ev
from wfrun.engine.core.actions import SetTimer
from wfrun.engine.core.capability import Capability, Decisions, Run
from wfrun.engine.files.copies import SHARED_BYTES
from wfrun.engine.files.copy_queue import Key

_TIMER = "late-copies"

LATE_FACTOR = 4.0
"""Minimum ratio of the time that a late copy has taken to its expected time. Copies of one link
vary by less."""

MIN_LATE_S = 30.0
"""Minimum time after which a copy is late, in seconds: shorter copies vary more, and to begin again
costs about as much."""

MIN_INTERVAL_S = 30.0
"""Minimum interval between two looks at the copies under way."""


class LateCopies(Capability):
    """Redirects late copies of large files to another source or method, each once.

    The expected time is that of the link, from this run's copies, else from those of earlier runs
    or the catalog, times the number of large copies that share an end of it. Nothing is expected of
    a link of which nothing is known.

    One timer runs while a large copy is under way. Cost: constant for the start of a copy, nothing
    for its end; of a look, at most one in `MIN_INTERVAL_S`, the copies under way.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._methods: dict[Key, tuple[int, str, str]] = {}
        """By copy that another transfer method could carry: its source, its method, and the other
        method. Entries of copies that have ended are kept until the next look."""
        self._wake_up_s = inf
        """When to look next. The log does not record it: each engine sets its own timer."""
        self._late: list[Key] = []

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        """Wanted where copies are real. Simulated copies take the time that their links promise."""
        return run.state.own_outputs

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return {ev.CopyRouted: self._routed, ev.TimerFired: self._timer_fired}

    def on_copy_started(self, key: Key, source: int) -> None:
        if self._wake_up_s == inf and self._is_large(key):
            self._look_at(self.state.now_s + MIN_LATE_S)

    def _is_large(self, key: Key) -> bool:
        """Whether a time is expected of a copy. None is for small files, which share messages, nor
        for files of unknown size."""
        return self.state.workflows[key[0]].sizes[key[1]] > SHARED_BYTES

    def _look_at(self, at_s: float) -> None:
        self._wake_up_s = at_s
        self.run.outbox.append(SetTimer(_TIMER, at_s))

    def _routed(self, event: ev.CopyRouted) -> None:
        if event.other:
            key = event.workflow, event.file, event.destination
            self._methods[key] = event.source, event.method, event.other

    def on_resumed(self, dismissed: bool) -> None:
        """The copies ended with the engine that ran them."""
        self._methods.clear()
        self._late.clear()
        self._wake_up_s = inf

    def _timer_fired(self, event: ev.TimerFired) -> None:
        """Look for late copies."""
        if event.timer != _TIMER or event.at_s < self._wake_up_s:
            return
        self._wake_up_s = inf
        now_s, under_way = self.state.now_s, self.state.copy_queue.under_way
        self._methods = {key: one for key, one in self._methods.items() if key in under_way}
        large = [key for key in under_way if self._is_large(key)]
        at: Counter[int] = Counter()
        for key in large:
            at.update((under_way[key][0], key[2]))
        next_s = inf
        for key in large:
            late_s = self._late_s(key, at)
            if late_s <= now_s:
                self._late.append(key)
            else:
                next_s = min(next_s, late_s)
        if next_s < inf:
            self._look_at(max(next_s, now_s + MIN_INTERVAL_S))
        self.run.decision_due = self.run.decision_due or bool(self._late)

    def _late_s(self, key: Key, at: Counter[int]) -> float:
        """When a copy is late; infinite if never. ``at``: by site, number of large copies under way
        to or from it."""
        copy, (source, _, began_s) = (
            self.state.copies.get(key),
            self.state.copy_queue.under_way[key],
        )
        if copy is None or copy.was_late:
            return inf
        size_bytes = self.state.workflows[key[0]].sizes[key[1]]
        expected_s = self.state.network.expected_s(source, key[2], size_bytes)
        if expected_s is None:
            return inf
        shared = max(at[source], at[key[2]])
        return began_s + max(MIN_LATE_S, LATE_FACTOR * shared * expected_s)

    def decide(self, decisions: Decisions, possible: bool) -> None:
        late, self._late = self._late, []
        for key in late:
            begun = self.state.copy_queue.under_way.get(key)
            if begun is None or key not in self.state.copies:
                continue
            source, _, began_s = begun
            at, *methods = self._methods.get(key, (source, "", ""))
            if self._has_other_source(key, source):
                methods = ["", ""]
            elif at != source or not methods[1]:
                continue
            now_s = self.state.now_s
            ends = *key[:2], source, key[2]
            decisions.take(ev.CopyLate(now_s, *ends, now_s - began_s, *methods))

    def _has_other_source(self, key: Key, source: int) -> bool:
        present = self.state.workflows[key[0]].present[key[1]]
        return bool(present & ~self.state.network.bit(source))

    def end_replay(self) -> None:
        """The decisions that follow from the log are in the log."""
        self._late.clear()
