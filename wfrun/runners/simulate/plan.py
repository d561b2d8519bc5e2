"""The outcome of one simulated run, for plans: at which site, in which order and until when tasks
run."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.core.state import RunState
from wfrun.engine.model import ORIGIN, Workflow
from wfrun.runners.simulate.rest import Reused
from wfrun.runners.simulate.simulation import AttemptRuntime, Platform, begun
from wfrun.runners.simulate.unfinished import why_unfinished

FIRST_TASKS = 3
"""Maximum number of tasks of a site that a plan names."""


class OverdueError(Exception):
    """Raised if a simulation has not ended at its deadline."""


class PlannedTask(msgspec.Struct, frozen=True):
    """The successful attempt of a task. Times are seconds from the start of the plan."""

    task: str
    """Id of the task."""
    type: str
    site: str
    placed_s: float
    started_s: float
    ended_s: float


class SitePlan(msgspec.Struct, frozen=True):
    """The tasks that run at a site, and the files that are copied to it."""

    site: str
    slots: int
    tasks: int
    core_hours: float
    bytes_from_here: int
    """Total size of the files copied from this machine to the site, in bytes."""
    bytes_from_sites: int
    first_start_s: float | None
    """Start of the first task at the site, in seconds; None: the site gets no task."""
    last_end_s: float | None
    first_tasks: tuple[PlannedTask, ...]
    """The tasks that start first, at most `FIRST_TASKS`."""


class PlannedRun(msgspec.Struct, frozen=True):
    """The outcome of a simulated run."""

    makespan_s: float | None
    """Makespan in seconds; None: some tasks are not done."""
    tasks: int
    """Number of tasks to run, without tasks that are already done."""
    unfinished: int
    """Tasks that the simulated run leaves undone."""
    failure: str | None
    """Why the run leaves tasks undone, in one line; None: no task is left undone."""
    core_hours: float
    copied_bytes: int
    """Total size of the files copied to sites, in bytes."""
    collected_bytes: int
    """Total size of the outputs copied to this machine, in bytes."""
    sites: tuple[SitePlan, ...]
    critical_path: tuple[PlannedTask, ...]
    """The last task to end, its parent that ended last, and so on, in the order of execution."""


def plan_run(
    workflows: Sequence[Workflow],
    platform: Platform,
    settings: ev.Settings,
    reused: Reused | None = None,
) -> PlannedRun:
    """Simulate a run to its end. ``reused`` are the tasks that are done already. Raises the errors
    of `begun`."""
    record = _Record(platform.start_s)
    state = begun(workflows, platform, settings, observers=[record.observe], reused=reused).run()
    return record.planned(state)


def makespan_s(
    workflows: Sequence[Workflow],
    platform: Platform,
    settings: ev.Settings,
    deadline_s: float,
    reused: Reused | None = None,
    runtime_s: AttemptRuntime | None = None,
) -> float | None:
    """The makespan of a simulated run, in seconds; None if the run leaves tasks undone.
    ``runtime_s`` gives run times that replace those of the documents. Raises the errors of `begun`.
    Raises OverdueError if the simulation has not ended when the monotonic clock of this machine
    reaches ``deadline_s``."""

    def observe(_: Sequence[ev.Event]) -> None:
        if time.monotonic() > deadline_s:
            raise OverdueError

    state = begun(
        workflows, platform, settings, observers=[observe], reused=reused, runtime_s=runtime_s
    ).run()
    return _length_s(state, platform.start_s) if state.done == state.tasks else None


def _length_s(state: RunState, start_s: float) -> float:
    """Time from ``start_s`` to the end of the last workflow, in seconds."""
    ends_s = (state.now_s if w.ended_s is None else w.ended_s for w in state.workflows)
    return max(ends_s, default=start_s) - start_s


class _Record:
    """Observer that records the times of tasks and the bytes of copies of a simulated run."""

    def __init__(self, start_s: float) -> None:
        self._start_s = start_s
        self._placed: dict[str, ev.AttemptPlaced] = {}
        self._done: dict[tuple[int, int], tuple[ev.AttemptPlaced, float, float]] = {}
        """(placement, start, end) of the successful attempt of each (workflow, task); start and end
        in seconds from the start of the plan."""
        self._bytes: defaultdict[tuple[int, bool], int] = defaultdict(int)
        """Copied bytes, by (destination, whether the source is this machine)."""

    def observe(self, events: Sequence[ev.Event]) -> None:
        for event in events:
            if isinstance(event, ev.AttemptPlaced):
                self._placed[event.key] = event
            elif isinstance(event, ev.AttemptEnded):
                self._ended(event)
            elif isinstance(event, ev.TransferEnded):
                self._bytes[event.destination, event.source == ORIGIN] += event.size_bytes

    def _ended(self, event: ev.AttemptEnded) -> None:
        placed, outcome = self._placed.pop(event.key), event.outcome
        task = placed.workflow, placed.task
        if outcome.cause != "done" or task in self._done:
            return
        assert outcome.started_s is not None
        assert outcome.ended_s is not None
        begun_s = self._start_s
        self._done[task] = placed, outcome.started_s - begun_s, outcome.ended_s - begun_s

    def planned(self, state: RunState) -> PlannedRun:
        by_site: defaultdict[int, list[tuple[float, int, int]]] = defaultdict(list)
        last_end_s: defaultdict[int, float] = defaultdict(float)
        for (workflow, task), (placed, started_s, ended_s) in self._done.items():
            by_site[placed.site].append((started_s, workflow, task))
            last_end_s[placed.site] = max(last_end_s[placed.site], ended_s)
        sites = []
        for index, site in enumerate(state.sites):
            starts = by_site[index]
            first = [self._task(state, *task) for _, *task in sorted(starts)[:FIRST_TASKS]]
            sites.append(
                SitePlan(
                    site=site.spec.name,
                    slots=site.spec.slots,
                    tasks=len(starts),
                    core_hours=site.used_core_s / 3600,
                    bytes_from_here=self._bytes[index, True],
                    bytes_from_sites=self._bytes[index, False],
                    first_start_s=min(starts)[0] if starts else None,
                    last_end_s=last_end_s[index] if starts else None,
                    first_tasks=tuple(first),
                )
            )
        return PlannedRun(
            makespan_s=_length_s(state, self._start_s) if state.done == state.tasks else None,
            tasks=state.tasks - state.reused,
            unfinished=state.tasks - state.done - state.unneeded,
            failure=why_unfinished(state),
            core_hours=sum(site.core_hours for site in sites),
            copied_bytes=sum(site.bytes_from_here + site.bytes_from_sites for site in sites),
            collected_bytes=self._bytes[ORIGIN, False],
            sites=tuple(sites),
            critical_path=self._critical_path(state),
        )

    def _task(self, state: RunState, workflow: int, task: int) -> PlannedTask:
        placed, started_s, ended_s = self._done[workflow, task]
        record = state.workflows[workflow].workflow.tasks[task]
        site = state.sites[placed.site].spec.name
        placed_s = placed.at_s - self._start_s
        return PlannedTask(record.id, record.name, site, placed_s, started_s, ended_s)

    def _critical_path(self, state: RunState) -> tuple[PlannedTask, ...]:
        if not self._done:
            return ()
        workflow, task = max(self._done, key=lambda each: self._done[each][2])
        parents = state.workflows[workflow].workflow.parents
        path = [self._task(state, workflow, task)]
        while before := [p for p in parents[task] if (workflow, p) in self._done]:
            task = max(before, key=lambda parent: self._done[workflow, parent][2])
            path.append(self._task(state, workflow, task))
        return tuple(reversed(path))
