"""Timings of attempts and workflows from the log of a real or a simulated run."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.core.interpreter import Interpreter
from wfrun.engine.core.state import Attempt, RunState, TaskStatus, WorkflowState
from wfrun.engine.model import SiteSpec, Workflow
from wfrun.runners.metrics.jobs import JobTiming
from wfrun.runners.metrics.workflows import (
    TaskTiming,
    WorkflowMetrics,
    WorkflowTiming,
    critical_path_s,
    workflow_metrics,
)

E = TypeVar("E", bound=ev.Event)
K = TypeVar("K")
_CORES = (ev.RunStarted, ev.RunChanged, ev.LauncherStarted, ev.LauncherDraining, ev.LauncherEnded)
"""Events that change the number of cores of a site."""


class FailedAttempt(NamedTuple):
    """An attempt that failed."""

    workflow: int
    task: int
    site: int


class CopyTotal(NamedTuple):
    """Number and total size of the files copied from one place to another. A place is a site or
    ORIGIN."""

    source: int
    destination: int
    files: int
    size_bytes: int


class WaitingTasks(NamedTuple):
    """Tasks that became eligible at the same time and have not started."""

    eligible_s: float
    placed_s: float | None
    """Time of their placement, in seconds; None: the tasks have not been placed."""
    tasks: int


class RunTimings(msgspec.Struct, frozen=True):
    """The timings of a run."""

    settings: ev.Settings
    sites: tuple[SiteSpec, ...]
    started_s: float
    outcome: str | None
    """``done``, ``failed`` or ``cancelled``; None: the run has not ended."""
    workflows: tuple[WorkflowTiming, ...]
    tasks: tuple[TaskTiming, ...]
    """All ended attempts that ran, in the order of their ends."""
    failed: tuple[FailedAttempt, ...] = ()
    """All attempts that failed, including those that never started."""
    copies: tuple[CopyTotal, ...] = ()
    """All copies, including copies from and to ORIGIN, the machine of wfrun."""
    end_s: float = 0.0
    """End of the run in seconds. For an unfinished run, the time until which its timings count."""
    running: tuple[TaskTiming, ...] = ()
    """Open attempts that have started. Their end is ``end_s``."""
    waiting: tuple[WaitingTasks, ...] = ()
    capacity: tuple[tuple[float, int], ...] = ()
    """Total number of cores of all sites over time: a point (time in seconds, cores from then on)
    for each change. The cores of a site with launchers are those of its launchers."""

    def workflow_metrics(self) -> list[WorkflowMetrics]:
        """The metrics of every workflow."""
        attempts: list[list[TaskTiming]] = [[] for _ in self.workflows]
        for task in self.tasks:
            attempts[task.workflow].append(task)
        return [workflow_metrics(w, a) for w, a in zip(self.workflows, attempts, strict=True)]

    def jobs(self) -> list[JobTiming]:
        """All attempts that ran, as jobs. Failed attempts are included, because they used cores,
        too."""
        return [task.job() for task in self.tasks]


def run_timings(events: Iterable[ev.Event], documents: Mapping[str, Workflow]) -> RunTimings:
    """Replay a log, which may be incomplete, with its workflows (``Store.load``,
    ``Store.workflows``).

    Times are those of the events: seconds since the epoch, or since the start of a simulation. A
    start that was not reported, because no engine was running, is computed from the run time in the
    exit record. Attempts that never started are not among ``tasks``.

    Critical paths use the run times of the stored documents, scaled under emulation. For a task
    without a documented run time, they use the time from its start to the report of its end, times
    the speed ratio of the site.
    """
    interpreter = Interpreter(documents)
    collector = TimingCollector(interpreter.state)
    for event in collector.passed(events):
        interpreter.apply(event)
        interpreter.actions()
    return collector.timings()


class TimingCollector:
    """Collects the timings of attempts while the caller replays the log."""

    def __init__(self, state: RunState) -> None:
        """``state`` is the state to which the caller applies the events."""
        self._state = state
        self._eligible_s = array("d")
        """Time at which each task became eligible. The index is the serial number of the task in
        the run, minus 1."""
        self._since: dict[str, float] = {}
        """Time at which the task of an open attempt became eligible, by key of the attempt."""
        self._tasks: list[TaskTiming] = []
        self._failed: list[FailedAttempt] = []
        self._failed_at: Counter[int] = Counter()
        """Number of failed attempts recorded so far, by site."""
        self._placed: dict[str, FailedAttempt] = {}
        """Workflow, task and site of each open attempt, by key."""
        self._transfers: dict[int, tuple[int, int]] = {}
        """Number of files copied between sites, and their total size in bytes, by workflow."""
        self._copies: dict[tuple[int, int], tuple[int, int]] = {}
        """Number of copied files, and their total size in bytes, by (source, destination)."""
        self._open: dict[str, Attempt] = {}
        self._waits: dict[tuple[int, int], tuple[float, ...]] = {}
        """Value of ``TaskTiming.earlier_waits_s`` for each task that has had an attempt and is not
        done, by (workflow, task)."""
        self._held: dict[str, tuple[float, float]] = {}
        """For each open attempt, by key: (time at the throttle, time without any cores) before its
        placement, in seconds."""
        self._throttled: list[TimeSpans] = []
        """Time spans in which each workflow was at its throttle."""
        self._without_cores = TimeSpans()
        """Time spans in which no site had cores, because launchers had not started or all had
        ended."""
        self._capacity: list[tuple[float, int]] = []

    def passed(self, events: Iterable[E]) -> Iterator[E]:
        """Yield the events, and collect timings after each. The caller must apply an event to the
        state before it asks for the next one."""
        state = self._state
        for event in events:
            ending = state.attempts.get(event.key) if isinstance(event, ev.AttemptEnded) else None
            moved, moved_bytes = state.transfers, state.moved_bytes
            yield event
            news = state.eligible_serial - len(self._eligible_s)
            self._eligible_s.extend([event.at_s] * news)
            if isinstance(event, ev.AttemptPlaced):
                self._place(event)
                self._follow_throttle(event.workflow)
            elif isinstance(event, ev.AttemptEnded) and ending is not None:
                self._end(ending, event)
                self._close(ending.key)
            elif isinstance(event, ev.TransferEnded):
                pair = event.source, event.destination
                _add(self._copies, pair, event.size_bytes)
                if state.transfers > moved:
                    _add(self._transfers, event.workflow, state.moved_bytes - moved_bytes)
            elif isinstance(event, _CORES):
                self._follow_cores()
            if len(self._placed) != len(state.attempts):
                # Some fail without an end: an input did not arrive, or their site has lost them.
                for key in [key for key in self._placed if key not in state.attempts]:
                    self._close(key)

    def _follow_cores(self) -> None:
        state = self._state
        without = bool(state.sites) and not any(site.slots for site in state.sites)
        self._without_cores.set(without, state.now_s)
        cores = sum(site.slots for n, site in enumerate(state.sites) if not state.left >> n & 1)
        if not self._capacity or self._capacity[-1][1] != cores:
            self._capacity.append((state.now_s, cores))

    def _place(self, event: ev.AttemptPlaced) -> None:
        """Record when the task of a placement became eligible, and for how long the throttle and
        the lack of cores delayed the placement."""
        w = self._state.workflows[event.workflow]
        eligible_s = self._eligible_since(w, event.task)
        self._since[event.key] = eligible_s
        without_s = self._without_cores.within(eligible_s, event.at_s)
        throttled_s = self._throttle_of(event.workflow).within(eligible_s, event.at_s)
        rest_s = max(0.0, event.at_s - eligible_s - without_s)
        self._held[event.key] = min(throttled_s, rest_s), without_s
        self._placed[event.key] = FailedAttempt(event.workflow, event.task, event.site)
        self._open[event.key] = self._state.attempts[event.key]

    def _eligible_since(self, w: WorkflowState, task: int) -> float:
        serial = w.serials[task]  # 0: of a bag, and eligible since that was submitted
        return self._eligible_s[serial - 1] if serial else w.added_s

    def _close(self, key: str) -> None:
        """Forget an attempt that is no longer open, and record it as failed if it has failed."""
        attempt = self._placed.pop(key)
        self._add_waits(attempt, self._open.pop(key), self._since.pop(key), self._held.pop(key))
        if self._state.sites[attempt.site].failed > self._failed_at[attempt.site]:
            self._failed_at[attempt.site] += 1
            self._failed.append(attempt)
        self._follow_throttle(attempt.workflow)

    def _add_waits(
        self, place: FailedAttempt, attempt: Attempt, eligible_s: float, held: tuple[float, float]
    ) -> None:
        """Add the waits of an ended attempt to the earlier waits of its task. If the task is done,
        forget its earlier waits."""
        task = place.workflow, place.task
        if self._state.workflows[place.workflow].status[place.task] == TaskStatus.DONE:
            self._waits.pop(task, None)
            return
        start_s = self._state.now_s if attempt.started_s is None else attempt.started_s
        ready_s = start_s if attempt.ready_s is None else attempt.ready_s
        rest_s = attempt.placed_s - eligible_s - sum(held)
        waits = (*held, rest_s, ready_s - attempt.placed_s, start_s - ready_s)
        before = self._waits.get(task, (0.0,) * len(waits))
        self._waits[task] = tuple(a + max(0.0, b) for a, b in zip(before, waits, strict=True))

    def _follow_throttle(self, workflow: int) -> None:
        throttle = self._state.throttle
        dispatched = self._state.workflows[workflow].dispatched
        is_throttled = throttle is not None and dispatched >= throttle
        self._throttle_of(workflow).set(is_throttled, self._state.now_s)

    def _throttle_of(self, workflow: int) -> TimeSpans:
        while len(self._throttled) <= workflow:
            self._throttled.append(TimeSpans())
        return self._throttled[workflow]

    def _end(self, attempt: Attempt, event: ev.AttemptEnded) -> None:
        eligible_s = self._since[attempt.key]
        throttle_s, launcher_s = self._held[attempt.key]
        outcome = event.outcome
        start_s, ran_s = attempt.started_s, None
        if outcome.started_s is not None and outcome.ended_s is not None:
            ran_s = max(0.0, outcome.ended_s - outcome.started_s)
            start_s = event.at_s - ran_s if start_s is None else start_s
        if start_s is None or attempt.ready_s is None:
            return
        start_s = max(start_s, attempt.ready_s)  # clocks of sites are read with delay
        runtime_s = max(0.0, event.at_s - start_s) if ran_s is None else ran_s
        has_overhead = attempt.found_idle and ran_s is not None
        is_done = outcome.cause == "done" and not attempt.superseded
        self._tasks.append(
            TaskTiming(
                workflow=attempt.workflow,
                task=attempt.task,
                site=attempt.site,
                cores=attempt.cores,
                eligible_s=eligible_s,
                placed_s=attempt.placed_s,
                ready_s=attempt.ready_s,
                start_s=start_s,
                end_s=event.at_s,
                done=is_done,
                earlier_waits_s=self._waits.get((attempt.workflow, attempt.task), ()),
                runtime_s=runtime_s,
                stated_start_s=None if ran_s is None else outcome.started_s,
                superseded=attempt.superseded,
                throttle_s=throttle_s,
                launcher_s=launcher_s,
                overhead_s=(
                    max(0.0, event.at_s - attempt.ready_s - runtime_s) if has_overhead else None
                ),
                cpu_s=outcome.cpu_s,
                peak_memory_bytes=outcome.peak_memory_bytes,
            )
        )

    def timings(self, now_s: float | None = None) -> RunTimings:
        """The timings of the events so far. The run and its open attempts count until ``now_s``, or
        until the last event if that is later. None: until the last event."""
        state = self._state
        end_s = state.end_s if now_s is None else max(now_s, state.end_s)
        measured: list[dict[int, float]] = [{} for _ in state.workflows]
        for t in self._tasks:
            if t.done:
                speed_ratio = state.sites[t.site].spec.speed_ratio
                measured[t.workflow][t.task] = (t.end_s - t.start_s) * speed_ratio
        return RunTimings(
            settings=state.settings,
            sites=tuple(site.spec for site in state.sites),
            started_s=state.started_s,
            outcome=state.ended,
            workflows=tuple(self._workflow(w, measured[w.index]) for w in state.workflows),
            tasks=tuple(self._tasks),
            failed=tuple(self._failed),
            copies=tuple(CopyTotal(*pair, *sums) for pair, sums in sorted(self._copies.items())),
            end_s=end_s,
            running=tuple(self._running(end_s)),
            waiting=tuple(self._waiting()),
            capacity=tuple(self._capacity),
        )

    def _running(self, end_s: float) -> Iterator[TaskTiming]:
        for attempt in self._state.attempts.values():
            if attempt.started_s is None or attempt.ready_s is None:
                continue
            throttle_s, launcher_s = self._held[attempt.key]
            yield TaskTiming(
                workflow=attempt.workflow, task=attempt.task, site=attempt.site,
                cores=attempt.cores, eligible_s=self._since[attempt.key],
                placed_s=attempt.placed_s, ready_s=attempt.ready_s, start_s=attempt.started_s,
                end_s=end_s, done=False, runtime_s=max(0.0, end_s - attempt.started_s),
                superseded=attempt.superseded, throttle_s=throttle_s, launcher_s=launcher_s,
            )  # fmt: skip

    def _waiting(self) -> Iterator[WaitingTasks]:
        for attempt in self._state.attempts.values():
            if attempt.started_s is None or attempt.ready_s is None:
                yield WaitingTasks(self._since[attempt.key], attempt.placed_s, 1)
        since_s: Counter[float] = Counter()
        for w in self._state.workflows:
            for task, status in enumerate(w.status):
                if status == TaskStatus.ELIGIBLE:
                    since_s[self._eligible_since(w, task)] += 1
        for eligible_s, tasks in since_s.items():
            yield WaitingTasks(eligible_s, None, tasks)

    def _workflow(self, w: WorkflowState, measured_s: Mapping[int, float]) -> WorkflowTiming:
        runtimes_s: list[float] = []
        for index, task in enumerate(w.workflow.tasks):
            if task.runtime_s is not None:
                runtimes_s.append(task.runtime_s)
            elif index in measured_s:
                runtimes_s.append(measured_s[index])
        known = len(runtimes_s) == len(w.workflow.tasks)
        transfers, moved_bytes = self._transfers.get(w.index, (0, 0))
        return WorkflowTiming(
            name=w.workflow.name,
            submit_s=w.added_s,
            end_s=w.ended_s,
            tasks=len(w.workflow.tasks),
            done=w.done,
            critical_path_s=critical_path_s(w.workflow, runtimes_s) if known else None,
            transfers=transfers,
            moved_bytes=moved_bytes,
        )


def _add(sums: dict[K, tuple[int, int]], key: K, size_bytes: int) -> None:
    """Count a file of this size under ``key``."""
    files, total_bytes = sums.get(key, (0, 0))
    sums[key] = files + 1, total_bytes + size_bytes


class TimeSpans:
    """Disjoint time spans, in seconds, in which a condition held. Spans must be added in the order
    of time. Adjacent spans are merged."""

    def __init__(self) -> None:
        self._begins_s = array("d")
        self._ends_s = array("d")
        self._before_s = array("d")
        """For each span, the total length of all spans before it, in seconds."""
        self._since_s: float | None = None
        """Begin of the open span, in seconds; None: no span is open."""

    def set(self, holds: bool, at_s: float) -> None:
        """Set whether the condition ``holds`` from ``at_s`` on. A span opens when the condition
        begins to hold, and closes when it ceases to hold. ``at_s`` must not decrease between
        calls."""
        if holds and self._since_s is None:
            self._since_s = at_s
            if self._ends_s and self._ends_s[-1] >= at_s:
                self._since_s = self._begins_s.pop()
                self._ends_s.pop()
                self._before_s.pop()
        elif not holds and self._since_s is not None:
            if at_s > self._since_s:
                self._before_s.append(self._until(at_s) - (at_s - self._since_s))
                self._begins_s.append(self._since_s)
                self._ends_s.append(at_s)
            self._since_s = None

    def within(self, begin_s: float, end_s: float) -> float:
        """Total length of the spans between two times, in seconds. ``end_s`` must not be in the
        future. Cost: logarithmic in the number of spans."""
        return max(0.0, self._until(end_s) - self._until(begin_s))

    def _until(self, at_s: float) -> float:
        """Total length of the spans before ``at_s``, in seconds."""
        open_s = 0.0 if self._since_s is None else max(0.0, at_s - self._since_s)
        index = bisect_right(self._begins_s, at_s) - 1
        if index < 0:
            return open_s
        span_s = min(at_s, self._ends_s[index]) - self._begins_s[index]
        return self._before_s[index] + span_s + open_s
