"""Observation of the time for which slots are idle although tasks wait."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from wfrun.engine.capabilities.estimates.expected import ExpectedTimes, UseMark
from wfrun.engine.core.state import Attempt, Phase, RunState, TaskStatus

HALF_LIFE_S = 60.0
"""Minimum half-life, in seconds, of the weight of an observation of idle slots."""


class Idle(NamedTuple):
    """Idle time of slots while tasks wait."""

    per_task_s: float
    """Idle slot-seconds per ended task."""
    ratio: float
    """Ratio of the slot-seconds that exist to the slot-seconds that tasks use."""


class IdleTime:
    """Measures the idle time of slots per ended task while other tasks wait. Later observations
    outweigh earlier observations."""

    def __init__(self) -> None:
        self._last: UseMark | None = None
        """The resource use of the run at the latest observation, including that of running
        attempts."""
        self._slot_s = 0.0
        self._used_s = 0.0
        self._ended = 0.0

    def at(self, state: RunState, now_s: float, slots: int, running: Iterable[Attempt]) -> Idle:
        """Observe the run at ``now_s``, and return the idle time of its slots so far."""
        used_s = sum(site.used_core_s for site in state.sites)
        for attempt in running:
            if attempt.started_s is not None:
                used_s += attempt.cores * max(0.0, now_s - attempt.started_s)
        last, self._last = self._last, UseMark(now_s, used_s, state.done)
        expected = state.find(ExpectedTimes)
        if last is None and expected is not None:
            last = expected.since
        if last is not None and _has_waiting(state):
            used_s -= last.used_core_s
            self._add(now_s - last.at_s, slots, used_s, state.done - last.done)
        idle_s = max(0.0, self._slot_s - self._used_s)
        if self._ended <= 0 or idle_s == 0.0:
            return Idle(0.0, 1.0)
        return Idle(idle_s / self._ended, 1 + idle_s / self._used_s if self._used_s else inf)

    def _add(self, elapsed_s: float, slots: int, used_s: float, ended: int) -> None:
        mean_s = self._used_s / self._ended if self._ended else 0.0
        kept = 0.5 ** (max(0.0, elapsed_s) / max(HALF_LIFE_S, 3 * mean_s))
        self._slot_s = kept * self._slot_s + slots * elapsed_s
        self._used_s = kept * self._used_s + used_s
        self._ended = kept * self._ended + ended


def _has_waiting(state: RunState) -> bool:
    """Whether tasks wait that could run if there were more slots."""
    queued = sum(
        site.phases[phase] for site in state.sites for phase in (Phase.QUEUED, Phase.SUBMITTING)
    )
    return bool(state.counts[TaskStatus.ELIGIBLE] or queued)
