"""States of runs as records, for ``--json``."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from wfrun.engine.core.state import Phase, RunState, SiteState, WorkflowState
from wfrun.engine.explain.idleness import Idleness, explain_idleness
from wfrun.engine.explain.time_left import TimeLeftEstimator
from wfrun.engine.tasks.failures import Failure, FailureGroup
from wfrun.runners.inspect.tables.report import outcome_text
from wfrun.runners.inspect.tables.running import running_tasks

MAX_RUNNING = 1000
"""Maximum number of running tasks in a document."""


class TaskCounts(msgspec.Struct, frozen=True):
    """Numbers of tasks by state."""

    total: int
    done: int
    failed: int
    blocked: int
    """Number of tasks that depend on failed tasks."""
    waiting_to_retry: int
    not_needed: int
    """Number of optional tasks whose bag has ended without them."""


class AttemptCounts(msgspec.Struct, frozen=True):
    """Numbers of attempts: open ones by phase, and those that have failed."""

    staging: int
    queued: int
    running: int
    failed: int


class IdleRecord(msgspec.Struct, frozen=True):
    """Why a site has free cores."""

    kind: str
    text: str


class SiteRecord(msgspec.Struct, frozen=True):
    """A site of a run."""

    name: str
    slots: int
    tasks_done: int
    attempts: AttemptCounts
    files_in: int
    bytes_in: int
    paused: str | None
    """Why the site gets no work; None: it gets work."""
    idle: IdleRecord | None
    """Why the site has free cores. None: no core is free, or nothing drives the run."""


class WorkflowRecord(msgspec.Struct, frozen=True):
    """A workflow or a bag of a run."""

    name: str
    owner: str | None
    tasks: TaskCounts
    makespan_s: float | None
    """Makespan in seconds, until now if the run has not ended. None: the run has ended with tasks
    that are not done."""


class FailureRecord(msgspec.Struct, frozen=True):
    """An attempt that has failed."""

    task: str
    attempt: str
    site: str
    cause: str
    final: bool
    """Whether the task is not tried again."""
    message: str


class FailureKindRecord(msgspec.Struct, frozen=True):
    """Failures with one cause and one kind of message, since the run was started or resumed."""

    cause: str
    """Cause of the failures, with the exit code or the signal."""
    message: str
    """The message, with ``…`` for the parts in which the messages differ."""
    tasks: int
    """Number of failed tasks."""
    attempts: int
    """Number of failed attempts."""
    first_task: str


class RunRecord(msgspec.Struct, frozen=True):
    """A run."""

    name: str
    path: str
    state: str
    """``starting``, ``running``, ``draining``, ``interrupted``, ``done``, ``failed``, …, or
    ``unreadable``."""
    reason: str | None = None
    """Why the run has ended, or why it cannot be read."""
    policy: str | None = None
    started: float | None = None
    """Start of the run, in seconds since 1970 or since the start of a simulation."""
    elapsed_s: float | None = None
    tasks: TaskCounts | None = None
    attempts: AttemptCounts | None = None


class RunningRecord(msgspec.Struct, frozen=True):
    """A running attempt."""

    task: str
    """Id of the task, with its parameters if it is a task of a bag."""
    site: str
    host: str
    """Empty: unknown."""
    elapsed_s: float
    expected_s: float | None
    """Expected run time in seconds; None: unknown."""


class LeftRecord(msgspec.Struct, frozen=True):
    """The time until a run ends, in seconds, and an interval around it."""

    value_s: float
    low_s: float
    high_s: float


class StatusRecord(RunRecord, frozen=True):
    """A run with its workflows and sites, its last failures, and its oldest running tasks."""

    workflows: tuple[WorkflowRecord, ...] = ()
    sites: tuple[SiteRecord, ...] = ()
    failures: tuple[FailureRecord, ...] = ()
    failure_kinds: tuple[FailureKindRecord, ...] = ()
    running: tuple[RunningRecord, ...] = ()
    left: LeftRecord | None = None
    """Time until the run ends; None: unknown, or nothing drives the run."""


def status_record(path: Path, state: RunState, *, driven: bool) -> StatusRecord:
    """The record of a run that can be read. ``driven``: an engine drives it now."""
    now_s = time.time() if driven else state.now_s
    left = TimeLeftEstimator(state).at(now_s) if driven else None
    idle = explain_idleness(state) if driven else [None] * len(state.sites)
    return StatusRecord(
        **msgspec.structs.asdict(run_record(path, state, driven=driven)),
        workflows=tuple(_workflow(w, state) for w in state.workflows),
        sites=tuple(map(_site, state.sites, idle)),
        failures=tuple(map(_failure, state.recent_failures)),
        failure_kinds=tuple(map(_failure_kind, state.failure_groups.largest_first())),
        running=tuple(
            RunningRecord(*task[:5]) for task in running_tasks(state, now_s, MAX_RUNNING)
        ),
        left=None if left is None else LeftRecord(*left),
    )


def run_record(path: Path, state: RunState, *, driven: bool) -> RunRecord:
    """The record of a run without its workflows, sites and failures. ``driven``: an engine drives
    it now."""
    now_s = time.time() if driven else state.end_s
    return RunRecord(
        name=path.name,
        path=str(path),
        state=outcome_text(state, driven=driven),
        reason=state.end_reason or None,
        policy=state.settings.placed_by,
        started=state.started_s,
        elapsed_s=now_s - state.started_s,
        tasks=TaskCounts(
            state.tasks,
            state.done,
            state.failed,
            state.blocked,
            sum(w.delayed for w in state.workflows),
            state.unneeded,
        ),
        attempts=_attempts(*state.sites),
    )


def _attempts(*sites: SiteState) -> AttemptCounts:
    def of(*phases: Phase) -> int:
        return sum(site.phases[phase] for site in sites for phase in phases)

    return AttemptCounts(
        of(Phase.STAGING),
        of(Phase.QUEUED, Phase.SUBMITTING),
        of(Phase.RUNNING),
        sum(site.failed for site in sites),
    )


def _site(site: SiteState, idle: Idleness | None) -> SiteRecord:
    return SiteRecord(
        site.spec.name,
        site.spec.slots,
        site.done,
        _attempts(site),
        site.transfers_in,
        site.bytes_in,
        site.pause_reason,
        None if idle is None else IdleRecord(idle.kind, idle.text),
    )


def _workflow(w: WorkflowState, state: RunState) -> WorkflowRecord:
    tasks = TaskCounts(len(w.workflow.tasks), w.done, w.failed, w.blocked, w.delayed, w.unneeded)
    makespan_s = None
    if w.done + w.unneeded == len(w.workflow.tasks) or not state.ended:
        makespan_s = (state.now_s if w.ended_s is None else w.ended_s) - w.added_s
    return WorkflowRecord(w.workflow.name, w.workflow.owner, tasks, makespan_s)


def _failure(failure: Failure) -> FailureRecord:
    return FailureRecord(
        failure.task, failure.key, failure.site, failure.cause, failure.final, failure.message
    )


def _failure_kind(group: FailureGroup) -> FailureKindRecord:
    return FailureKindRecord(group.head, group.text, group.tasks, group.attempts, group.first.task)
