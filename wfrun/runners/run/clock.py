"""Clocks, which give the loop its events and the time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from typing import Protocol

from wfrun.engine.errors import LostError
from wfrun.engine.events import Event
from wfrun.runners.run.directory.lock import uptime_s
from wfrun.runners.run.store.storable import storable

LAG_S = 0.2
"""``lag_s`` of `WallClock`, in seconds."""


class Clock(Protocol):
    """The inbox of the loop. A virtual clock jumps to the next event, a real one waits for it."""

    lag_s: float
    """Maximum delay before an event that triggers no action is committed, in seconds. 0: each event
    is committed at once, and ``next`` is never called with ``lags``."""

    def now(self) -> float:
        """Seconds since the epoch, or since the start of a simulation."""

    def post(self, event: Event) -> None:
        """Queue an event for the next call of ``next``."""

    def call_at(self, at_s: float, event: Event) -> None:
        """Queue an event for the time ``at_s``, or at once if this time has passed."""

    async def next(self, *, lags: bool = False) -> list[Event]:
        """Wait for events, and return all events since the last call, in order.

        ``lags`` says that the caller holds uncommitted events. In this case an empty list means
        that the caller must commit them now. Raises the error passed to ``fail``.
        """

    def fail(self, error: BaseException) -> None:
        """Make ``next`` raise this error: the run cannot continue."""


class WallClock:
    """Real time. ``post`` may be called only from the thread of the event loop.

    The clock starts at the system's time and then counts monotonically, also while the machine is
    suspended, so that a change of the system's time neither delays timers nor fires them early.
    """

    lag_s = LAG_S

    def __init__(self) -> None:
        self._offset_s = time.time() - uptime_s()
        self._inbox: list[Event] = []
        self._filled = asyncio.Event()
        self._failure: BaseException | None = None
        self._lag: asyncio.TimerHandle | None = None
        self._lag_is_over = False

    def now(self) -> float:
        return self._offset_s + uptime_s()

    def go_on_from(self, at_s: float) -> None:
        """Set the clock to at least ``at_s``, the end of the log, which may have been written while
        the system's time was ahead."""
        self._offset_s = max(self._offset_s, at_s - uptime_s())

    def post(self, event: Event) -> None:
        self._inbox.append(storable(event))
        self._filled.set()

    def call_at(self, at_s: float, event: Event) -> None:
        asyncio.get_running_loop().call_later(max(0.0, at_s - self.now()), self.post, event)

    async def next(self, *, lags: bool = False) -> list[Event]:
        if lags and self._lag is None:
            self._lag = asyncio.get_running_loop().call_later(self.lag_s, self._end_lag)
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
    """Virtual time: ``next`` jumps to the earliest time at which a function or an event is due.

    Functions due at the same time are called by rank, the lowest first, then in the order of
    scheduling. Posted events are due at once. Simulated sites use ``schedule`` for their internal
    steps.
    """

    lag_s = 0.0

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s
        self._due: list[tuple[float, int, int, Callable[[], None]]] = []
        self._posted: list[Event] = []
        self.post: Callable[[Event], None] = self._posted.append  # Most events: not in the heap.
        self._serial = 0

    def now(self) -> float:
        return self._now_s

    def call_at(self, at_s: float, event: Event) -> None:
        self.schedule(at_s, partial(self.post, event))

    def schedule(self, at_s: float, call: Callable[[], None], rank: int = 1) -> None:
        """Schedule a call at the time ``at_s``, or now if this time has passed. Of the calls due at
        the same time, those of a lower rank come first."""
        self._serial += 1
        if at_s < self._now_s:
            at_s = self._now_s
        heappush(self._due, (at_s, rank, self._serial, call))

    async def next(self, *, lags: bool = False) -> list[Event]:
        """Advance to the earliest time that has an event, and return all events of this time.
        Raises LostError if nothing is due at any time."""
        due, posted = self._due, self._posted
        while not posted or (due and due[0][0] == self._now_s):
            if not due:
                raise LostError(
                    f"the simulation is stuck at {self._now_s:.1f} s: no event is due, and the run "
                    "has not ended",
                    hint="a task waits for an event that never comes: this is a defect of a policy "
                    "or of a simulated site",
                )
            self._now_s, _, _, call = heappop(due)
            call()
        events = posted.copy()
        posted.clear()
        return events

    def fail(self, error: BaseException) -> None:
        raise error
