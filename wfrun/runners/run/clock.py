"""Clocks: the inbox of the loop, and the time."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from typing import Protocol

from wfrun.engine.errors import LostError
from wfrun.engine.events import Event

LAG_S = 0.2
"""So much later than it happens may become durable what nothing waits for."""


class Clock(Protocol):
    """Where events come from. A virtual clock jumps to the next one, a real one waits."""

    def now(self) -> float:
        """Seconds since the epoch, or since the start of a simulation."""

    def post(self, event: Event) -> None:
        """Let an event happen now."""

    def call_at(self, at_s: float, event: Event) -> None:
        """Let an event happen then, or now where that has passed."""

    async def next(self, *, lags: bool = False) -> list[Event]:
        """All events that have happened since the last call, in order; at least one, or none
        where the log ``lags`` behind and has to be written now. Raises what ``fail`` was given."""

    def fail(self, error: BaseException) -> None:
        """Let ``next`` raise this: the world can't go on."""


def _uptime_s() -> float:
    """Seconds since the machine booted; on Linux those in which it slept included."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class WallClock:
    """Real time. ``post`` may be called from the loop's own thread only.

    It begins at the system's clock and then counts on by itself, also while the machine sleeps:
    when somebody sets the system's clock, nothing waits for hours or happens too early.
    """

    def __init__(self) -> None:
        self._offset_s = time.time() - _uptime_s()
        self._inbox: list[Event] = []
        self._filled = asyncio.Event()
        self._failure: BaseException | None = None
        self._lag: asyncio.TimerHandle | None = None
        self._lag_is_over = False

    def now(self) -> float:
        return self._offset_s + _uptime_s()

    def go_on_from(self, at_s: float) -> None:
        """Be no earlier than this from now on: a log was written when the system's clock was
        ahead."""
        self._offset_s = max(self._offset_s, at_s - _uptime_s())

    def post(self, event: Event) -> None:
        self._inbox.append(event)
        self._filled.set()

    def call_at(self, at_s: float, event: Event) -> None:
        asyncio.get_running_loop().call_later(max(0.0, at_s - self.now()), self.post, event)

    async def next(self, *, lags: bool = False) -> list[Event]:
        if lags and self._lag is None:
            self._lag = asyncio.get_running_loop().call_later(LAG_S, self._end_lag)
        elif not lags and self._lag is not None:
            self._lag.cancel()
            self._lag = None
        await self._filled.wait()
        if self._failure is not None:
            raise self._failure
        if self._lag_is_over:
            self._lag, self._lag_is_over = None, False
            if lags:
                return []
        self._filled.clear()
        events, self._inbox = self._inbox, []
        return events

    def _end_lag(self) -> None:
        self._lag_is_over = True
        self._filled.set()

    def fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._filled.set()


class VirtualClock:
    """Time that jumps: ``next`` goes to the earliest thing that is due.

    Things that are due at one time happen in the order of their rank, then as they were asked
    for; what is posted happens at once. Simulated sites use ``schedule`` for what goes on inside
    them.
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s
        self._due: list[tuple[float, int, int, Event | Callable[[], None]]] = []
        self._posted: list[Event] = []
        self._serial = 0
        self._failure: BaseException | None = None

    def now(self) -> float:
        return self._now_s

    def post(self, event: Event) -> None:
        self._posted.append(event)  # most events: they need not pass the heap

    def call_at(self, at_s: float, event: Event) -> None:
        self.schedule(at_s, event)

    def schedule(self, at_s: float, what: Event | Callable[[], None], rank: int = 1) -> None:
        """Call this then, or post it, before all of a higher rank that is due at the same time."""
        self._serial += 1
        if at_s < self._now_s:
            at_s = self._now_s
        heapq.heappush(self._due, (at_s, rank, self._serial, what))

    async def next(self, *, lags: bool = False) -> list[Event]:
        """All events of the earliest time at which there are any. Raises LostError when nothing
        is ever going to happen."""
        if lags:
            return []
        due = self._due
        while not self._posted or (due and due[0][0] == self._now_s):
            if self._failure is not None:
                raise self._failure
            if not due:
                raise LostError(
                    f"the simulation stands still at {self._now_s:.1f} s: nothing is due, and the "
                    "run has not ended",
                    hint="a task waits for something that no event will bring: this is a defect "
                    "of a policy or of a simulated site",
                )
            self._now_s, _, _, what = heapq.heappop(due)
            if isinstance(what, Event):
                self._posted.append(what)
            else:
                what()
        if self._failure is not None:
            raise self._failure
        events, self._posted = self._posted, []
        return events

    def fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
