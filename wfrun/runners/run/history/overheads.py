"""The overheads that a run has measured: starts of tasks and reports of their ends at each site,
and copies of files over each link.

Starts and ends of tasks are taken from exit records; all other times are those of events in the
log. A start is measured only if the site had free cores for the task at its submission. Otherwise
the measured time would include a wait in the queue, which simulations compute themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import inf
from statistics import fmean, median
from typing import NamedTuple

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.core.state import RunState
from wfrun.engine.model import ORIGIN, LinkSpec, Task
from wfrun.runners.run.history.occupancy import Capacity, Stay, holds_s

_KEPT = 0.95
"""Fraction of the measured values that enter a mean. The largest values are left out, because they
come from pauses and lost connections."""
_LARGE_BYTES = 1 << 20
"""Minimum size of a file whose copy is used to measure the bandwidth, in bytes."""


class SiteOverheads(msgspec.Struct, frozen=True):
    """Times that a site takes in addition to the run times of tasks, in seconds."""

    start_s: float
    """Median time from the placement of an attempt, or the arrival of its last input, to its start
    at a site with free cores. At a site with launchers: from the request of a launcher to its
    start."""
    end_s: float
    """Mean time from the end of a task to the event that reports it. It includes the interval at
    which the queue is polled, and the time to collect the task's record."""
    hold_s: float | None = None
    """Mean time from the end of a task to the start of the next task on its cores, over tasks that
    waited for these cores. None: no task waited."""


class Overheads(msgspec.Struct, frozen=True):
    """Measured overheads by name of the site. Sites at which nothing was measured have no entry."""

    sites: dict[str, SiteOverheads] = {}
    links: tuple[LinkSpec, ...] = ()
    """Links as measured by copies. The latency is the part of a copy's time that does not depend on
    the size of the file."""


def measure(events: Iterable[ev.Event], state: RunState) -> Overheads:
    """Compute the overheads from the events of a run. ``state`` is the state of the run after these
    events."""
    measured = _Measured(state)
    for event in events:
        measured.add(event)
    return measured.overheads()


class _Copy(NamedTuple):
    begun_s: float
    elapsed_s: float
    size_bytes: int


