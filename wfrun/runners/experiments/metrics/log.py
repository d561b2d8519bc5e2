"""Timings from the log of a real or a simulated run."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.interpreter import Interpreter
from wfrun.engine.model import SiteSpec, Workflow
from wfrun.engine.state import Attempt, WorkflowState
from wfrun.runners.experiments.metrics.jobs import JobTiming
from wfrun.runners.experiments.metrics.workflows import (
    TaskTiming,
    WorkflowMetrics,
    WorkflowTiming,
    critical_path_s,
    workflow_metrics,
)


class RunTimings(msgspec.Struct, frozen=True):
    """The timings of a run."""

    settings: ev.Settings
    sites: tuple[SiteSpec, ...]
    started_s: float
    outcome: str | None
    """None: the run has not ended."""
    workflows: tuple[WorkflowTiming, ...]
    tasks: tuple[TaskTiming, ...]
    """All attempts that ran, in the order of their ends."""

    def workflow_metrics(self) -> list[WorkflowMetrics]:
        """The metrics of every workflow."""
        attempts: list[list[TaskTiming]] = [[] for _ in self.workflows]
        for task in self.tasks:
            attempts[task.workflow].append(task)
        return [workflow_metrics(w, a) for w, a in zip(self.workflows, attempts, strict=True)]

    def jobs(self) -> list[JobTiming]:
        """All attempts that ran, failed ones included, which used their cores too."""
        return [task.job() for task in self.tasks]


def run_timings(events: Iterable[ev.Event], documents: Mapping[str, Workflow]) -> RunTimings:
    """Replay a log, complete or not (``Store.load``, ``Store.workflows``).

    Times are those of the events: seconds since the epoch, or since the start of a simulation. If
    the start of an attempt was not reported (no engine was running), it is computed from the run
    time in its exit record. Attempts that never started are not among the tasks.

    Run times for critical paths are those of the stored documents, scaled under emulation; for
    tasks without one, the measured run time times the speed ratio of the site.
    """
    replay = _Replay(documents)
    for event in events:
        replay.take(event)
    return replay.timings()


class _Replay:
    def __init__(self, documents: Mapping[str, Workflow]) -> None:
        self._interpreter = Interpreter(documents)
        self._state = self._interpreter.state
        self._eligible_s = array("d")
        """When the task with each serial number of the run became eligible, from serial 1."""
        self._since: dict[str, float] = {}
        """When the tasks of open attempts became eligible."""
        self._tasks: list[TaskTiming] = []
        self._transfers: dict[int, tuple[int, int]] = {}
        """Of each workflow: files and bytes between sites."""

    def take(self, event: ev.Event) -> None:
        """Apply one event, and note what changed."""
        state = self._state
        ending = state.attempts.get(event.key) if isinstance(event, ev.AttemptEnded) else None
        moved, moved_bytes = state.transfers, state.moved_bytes
        self._interpreter.apply(event)
        self._interpreter.actions()
        news = state.eligible_serial - len(self._eligible_s)
        self._eligible_s.extend([event.at_s] * news)
        if isinstance(event, ev.AttemptPlaced):
            w = state.workflows[event.workflow]
            serial = w.serials[event.task]  # 0: of a bag, and eligible since that was submitted
            self._since[event.key] = self._eligible_s[serial - 1] if serial else w.added_s
        elif isinstance(event, ev.AttemptEnded) and ending is not None:
            self._end(ending, event)
        elif isinstance(event, ev.TransferEnded) and state.transfers > moved:
            files, size_bytes = self._transfers.get(event.workflow, (0, 0))
            size_bytes += state.moved_bytes - moved_bytes
            self._transfers[event.workflow] = (files + 1, size_bytes)

    def _end(self, attempt: Attempt, event: ev.AttemptEnded) -> None:
        eligible_s = self._since.pop(attempt.key)
        outcome = event.outcome
        start_s = attempt.started_s
        if start_s is None and outcome.started_s is not None and outcome.ended_s is not None:
            start_s = event.at_s - (outcome.ended_s - outcome.started_s)
        if start_s is None or attempt.ready_s is None:
            return
        task = self._state.workflows[attempt.workflow].workflow.tasks[attempt.task]
        self._tasks.append(
            TaskTiming(
                workflow=attempt.workflow,
                task=attempt.task,
                site=attempt.site,
                cores=task.resources.cores,
                eligible_s=eligible_s,
                placed_s=attempt.placed_s,
                ready_s=attempt.ready_s,
                start_s=max(start_s, attempt.ready_s),  # clocks of sites are read with delay
                end_s=event.at_s,
                done=outcome.cause == "done" and not attempt.superseded,
            )
        )

    def timings(self) -> RunTimings:
        state = self._state
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
        )

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
