"""The sites of a ``FakeWorld``: sites with a FCFS queue, and the base of sites with launchers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.core.actions import ResizeAttempt
from wfrun.engine.exchange import Cause, LauncherRequest, Outcome
from wfrun.engine.model import SiteSpec
from wfrun.testing.fake_programs import ProgramPlan

Callback = Callable[[], ev.Event | None]
"""Something that happens at a site at a given time, whether or not an engine is alive. Returns the
event that the engine receives at that time; None if there is no event, or if the event was posted
for a later time."""


class LauncherPlan(NamedTuple):
    """The course of one launcher."""

    wait_s: float = 0.0
    """Seconds that the launcher waits in the queue."""
    refused: Cause | None = None
    """Cause by which the queue refuses the launcher; None if it accepts the launcher."""
    dies_s: float | None = None
    """Seconds from the launcher's start to its death; None if it lives until the end of its
    walltime."""
    death: Cause = "node"
    drains_s: float | None = None
    """Seconds before the end of its walltime at which the launcher stops taking tasks; None if it
    takes tasks until the end."""


class Behaviour:
    """Behaviour of sites, apart from the execution of attempts. Subclasses override methods. A
    method must give equal answers to equal arguments."""

    reports_times = False
    """Whether outcomes state start and end times."""

    def report_delay_s(self, key: str) -> float:
        """Seconds from an event at a site to its arrival at the engine."""
        return 0.0

    def outcome(self, key: str, site: int) -> Outcome | None:
        """Outcome that the site gives an attempt; None if the attempt ends with its own outcome."""
        return None

    def vanishes(self, key: str, workflow: int, file: int, site: int) -> bool:
        """Whether an input vanishes at its site before an attempt there starts."""
        return False

    def cancel_s(self, key: str) -> float:
        """Seconds until a cancellation of an attempt or a launcher takes effect."""
        return 0.0

    def keeps(self, key: str, crash: int, *, started: bool) -> bool:
        """Whether an attempt or a launcher survives the crash of the engine with the number
        ``crash``, from 1. If not, the site forgets it."""
        return started

    def launcher(self, key: str) -> LauncherPlan:
        """The course of a launcher."""
        return LauncherPlan()

    def program(self, key: str) -> ProgramPlan:
        """The behaviour of the program of an attempt."""
        return ProgramPlan()

    def return_s(self, key: str, crash: int) -> float | None:
        """Seconds until a launcher reconnects to the engine after the crash with the number
        ``crash``, from 1; None if it stays disconnected until it ends."""
        return 0.0


class FakeSiteContext(Protocol):
    """The part of a ``FakeWorld`` that its sites use."""

    behaviour: Behaviour
    crashes: int
    now_s: float

    def at(self, at_s: float, callback: Callback) -> None:
        """Call ``callback`` at the virtual time ``at_s``."""

    def deliver(self, event: ev.Event, key: str, channel: str) -> ev.Event | None:
        """Deliver an event about an attempt or a launcher to the engine, after
        ``Behaviour.report_delay_s``. Without an engine the event is lost. Events of one channel
        arrive in order.

        An event that arrives at once is returned, so that a callback can return it. An event that
        arrives later is posted, and None is returned.
        """

    def post(self, at_s: float, event: ev.Event) -> None:
        """Deliver an event to the engine at the virtual time ``at_s``."""

    def cores(self, key: str) -> int:
        """Number of cores that an attempt holds."""

    def claim(self, key: str) -> str:
        """Key of the claim in which an attempt runs; empty if it runs in no claim."""

    def missed(self, entry: SubmittedAttempt, site: int) -> tuple[tuple[int, int], ...]:
        """The inputs that an attempt does not find at its site, as (workflow, file)."""

    def is_gone(self, workflow: int, file: int, site: int) -> bool:
        """Whether a file has vanished at a site, and was not copied there or written again
        since."""

    def attempt_runtime_s(self, workflow: int, task: int, site: int) -> float:
        """Run time of an attempt of a task at a site, in seconds."""

    def outcome(self, key: str, workflow: int, task: int) -> Outcome:
        """Outcome of an attempt that runs to its end without interruption."""

    def note_outputs(self, key: str, outcome: Outcome) -> None:
        """Record the sizes of the files that an ended attempt wrote."""


class SubmittedAttempt(NamedTuple):
    """An attempt that was submitted to a site."""

    key: str
    workflow: int
    task: int


class FakeAttempt(NamedTuple):
    """A running attempt, or an attempt that is being cancelled before its start."""

    entry: SubmittedAttempt
    cores: int
    """Number of cores that the attempt holds; 0 if it has not started."""
    started_s: float | None
    launcher: str


class FakeSite:
    """A site with a FCFS queue."""

    def __init__(self, index: int, spec: SiteSpec, world: FakeSiteContext) -> None:
        self.index = index
        self.spec = spec
        self.channel = f"site {index}"
        self.waiting: deque[SubmittedAttempt] = deque()
        self.running: dict[str, FakeAttempt] = {}
        self.ended: dict[str, Outcome] = {}
        """Exit records by key of the attempt, for engines that missed the events."""
        self._missed: dict[str, tuple[tuple[int, int], ...]] = {}
        """The inputs that an ended attempt did not find, as (workflow, file), by key."""
        self._world = world
        self._present: set[str] = set()
        """Keys of waiting and running attempts."""
        self._free = spec.slots
        self._is_cut_off = False

    # Orders of the engine

    def submit(self, attempts: Sequence[tuple[str, int, int]]) -> None:
        """Queue attempts."""
        world = self._world
        keys = tuple(key for key, _, _ in attempts)
        self._report(ev.AttemptsSubmitted(world.now_s, self.index, keys), keys[0])
        for attempt in attempts:
            entry = SubmittedAttempt(*attempt)
            if entry.key in self.ended:
                self._report_end(entry.key)
            elif entry.key not in self._present:
                self._present.add(entry.key)
                self.waiting.append(entry)
        self.start_waiting()

    def cancel(self, keys: Sequence[str], *, queued_only: bool) -> None:
        """Cancel attempts, ``Behaviour.cancel_s`` seconds later. ``queued_only``: running attempts
        go on."""
        world = self._world
        for key in keys:
            delay_s = world.behaviour.cancel_s(key)
            if delay_s:
                world.at(world.now_s + delay_s, lambda k=key: self._cancel(k, queued_only))  # type: ignore[misc]
            else:
                self._cancel(key, queued_only)

    def find(self, keys: Sequence[str]) -> None:
        """Report the state of each attempt."""
        now_s = self._world.now_s
        for key in keys:
            if key in self.ended:
                self._report_end(key)
        unknown = [key for key in keys if key not in self.ended]
        active = tuple(key for key in unknown if key in self._present)
        absent = tuple(key for key in unknown if key not in self._present)
        self._report(ev.AttemptsFound(now_s, self.index, absent, active), keys[0])
        for key in active:
            self._report_start(key)

    # Orders that only sites with launchers get

    def start_launchers(self, launchers: Sequence[LauncherRequest]) -> None:
        """Fail: this site has no launchers."""
        raise AssertionError("launchers were requested at a site that has none")

    def stop_launchers(self, keys: Sequence[str], *, now: bool) -> None:
        """Fail: this site has no launchers."""
        raise AssertionError("launchers were stopped at a site that has none")

    def find_launchers(self, keys: Sequence[str]) -> None:
        """Fail: this site has no launchers."""
        raise AssertionError("launchers were looked for at a site that has none")

    def resize(self, action: ResizeAttempt) -> None:
        """Fail: this site has no launchers."""
        raise AssertionError("a job was resized at a site that has no launchers")

    def dismiss(self) -> None:
        """Called when the run is over. A site without launchers does nothing."""

    # What happens

    def change(self, spec: SiteSpec) -> None:
        """Use a new description of the site. Waiting and running attempts go on."""
        self._free += spec.slots - self.spec.slots
        self.spec = spec
        self.start_waiting()

    def cut_off(self) -> None:
        """Stop reporting, because no engine can reach the site any more."""
        self._is_cut_off = True

    def engine_died(self) -> None:
        """Remove the attempts that do not survive the death of the engine, without exit records."""
        keeps, crash = self._world.behaviour.keeps, self._world.crashes
        for entry in [e for e in self.waiting if not keeps(e.key, crash, started=False)]:
            self.waiting.remove(entry)
            self._present.discard(entry.key)
        for key in [k for k in self.running if not keeps(k, crash, started=True)]:
            self._release(self.running.pop(key))
            self._present.discard(key)
        self.start_waiting()

    def start_waiting(self) -> None:
        """Start waiting attempts while there are free cores."""
        world = self._world
        while self.waiting:
            entry = self.waiting[0]
            cores = world.cores(entry.key)
            # A cluster has more cores than the catalog allows, since that was changed.
            is_too_wide = cores > self.spec.slots
            if cores > self._free and not (is_too_wide and self._free >= self.spec.slots):
                return
            self.waiting.popleft()
            self._free -= cores
            self._start(entry, cores, "")

    def _start(self, entry: SubmittedAttempt, cores: int, launcher: str) -> None:
        world = self._world
        key = entry.key
        self.running[key] = running = FakeAttempt(entry, cores, world.now_s, launcher)
        self._report_start(key)
        outcome = world.behaviour.outcome(key, self.index) or world.outcome(*entry)
        ends_s = world.now_s + world.attempt_runtime_s(entry.workflow, entry.task, self.index)
        if missed := world.missed(entry, self.index):
            self._missed[key] = missed
            outcome, ends_s = Outcome("staging", message="an input vanished"), world.now_s
        world.at(ends_s, lambda: self._end(running, outcome))

    def _end(self, running: FakeAttempt, outcome: Outcome) -> ev.Event | None:
        """End an attempt; does nothing if it has ended or was removed."""
        key = running.entry.key
        if self.running.get(key) is not running:
            return None
        del self.running[key]
        self._present.discard(key)
        world = self._world
        if world.behaviour.reports_times:
            outcome = msgspec.structs.replace(
                outcome, started_s=running.started_s, ended_s=world.now_s
            )
        self.ended[key] = outcome
        world.note_outputs(key, outcome)
        channel = running.launcher or self.channel
        immediate = None
        if key in self._missed:
            self._report_end(key, channel)
        else:
            immediate = self._deliver(ev.AttemptEnded(world.now_s, key, outcome), key, channel)
        self._release(running)
        self.start_waiting()
        return immediate

    def _report_end(self, key: str, channel: str = "") -> None:
        """Report the recorded end of an attempt. If the attempt did not find all inputs, report
        their loss first."""
        now_s, is_gone = self._world.now_s, self._world.is_gone
        lost = tuple(file for file in self._missed.get(key, ()) if is_gone(*file, self.index))
        if lost:
            self._report(ev.FilesLost(now_s, self.index, lost), key, channel)
        self._report(ev.AttemptEnded(now_s, key, self.ended[key]), key, channel)

    def _release(self, running: FakeAttempt) -> None:
        self._free += running.cores

    def _cancel(self, key: str, queued_only: bool) -> None:
        """Carry out the cancellation of an attempt. ``queued_only``: a running attempt goes on."""
        if key not in self._present:
            return
        running = self.running.get(key)
        if running is None:
            entry = next(e for e in self.waiting if e.key == key)
            self.waiting.remove(entry)
            self.running[key] = running = FakeAttempt(entry, 0, None, "")
        elif queued_only or self._is_out_of_reach(running):
            return
        cancelled = Outcome(cause="cancelled")
        self._world.at(self._world.now_s, lambda: self._end(running, cancelled))

    def _is_out_of_reach(self, running: FakeAttempt) -> bool:
        return False

    def _report_start(self, key: str) -> None:
        running = self.running.get(key)
        if (
            running is not None
            and running.started_s is not None
            and not self._is_out_of_reach(running)
        ):
            event = ev.AttemptStarted(self._world.now_s, key, running.launcher)
            self._report(event, key, running.launcher)

    def _report(self, event: ev.Event, key: str, channel: str = "") -> None:
        immediate = self._deliver(event, key, channel or self.channel)
        if immediate is not None:
            self._world.post(immediate.at_s, immediate)

    def _deliver(self, event: ev.Event, key: str, channel: str) -> ev.Event | None:
        return None if self._is_cut_off else self._world.deliver(event, key, channel)
