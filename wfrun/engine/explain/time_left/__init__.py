"""Estimate of the time left of a run, with an interval, from the state of the run alone.

The estimate combines two lower bounds of a schedule (Graham, SIAM J. Appl. Math. 17, 1969): the
remaining work divided by the number of slots, and the longest path. The time of one level of a
workflow, whose tasks do not wait for each other, is the larger of both bounds; the times of the
levels add up. Work includes the observed idle time of slots between tasks while other tasks wait.
Batch systems, transfers and the engine cause this idle time.
"""

from __future__ import annotations

from collections import defaultdict
from math import hypot

from wfrun.engine.core.state import Attempt, Phase, RunState, SiteState, WorkflowState
from wfrun.engine.explain.time_left.idle import Idle, IdleTime
from wfrun.engine.explain.time_left.levels import Level, TimeLeft, left_of, of_levels, of_work
from wfrun.engine.explain.time_left.runtimes import Runtime, expected_runtime
from wfrun.engine.explain.time_left.unfinished import Unfinished

__all__ = ["TimeLeft", "TimeLeftEstimator"]

MODEL_ERROR = 0.15
"""Half-width of the interval that remains even if all run times are known, relative to the
estimate: placements and copies are not modelled. The median error of simulated runs of the
classical workflows with exact run times is 0.01 to 0.1."""


class _Look:
    """Backlogs of the sites at the time of one estimate: the work that their open attempts still
    need."""

    def __init__(self, state: RunState, now_s: float, speed_ratio: float) -> None:
        self._state = state
        self._now_s = now_s
        self.speed_ratio = speed_ratio
        """Mean speed of the slots, relative to the reference processor."""
        self._backlogs_s = [0.0] * len(state.sites)
        """By site: slot-seconds that its open attempts still need."""

    def add(self, attempt: Attempt, level: Level, runtime: Runtime) -> float | None:
        """Add an open attempt to the backlog of its site and, if it runs, to its level. If it has
        already run longer than expected, returns its new expected run time in seconds on the
        reference processor, otherwise None."""
        speed_ratio = self._state.sites[attempt.site].spec.speed_ratio
        mean_s = runtime.mean_s / speed_ratio
        if attempt.phase is not Phase.RUNNING or attempt.started_s is None:
            self._backlogs_s[attempt.site] += attempt.cores * mean_s
            return None
        elapsed_s = max(0.0, self._now_s - attempt.started_s)
        left_s, deviation_s = left_of(elapsed_s, mean_s, runtime.deviation_s / speed_ratio)
        self._backlogs_s[attempt.site] += attempt.cores * left_s
        level.add_running(attempt.cores, left_s, deviation_s)
        return None if elapsed_s <= mean_s else (elapsed_s + left_s) * speed_ratio

    def backlog_s(self) -> float:
        """Return the maximum over the sites of the seconds that a site still needs for its open
        attempts. Policies may give one site more work than others."""
        return max(
            (
                backlog_s / max(1, site.slots)
                for backlog_s, site in zip(self._backlogs_s, self._state.sites, strict=True)
            ),
            default=0.0,
        )


class TimeLeftEstimator:
    """Estimates the time left of one run, at successive times. Cost of an estimate: the open
    attempts, the groups of tasks, and a pass in C over the tasks of open workflows."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._workflows: dict[int, Unfinished] = {}
        self._idle = IdleTime()

    def at(self, now_s: float) -> TimeLeft | None:
        """Return the time left. Return None if a run time is unknown, no healthy site has slots,
        tasks of the run are held in a queue, or the run has ended."""
        state = self._state
        healthy = [site for site in state.sites if site.is_healthy]
        slots = sum(site.slots for site in healthy)
        if state.ended is not None or slots <= 0 or any(map(_is_held, healthy)):
            return None
        speed_ratio = sum(site.slots * site.spec.speed_ratio for site in healthy) / slots
        if state.throttle is not None:
            slots = min(slots, state.throttle * max(1, state.open_workflows))
        look = _Look(state, now_s, speed_ratio)
        attempts = _attempts(state)
        running = (a for each in attempts.values() for a in each if a.phase is Phase.RUNNING)
        idle = self._idle.at(state, now_s, slots, running)
        paths: list[TimeLeft] = []
        all_levels: list[Level] = []
        for w in state.workflows:
            if not w.open:
                continue
            levels = self._levels(w, attempts.get(w.index, []), look, idle)
            if levels is None:
                return None
            all_levels += levels.values()
            paths.append(of_levels(levels.values(), slots))
        if not paths:
            return None
        total_s = sum(level.slot_s for level in all_levels)
        by_work = of_work(total_s, sum(level.variance for level in all_levels), slots)
        value_s, low_s, high_s = map(max, zip(by_work, *paths, strict=True))
        return _widened(TimeLeft(value_s, low_s, high_s), look.backlog_s())

    def _levels(
        self, w: WorkflowState, attempts: list[Attempt], look: _Look, idle: Idle
    ) -> dict[int, Level] | None:
        """Return the unfinished levels of a workflow by level number, or None if a run time is
        unknown."""
        unfinished = self._workflows.get(w.index)
        if unfinished is None:
            unfinished = self._workflows[w.index] = Unfinished(w)
        levels: defaultdict[int, Level] = defaultdict(Level)
        counts = dict(unfinished.counts())
        runtimes: dict[int, Runtime] = {}
        for number in counts:
            runtime = expected_runtime(self._state, w, unfinished.groups[number])
            if runtime is None:
                return None
            runtimes[number] = runtime
        overdue: defaultdict[int, list[float]] = defaultdict(list)
        for attempt in attempts:
            number = unfinished.group_of(attempt.task)
            if number not in runtimes:
                continue  # its task has been settled otherwise
            took_s = look.add(attempt, levels[unfinished.groups[number].level], runtimes[number])
            if attempt.phase is Phase.RUNNING:
                counts[number] -= 1
            if took_s is not None:
                overdue[number].append(took_s)
        for number, times in overdue.items():
            runtimes[number] = runtimes[number].with_overdue(len(times), sum(times))
        starts = not (self._state.draining or self._state.stopping)
        for number, count in counts.items() if starts else ():
            group = unfinished.groups[number]
            if count > 0:
                levels[group.level].add_waiting(
                    group.cores, count, runtimes[number], look.speed_ratio, idle
                )
        return levels


def _is_held(site: SiteState) -> bool:
    """Whether tasks are held in the queue of a site until somebody releases them. False for a site
    with launchers, whose tasks can go to other sites."""
    return bool(site.held_jobs and not site.spec.has_launchers and site.phases[Phase.QUEUED])


def _attempts(state: RunState) -> dict[int, list[Attempt]]:
    """Open attempts by workflow, one for each task: without replicas and superseded attempts."""
    found: defaultdict[int, list[Attempt]] = defaultdict(list)
    for attempt in state.attempts.values():
        if not attempt.superseded and not attempt.is_replica:
            found[attempt.workflow].append(attempt)
    return found


def _widened(found: TimeLeft, backlog_s: float) -> TimeLeft:
    """The estimate, raised to the backlog of a site if that is longer, with its interval widened by
    the error of the model."""
    value_s = max(found.value_s, backlog_s)
    below_s = hypot(found.value_s - found.low_s, MODEL_ERROR * value_s)
    above_s = hypot(found.high_s - found.value_s, MODEL_ERROR * value_s)
    return TimeLeft(value_s, max(0.0, value_s - below_s), value_s + above_s)
