"""The time that is left of a run, for live displays: ``about 12 min left (9–20)``."""

from __future__ import annotations

import time
from typing import NamedTuple

from wfrun.engine.core.state import RunState
from wfrun.engine.explain.time_left import TimeLeft, TimeLeftEstimator

EVERY_S = 2.0
"""Minimum interval between two estimates, in seconds."""
MAX_SHARE = 0.01
"""Maximum share of a core that estimates take. If an estimate takes long, the interval to the next
one is longer."""
WEIGHT = 0.3
"""Weight of a new estimate in the shown time, which is smoothed so that it does not flicker."""
JUMP = 0.5
"""Relative difference between a new estimate and the shown time above which the new estimate
replaces the shown time without smoothing. The difference is relative to the larger of the two."""


class _Unit(NamedTuple):
    """A unit of times, and the step to which times are rounded in this unit."""

    word: str
    seconds: float
    step: int
    below_s: float
    """Times below this are shown in this unit, in seconds."""


_UNITS = (
    _Unit("s", 1.0, 5, 95.0),
    _Unit("min", 60.0, 1, 30 * 60.0),
    _Unit("min", 60.0, 5, 100 * 60.0),
    _Unit("h", 3600.0, 1, 48 * 3600.0),
    _Unit("days", 86400.0, 1, float("inf")),
)
_SOON_S = 5.0
"""Times below this are shown as "a few seconds", in seconds."""


class Eta:
    """Estimates the time that is left of one run. Between two estimates the shown time
    decreases."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._estimator = TimeLeftEstimator(state)
        self._shown: TimeLeft | None = None
        """The smoothed time left at ``_at_s``; None: unknown."""
        self._at_s = 0.0
        self._next_s = 0.0
        """Time of the next estimate on the monotonic clock, in seconds."""

    def at(self, now_s: float) -> TimeLeft | None:
        """The time left at ``now_s``, a time on the clock of events. None: unknown, or the run has
        ended."""
        begun_s = time.monotonic()
        if begun_s >= self._next_s:
            cpu_s = time.process_time()
            found = self._estimator.at(now_s)
            cost_s = time.process_time() - cpu_s
            self._next_s = begun_s + max(EVERY_S, cost_s / MAX_SHARE)
            self._shown, self._at_s = _smoothed(self._gone_on(now_s), found), now_s
        if self._state.ended is not None:
            self._shown = None
        return self._gone_on(now_s)

    def text(self, now_s: float, *, has_interval: bool = True) -> str:
        """The time left as text, such as ``about 12 min left (9–20)``; empty if unknown."""
        found = self.at(now_s)
        return "" if found is None else eta_text(found, has_interval=has_interval)

    def _gone_on(self, now_s: float) -> TimeLeft | None:
        """The shown time, less the time since the estimate; None: unknown."""
        if self._shown is None:
            return None
        since_s = max(0.0, now_s - self._at_s)
        return TimeLeft(*(max(0.0, each - since_s) for each in self._shown))


def _smoothed(before: TimeLeft | None, found: TimeLeft | None) -> TimeLeft | None:
    if before is None or found is None:
        return found
    larger_s = max(before.value_s, found.value_s)
    if abs(before.value_s - found.value_s) > JUMP * larger_s:
        return found
    return TimeLeft(*(old + WEIGHT * (new - old) for old, new in zip(before, found, strict=True)))


def eta_text(left: TimeLeft, *, has_interval: bool = True) -> str:
    """The time left as text, such as ``about 12 min left (9–20)``. Both ends of the interval are in
    the unit of the estimate."""
    if left.high_s < _SOON_S:
        return "a few seconds left"
    unit = next(unit for unit in _UNITS if left.value_s < unit.below_s)
    value = max(unit.step, _rounded(left.value_s, unit))
    text = f"about {value} {unit.word} left"
    low, high = _rounded(left.low_s, unit), _rounded(left.high_s, unit)
    if not has_interval or low >= value >= high:
        return text
    return f"{text} ({min(low, value)}–{max(high, value)})"


def _rounded(seconds: float, unit: _Unit) -> int:
    return round(seconds / unit.seconds / unit.step) * unit.step