class _Measured:
    def __init__(self, state: RunState) -> None:
        self._state = state
        self._placed: dict[str, ev.AttemptPlaced] = {}
        self._room: dict[str, bool] = {}
        """Whether the site had free cores for an attempt at its submission, by key of the
        attempt."""
        self._arrived_s: dict[tuple[int, int, int], float] = {}
        """Time at which a file arrived at a site, by (workflow, file, site)."""
        self._busy: defaultdict[int, int] = defaultdict(int)
        """Cores of the submitted attempts that have not ended, by site."""
        self._asked_s: dict[str, float] = {}
        self._starts: defaultdict[int, list[float]] = defaultdict(list)
        self._launches: defaultdict[int, list[float]] = defaultdict(list)
        self._ends: defaultdict[int, list[float]] = defaultdict(list)
        self._stays: defaultdict[int, list[Stay]] = defaultdict(list)
        self._submitted_s: dict[str, float] = {}
        self._capacity: defaultdict[int, list[Capacity]] = defaultdict(list)
        self._launchers: dict[str, int] = {}
        """Cores of each live launcher, by its key."""
        self._copies: defaultdict[tuple[int, int], list[_Copy]] = defaultdict(list)

    def add(self, event: ev.Event) -> None:
        if isinstance(event, ev.AttemptPlaced):
            self._placed[event.key] = event
        elif isinstance(event, ev.AttemptsSubmitted):
            for key in event.keys:
                if key in self._placed and key not in self._room:
                    self._submitted_s[key] = event.at_s
                    self._busy[event.site] += self._task(self._placed[key]).resources.cores
                    slots = self._state.sites[event.site].spec.slots
                    self._room[key] = self._busy[event.site] <= slots
        elif isinstance(event, ev.AttemptEnded):
            if event.key in self._placed:
                self._ended(event, self._placed.pop(event.key))
        elif isinstance(event, ev.TransferEnded):
            self._arrived_s[event.workflow, event.file, event.destination] = event.at_s
            pair = (event.source, event.destination)
            begun_s = event.at_s - event.elapsed_s
            self._copies[pair].append(_Copy(begun_s, event.elapsed_s, event.size_bytes))
        elif isinstance(event, ev.LaunchersAsked):
            self._asked_s.update((x.key, event.at_s) for x in event.launchers)
        elif isinstance(event, ev.LauncherStarted):
            if event.key in self._asked_s:
                self._launches[event.site].append(event.at_s - self._asked_s.pop(event.key))
            self._resize(event, event.slots)
        elif isinstance(event, ev.LauncherEnded):
            self._resize(event, 0)

    def _resize(self, event: ev.LauncherStarted | ev.LauncherEnded, cores: int) -> None:
        """Set the cores of a launcher to ``cores`` at the time of an event."""
        before = self._launchers.get(event.key, 0)
        self._launchers[event.key] = cores
        self._capacity[event.site].append(Capacity(event.at_s, cores - before))

    def _task(self, placed: ev.AttemptPlaced) -> Task:
        return self._state.workflows[placed.workflow].workflow.tasks[placed.task]

    def _ended(self, event: ev.AttemptEnded, placed: ev.AttemptPlaced) -> None:
        task, outcome = self._task(placed), event.outcome
        has_room = self._room.pop(event.key, None)
        submitted_s = self._submitted_s.pop(event.key, None)
        if has_room is not None:
            self._busy[placed.site] -= task.resources.cores
        if submitted_s is not None and outcome.started_s is not None:
            ended_s = event.at_s if outcome.ended_s is None else outcome.ended_s
            stay = Stay(submitted_s, outcome.started_s, ended_s, task.resources.cores)
            self._stays[placed.site].append(stay)
        if outcome.cause != "done" or outcome.started_s is None or outcome.ended_s is None:
            return
        self._ends[placed.site].append(max(0.0, event.at_s - outcome.ended_s))
        if has_room:
            arrived_s = (
                self._arrived_s.get((placed.workflow, file, placed.site), placed.at_s)
                for file in task.inputs
            )
            submitted_s = max(placed.at_s, *arrived_s, placed.at_s)
            self._starts[placed.site].append(max(0.0, outcome.started_s - submitted_s))

    def overheads(self) -> Overheads:
        specs = [site.spec for site in self._state.sites]
        sites = {}
        for index, spec in enumerate(specs):
            starts = self._launches[index] or self._starts[index]
            if starts and self._ends[index]:
                # Few long starts, of stalls or of cores that a job was still leaving, do not count.
                start_s, end_s = median(starts), _mean(self._ends[index])
                sites[spec.name] = SiteOverheads(start_s, end_s, self._hold_s(index, start_s))
        names = {ORIGIN: "origin", **{i: spec.name for i, spec in enumerate(specs)}}
        links = tuple(
            _link(names[source], names[destination], copies)
            for (source, destination), copies in sorted(self._copies.items())
        )
        return Overheads(sites, links)

    def _hold_s(self, site: int, start_s: float) -> float | None:
        spec = self._state.sites[site].spec
        capacity = self._capacity[site]
        if spec.access is not None and spec.access.dispatch == "launchers":
            start_s = 0.0  # that of a launcher
        else:
            capacity = [Capacity(-inf, spec.slots)]
        holds = list(holds_s(self._stays[site], capacity, start_s))
        return _mean(holds) if holds else None


def _mean(values_s: list[float]) -> float:
    kept = sorted(values_s)[: max(1, int(_KEPT * len(values_s)))]
    return fmean(kept)


def _link(source: str, destination: str, copies: list[_Copy]) -> LinkSpec:
    """Return a link as measured by ``copies``. Latency: the median time of small files. Bandwidth:
    the total size of large files, divided by the time in which at least one of them was being
    copied, because copies share the link."""
    small = [copy.elapsed_s for copy in copies if copy.size_bytes < _LARGE_BYTES]
    latency_s = median(small) if small else 0.0
    large = sorted(copy for copy in copies if copy.size_bytes >= _LARGE_BYTES)
    busy_s, until_s = 0.0, -inf
    for copy in large:
        end_s = copy.begun_s + copy.elapsed_s
        busy_s += max(0.0, end_s - max(copy.begun_s, until_s))
        until_s = max(until_s, end_s)
    rate = sum(copy.size_bytes for copy in large) / busy_s if busy_s > 0 else None
    return LinkSpec(source, destination, rate, max(0.0, latency_s))
