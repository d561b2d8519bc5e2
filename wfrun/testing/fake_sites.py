"""The sites of a ``FakeWorld``: FCFS queues of attempts, and what sites with launchers share with
them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.exchange import Cause, LauncherRequest, Outcome
from wfrun.engine.model import SiteSpec

Callback = Callable[[], ev.Event | None]
"""What goes on at a site at a given time, whether or not an engine listens. Returns the event that
the engine receives at that moment; None: none, or it was posted for later."""


class LauncherPlan(NamedTuple):
    """The course of one launcher."""

    wait_s: float = 0.0
    """In the queue."""
    refused: Cause | None = None
    """It is not queued at all, by this cause."""
    dies_s: float | None = None
    """Seconds from its start to its death; None: it lives until its walltime ends."""
    death: Cause = "node"
    drains_s: float | None = None
    """Seconds before the end of its walltime from which it takes no more tasks; None: it takes
    tasks until the end."""


class Behaviour:
    """What sites do beside running attempts; override what differs. The methods answer the same
    whenever they are asked the same."""

    reports_times = False
    """Outcomes state when the attempt started and ended."""

    def report_delay_s(self, key: str) -> float:
        """Seconds until the engine receives what happens to an attempt or a launcher."""
        return 0.0

    def outcome(self, key: str, site: int) -> Outcome | None:
        """How this site ends an attempt, whatever its task does; None: as its task ends."""
        return None

    def cancel_s(self, key: str) -> float:
        """Seconds until an order to cancel reaches an attempt or a launcher."""
        return 0.0

    def keeps(self, key: str, crash: int, *, started: bool) -> bool:
        """Whether an attempt, or a launcher, is still there after this crash of the engine; if
        not, the site knows nothing of it."""
        return started

    def launcher(self, key: str) -> LauncherPlan:
        return LauncherPlan()

    def return_s(self, key: str, crash: int) -> float | None:
        """Seconds until a launcher is connected to the engine that follows a crash; None: it is
        cut off for the rest of its walltime."""
        return 0.0


class SiteContext(Protocol):
    """What a site sees of its world."""

    behaviour: Behaviour
    crashes: int
    now_s: float

    def at(self, at_s: float, happening: Callback) -> None:
        """Let something happen at a time."""

    def tell(self, event: ev.Event, key: str, channel: str) -> ev.Event | None:
        """Deliver an event of this attempt or launcher to the engine, if there is one. Events of
        one channel arrive in order. Returned where it arrives at this moment, so that a happening
        returns it; otherwise posted."""

    def post(self, at_s: float, event: ev.Event) -> None:
        """Deliver an event to the engine at a time."""

    def cores(self, workflow: int, task: int) -> int: ...

    def lasts_s(self, workflow: int, task: int, site: int) -> float: ...

    def outcome(self, key: str, workflow: int, task: int) -> Outcome: ...

    def wrote(self, key: str, outcome: Outcome) -> None:
        """An attempt ended."""


class SubmittedAttempt(NamedTuple):
    """An attempt at a site."""

    key: str
    workflow: int
    task: int


class RunningAttempt(NamedTuple):
    """An attempt that runs, or that is being cancelled before it has started."""

    entry: SubmittedAttempt
    cores: int
    """0 where it has not started."""
    started_s: float | None
    launcher: str


class FakeSite:
    """A site that starts attempts first come, first served, while it has free cores."""

    def __init__(self, index: int, spec: SiteSpec, world: SiteContext) -> None:
        self.index = index
        self.spec = spec
        self.channel = f"site {index}"
        self.waiting: deque[SubmittedAttempt] = deque()
        self.running: dict[str, RunningAttempt] = {}
        self.ended: dict[str, Outcome] = {}
        """Exit records, for an engine that missed the events."""
        self._world = world
        self._there: set[str] = set()
        """Attempts that wait or run."""
        self._free = spec.slots

    # Orders of the engine

    def submit(self, attempts: Sequence[tuple[str, int, int]]) -> None:
        world = self._world
        keys = tuple(key for key, _, _ in attempts)
        self._say(ev.AttemptsSubmitted(world.now_s, self.index, keys), keys[0])
        for attempt in attempts:
            entry = SubmittedAttempt(*attempt)
            if entry.key in self.ended:
                self._say(ev.AttemptEnded(world.now_s, entry.key, self.ended[entry.key]), entry.key)
            elif entry.key not in self._there:
                self._there.add(entry.key)
                self.waiting.append(entry)
        self.start_waiting()

    def cancel(self, keys: Sequence[str], *, queued_only: bool) -> None:
        world = self._world
        for key in keys:
            delay_s = world.behaviour.cancel_s(key)
            if delay_s:
                world.at(world.now_s + delay_s, lambda k=key: self._cancel(k, queued_only))  # type: ignore[misc]
            else:
                self._cancel(key, queued_only)

    def find(self, keys: Sequence[str]) -> None:
        now_s = self._world.now_s
        for key in keys:
            if key in self.ended:
                self._say(ev.AttemptEnded(now_s, key, self.ended[key]), key)
        unknown = [key for key in keys if key not in self.ended]
        active = tuple(key for key in unknown if key in self._there)
        absent = tuple(key for key in unknown if key not in self._there)
        self._say(ev.AttemptsFound(now_s, self.index, absent, active), keys[0])
        for key in active:
            self._tell_started(key)

    # Orders that only sites with launchers get

    def start_launchers(self, launchers: Sequence[LauncherRequest]) -> None:
        raise AssertionError("launchers were asked for at a site that has none")

    def stop_launchers(self, keys: Sequence[str]) -> None:
        raise AssertionError("launchers were stopped at a site that has none")

    def find_launchers(self, keys: Sequence[str]) -> None:
        raise AssertionError("launchers were looked for at a site that has none")

    def dismiss(self) -> None:
        """The run is over."""

    # What happens

    def engine_died(self) -> None:
        """What does not survive that is gone without a record."""
        keeps, crash = self._world.behaviour.keeps, self._world.crashes
        for entry in [e for e in self.waiting if not keeps(e.key, crash, started=False)]:
            self.waiting.remove(entry)
            self._there.discard(entry.key)
        for key in [k for k in self.running if not keeps(k, crash, started=True)]:
            self._release(self.running.pop(key))
            self._there.discard(key)
        self.start_waiting()

    def start_waiting(self) -> None:
        """Start attempts, as far as there are free cores."""
        world = self._world
        while self.waiting:
            entry = self.waiting[0]
            cores = world.cores(entry.workflow, entry.task)
            if cores > self._free:
                return
            self.waiting.popleft()
            self._free -= cores
            self._start(entry, cores, "")

    def _start(self, entry: SubmittedAttempt, cores: int, launcher: str) -> None:
        world = self._world
        key = entry.key
        self.running[key] = held = RunningAttempt(entry, cores, world.now_s, launcher)
        self._tell_started(key)
        outcome = world.behaviour.outcome(key, self.index) or world.outcome(*entry)
        ends_s = world.now_s + world.lasts_s(entry.workflow, entry.task, self.index)
        world.at(ends_s, lambda: self._end(held, outcome))

    def _end(self, held: RunningAttempt, outcome: Outcome) -> ev.Event | None:
        """An attempt ends, unless it has ended or is gone."""
        key = held.entry.key
        if self.running.get(key) is not held:
            return None
        del self.running[key]
        self._there.discard(key)
        world = self._world
        if world.behaviour.reports_times:
            outcome = msgspec.structs.replace(
                outcome, started_s=held.started_s, ended_s=world.now_s
            )
        self.ended[key] = outcome
        world.wrote(key, outcome)
        event = ev.AttemptEnded(world.now_s, key, outcome)
        told = world.tell(event, key, held.launcher or self.channel)
        self._release(held)
        self.start_waiting()
        return told

    def _release(self, held: RunningAttempt) -> None:
        self._free += held.cores

    def _cancel(self, key: str, queued_only: bool) -> None:
        """The order to cancel has arrived."""
        if key not in self._there:
            return
        held = self.running.get(key)
        if held is None:
            entry = next(e for e in self.waiting if e.key == key)
            self.waiting.remove(entry)
            self.running[key] = held = RunningAttempt(entry, 0, None, "")
        elif queued_only or self._is_out_of_reach(held):
            return
        cancelled = Outcome(cause="cancelled")
        self._world.at(self._world.now_s, lambda: self._end(held, cancelled))

    def _is_out_of_reach(self, held: RunningAttempt) -> bool:
        return False

    def _tell_started(self, key: str) -> None:
        held = self.running.get(key)
        if held is not None and held.started_s is not None and not self._is_out_of_reach(held):
            event = ev.AttemptStarted(self._world.now_s, key, held.launcher)
            self._say(event, key, held.launcher)

    def _say(self, event: ev.Event, key: str, channel: str = "") -> None:
        told = self._world.tell(event, key, channel or self.channel)
        if told is not None:
            self._world.post(told.at_s, told)
