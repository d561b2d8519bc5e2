"""Late copies: a copy that takes much longer than expected of its link is replaced by another copy.

A transfer may hang on a path that other transfers do not use. A late copy is given up and replaced
once: by a copy from the nearest other place that has the file, or else by a copy with another
transfer method between the same sites. The second copy gets all the time that it needs. There is
none if no attempt waits for the file any more.
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
"""Minimum ratio of the time that a late copy has taken to its expected time. The times of copies
over one link vary by less."""

MIN_LATE_S = 30.0
"""Minimum time in seconds after which a copy is late: the times of shorter copies vary more, and a
new copy costs about as much."""

MIN_INTERVAL_S = 30.0
"""Minimum interval in seconds between two checks of the copies under way."""


class LateCopies(Capability):
    """Redirects late copies of large files to another source or method, each once.

    The expected time of a copy follows from the speed of its link, as known from copies of this
    run, else from earlier runs or the catalog. It is multiplied by the number of large copies that
    share an end of the link. A copy over a link of unknown speed is never late.

    One timer runs while a large copy is under way. Cost: constant for the start of a copy, nothing
    for its end; of a check, at most once in `MIN_INTERVAL_S`, the copies under way.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._methods: dict[Key, tuple[int, str, str]] = {}
        """By copy that another transfer method could carry: its source, its method, and the other
        method. Entries of copies that have ended are kept until the next check."""
        self._wake_up_s = inf
        """Time of the next check; infinite: none. The log does not record it: each engine sets its
        own timer."""
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
        """Whether the file of a copy is larger than `SHARED_BYTES`. Only large copies can be late:
        smaller files share messages, and no time can be expected for a file of unknown size."""
        return self.state.workflows[key[0]].sizes[key[1]] > SHARED_BYTES

    def _look_at(self, at_s: float) -> None:
        self._wake_up_s = at_s
        self.run.outbox.append(SetTimer(_TIMER, at_s))

    def _routed(self, event: ev.CopyRouted) -> None:
        if event.other:
            key = event.workflow, event.file, event.destination
            self._methods[key] = event.source, event.method, event.other

    def on_resumed(self, dismissed: bool) -> None:
        """Forget all copies: they ended with the engine that ran them."""
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
        """Time from which a copy is late; infinite: never. ``at``: by site, number of large copies
        under way to or from the site."""
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
        """Decide nothing: the decisions that follow from the log are in the log."""
        self._late.clear()
