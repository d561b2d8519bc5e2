"""``wfrun explain``: why a task waits, or why it was placed at its site, as records."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from math import isinf

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.capabilities.claims.claims import ProcessorClaims
from wfrun.engine.core.capability import Run
from wfrun.engine.core.state import RunState, TaskStatus, WorkflowState
from wfrun.engine.errors import InvalidError
from wfrun.engine.explain.obstacles import Reason
from wfrun.engine.explain.waiting import explain_task, task_state
from wfrun.engine.model import Workflow
from wfrun.engine.policies.placement.scores import ScoreColumn, Scores, SiteScores
from wfrun.engine.tasks.failures import telling_line
from wfrun.parsers.read import paused_gc
from wfrun.runners.inspect.explain.explain_sizes import SizeRecord, size_records
from wfrun.runners.inspect.explain.past_decisions import PastDecision, look, past_decision
from wfrun.runners.inspect.failures.failures import task_parameters
from wfrun.runners.inspect.tables.report import outcome_text
from wfrun.runners.inspect.tables.task_names import find_tasks
from wfrun.runners.run.directory.run_directory import RunDir, await_start, is_driven
from wfrun.runners.run.prepare.pack_jobs import planned_schedule
from wfrun.runners.run.store.checkpoints import read_core
from wfrun.runners.run.store.event_store import Store

NEVER = "never"
"""Stands for an infinite time, which JSON cannot express."""
MAX_TASKS = 3
"""Maximum number of tasks that are explained if several workflows of the run have a task with this
id."""


class ReasonRecord(msgspec.Struct, frozen=True):
    """Why a task does not run, or what its open attempt does."""

    kind: str
    text: str
    site: str | None
    """The site that the reason concerns; None: no single site."""
    since_s: float | None
    """Start of the wait; None: unknown."""
    until_s: float | None
    """End of the wait; None: unknown."""


class MoveRecord(msgspec.Struct, frozen=True):
    """The decision to move a waiting job. Its times are on the same scale as those of an
    attempt."""

    at_s: float
    site: str
    """The site that the job moves to."""
    expected_s: float | None
    """Expected end of the job at ``site``; None: unknown."""
    stay_s: float | None
    """Expected end of the job if it stays at its site; None: unknown."""


class ExplainedAttempt(msgspec.Struct, frozen=True):
    """An attempt of the task. Times are seconds since 1970, or since the start of a simulation."""

    number: int
    site: str
    placed_s: float
    started_s: float | None
    ended_s: float | None
    outcome: str | None
    """``done``, or the cause of the failure; None: the attempt is open."""
    exit_code: int | None
    message: str
    """The line that says most about a failure."""
    host: str
    """Empty: unknown."""
    size: int | None = None
    """Number of processors chosen for the attempt. None: the document states only one size."""
    move: MoveRecord | None = None
    """The decision to move the job, which cancels this attempt unless the attempt starts first."""


class ColumnRecord(msgspec.Struct, frozen=True):
    """A column of scores."""

    name: str
    unit: str
    """``s``, ``cores``, ``yes/no`` or empty."""
    prefers: str
    """Which values of the column the policy prefers when it ranks the sites: ``least`` or ``most``.
    Empty: the column does not rank them. The first such column decides first."""


class ScoreRecord(msgspec.Struct, frozen=True):
    """The values of a site, in the order of the columns."""

    site: str
    values: tuple[float | bool | str | None, ...]
    """Values of the site, one per column. None: nothing is known yet, which ranks before all
    values. A time may be ``never``."""


class DecisionRecord(msgspec.Struct, frozen=True):
    """A past decision of the placement policy, or the decision that it would take now."""

    policy: str
    attempt: int | None
    """Number of the attempt that was placed; None: the decision has not been taken yet."""
    at_s: float
    site: str | None
    """The site that the task went to, or would go to; None: it would stay unplaced."""
    columns: tuple[ColumnRecord, ...]
    scores: tuple[ScoreRecord, ...]
    """The candidates; empty if there is none, or the policy has no scores."""
    others: tuple[ReasonRecord, ...]
    """Why the other sites are not candidates."""
    note: str
    is_replica: bool
    is_repeated: bool
    """Whether this wfrun decides the same in the same state."""


class PlannedRecord(msgspec.Struct, frozen=True):
    """The place of a job in a packing; times from the start of the allocation."""

    algorithm: str
    number: int
    """Position of the job in the packing's order, from 1."""
    jobs: int
    processors: int
    start_s: float
    end_s: float


class TryRecord(msgspec.Struct, frozen=True):
    """A failed try to place a job on idle processors."""

    at_s: float
    idle: dict[str, int]
    """Number of idle processors by site."""


class ClaimRecord(msgspec.Struct, frozen=True):
    """A claim of processors for a job. Its times are on the same scale as those of an attempt."""

    asked_s: float
    processors: dict[str, int]
    """Number of processors by site."""
    granted_s: float | None
    """Time at which all processors of the claim were held; None: not all have been held."""
    ended_s: float | None
    """Time at which the processors were given back; None: the claim is open."""
    cause: str
    """Why the processors were given back: ``done``, ``late``, ``broken`` or ``cancelled``."""
    message: str


class TaskExplanation(msgspec.Struct, frozen=True):
    """Explanation of one task: its state, reasons, attempts and placement decision."""

    task: str
    parameters: str
    workflow: str
    state: str
    since_s: float | None
    reasons: tuple[ReasonRecord, ...]
    attempts: tuple[ExplainedAttempt, ...]
    decision: DecisionRecord | None
    """Decision that placed the requested attempt, by default the last one. For an eligible task
    without an attempt, the decision that its policy would take now. None in a run with claims or
    packed jobs, where no policy decides."""
    planned: PlannedRecord | None
    """Place of the job in the packing; None: the jobs of the run are not packed."""
    tries: tuple[TryRecord, ...] = ()
    """The latest failed tries to place the job, in a run with claims."""
    claims: tuple[ClaimRecord, ...] = ()
    """Claims of the job."""
    sizes: tuple[SizeRecord, ...] = ()
    """Sizes of the job, if it is malleable and has started in a run with ``--malleable``."""
    size_reason: str = ""
    """What bounds the present size of the job; empty if the job does not run."""


class Explanation(msgspec.Struct, frozen=True):
    """The explanation of the tasks of a run that have one id."""

    run: str
    state: str
    """State of the run, as in ``wfrun status``."""
    started_s: float
    now_s: float
    tasks: tuple[TaskExplanation, ...]
    more: int
    """Number of further tasks of this id, in other workflows."""


def explain(run: RunDir, task: str, attempt: int | None = None) -> Explanation:
    """Explain the tasks of a run that have the id ``task``. ``attempt`` is the number of the
    attempt whose placement is explained; None: the last attempt, or for an eligible task the next
    one. Raises InvalidError if there is no such task or attempt, and the errors of ``await_start``
    and ``Store``."""
    await_start(run)
    driven = is_driven(run)
    with paused_gc(), closing(Store(run.path)) as store:
        documents = store.workflows()
        core = read_core(store, documents=documents)
        state = core.state
        found = find_tasks(state, run.name, task)
        explainer = _Explainer(core.run, store, documents, attempt)
        tasks = tuple(explainer.explain(*numbers) for numbers in found[:MAX_TASKS])
    return Explanation(
        str(run.path),
        outcome_text(state, driven=driven),
        state.started_s,
        time.time() if driven else state.now_s,
        tasks,
        len(found) - len(tasks),
    )


class _Explainer:
    """Explains tasks of a run."""

    def __init__(
        self, run: Run, store: Store, documents: Mapping[str, Workflow], attempt: int | None
    ) -> None:
        self._run, self._state = run, run.state
        self._store, self._documents = store, documents
        self._attempt = attempt

    def explain(self, workflow: int, task: int) -> TaskExplanation:
        state, w = self._state, self._state.workflows[workflow]
        history = _History(state, self._store, w, task)
        text, since_s = task_state(state, w, task)
        reused = next((part.run for part in w.reused if task in part.tasks), None)
        if reused is not None and w.status[task] == TaskStatus.DONE:
            text = f"was done by the earlier run {reused}"
        reasons = explain_task(self._run, w, task)
        return TaskExplanation(
            w.workflow.tasks[task].id,
            task_parameters(w.workflow, task),
            w.workflow.name,
            text,
            since_s,
            tuple(reason_record(state, reason) for reason in reasons),
            tuple(history.records()),
            self._decision(w, task, history),
            _planned_record(state, task),
            *self._claims(workflow, task),
            *size_records(state, self._store, workflow, task),
        )

    def _claims(
        self, workflow: int, task: int
    ) -> tuple[tuple[TryRecord, ...], tuple[ClaimRecord, ...]]:
        """The failed tries to place a job, and its claims."""
        claims = self._state.find(ProcessorClaims)
        if claims is None:
            return (), ()
        names = [site.spec.name for site in self._state.sites]
        tries = tuple(
            TryRecord(tried.at_s, dict(zip(names, tried.idle, strict=False)))
            for tried in claims.tried
            if (workflow, task) in tried.failed
        )
        return tries, tuple(_claims_of(self._store, names, workflow, task))

    def _decision(self, w: WorkflowState, task: int, history: _History) -> DecisionRecord | None:
        if self._state.settings.place or self._state.settings.pack:
            return None
        if self._attempt is None and w.status[task] == TaskStatus.ELIGIBLE:
            found = look(self._run, w, task)
            best = None if found.scores is None else found.scores.best
            return decision_record(self._state, found, None, self._state.now_s, best)
        chosen = history.placement(self._attempt)
        if chosen is None and self._attempt is not None:
            name, count = w.workflow.tasks[task].id, w.attempts_of[task]
            has = f"task {name!r} has {count} attempt{'s' * (count != 1)}"
            raise InvalidError(f"{has}, and no number {self._attempt}")
        if chosen is None:
            return None
        seq, placed = chosen
        past = past_decision(self._store, self._documents, seq, placed)
        number = _number(placed.key)
        return decision_record(self._state, past, number, placed.at_s, placed.site)


def _claims_of(
    store: Store, names: Sequence[str], workflow: int, task: int
) -> Iterator[ClaimRecord]:
    """The claims of a job in the log, in their order."""
    ended: dict[str, ev.ClaimEnded] = {}
    for _, event in store.find(b'"claim-ended"'):
        if isinstance(event, ev.ClaimEnded):
            ended[event.key] = event
    for _, event in store.find(b'"claims-asked"'):
        if not isinstance(event, ev.ClaimsAsked) or (event.workflow, event.task) != (
            workflow,
            task,
        ):
            continue
        processors: dict[str, int] = {}
        ready: dict[str, float] = {}
        for part in event.parts:
            size = part.launcher.cores * part.launcher.nodes
            processors[names[part.site]] = processors.get(names[part.site], 0) + size
            for _, one in store.find(b'"key":' + msgspec.json.encode(part.launcher.key)):
                if isinstance(one, ev.LauncherStarted):
                    ready.setdefault(one.key, one.at_s)
        end = ended.get(event.key)
        granted_s = max(ready.values()) if len(ready) == len(event.parts) else None
        if end is not None and granted_s is not None and granted_s > end.at_s:
            granted_s = None
        yield ClaimRecord(
            event.at_s,
            processors,
            granted_s,
            None if end is None else end.at_s,
            "" if end is None else end.cause,
            "" if end is None else end.message,
        )


class _History:
    """The events of the attempts of a task."""

    def __init__(self, state: RunState, store: Store, w: WorkflowState, task: int) -> None:
        self._state = state
        self._placed: dict[str, tuple[int, ev.AttemptPlaced]] = {}
        self._started: dict[str, ev.AttemptStarted] = {}
        self._ended: dict[str, ev.AttemptEnded] = {}
        self._moves: dict[str, MoveRecord] = {}
        if not w.attempts_of[task]:
            return
        start = f"{state.run_id}.{w.index}.{task}."
        for seq, event in store.find(b'"key":' + msgspec.json.encode(start)[:-1]):
            if isinstance(event, ev.AttemptPlaced):
                self._placed[event.key] = seq, event
            elif isinstance(event, ev.AttemptStarted):
                self._started[event.key] = event
            elif isinstance(event, ev.AttemptEnded):
                self._ended[event.key] = event
                if len(self._ended) == w.attempts_of[task]:
                    break  # All that is to come concerns files.
        if state.settings.reallocate is not None:
            self._find_moves(store)

    def _find_moves(self, store: Store) -> None:
        for _, event in store.find(b'"jobs-reallocated"'):
            if not isinstance(event, ev.JobsReallocated):
                continue
            expected = event.expected or [(None, None)] * len(event.moves)
            for (key, site), (stay_s, there_s) in zip(event.moves, expected, strict=True):
                if key in self._placed:
                    name = self._state.sites[site].spec.name
                    self._moves[key] = MoveRecord(event.at_s, name, there_s, stay_s)

    def placement(self, number: int | None) -> tuple[int, ev.AttemptPlaced] | None:
        """The placement of attempt ``number``, or of the last attempt if ``number`` is None, with
        the number of the event. None: there is no such attempt."""
        found = [p for p in self._placed.values() if number in (None, _number(p[1].key))]
        return found[-1] if found else None

    def records(self) -> list[ExplainedAttempt]:
        return [self._record(placed) for _, placed in self._placed.values()]

    def _record(self, placed: ev.AttemptPlaced) -> ExplainedAttempt:
        started, ended = self._started.get(placed.key), self._ended.get(placed.key)
        outcome = None if ended is None else ended.outcome
        started_s = None if started is None else started.at_s
        if outcome is not None and outcome.started_s is not None:
            started_s = outcome.started_s
        return ExplainedAttempt(
            _number(placed.key),
            self._state.sites[placed.site].spec.name,
            placed.at_s,
            started_s,
            None if ended is None else ended.at_s,
            None if outcome is None else outcome.cause,
            None if outcome is None else outcome.exit_code,
            "" if outcome is None or outcome.cause == "done" else telling_line(outcome),
            (outcome.host if outcome is not None else started.host if started else "") or "",
            placed.size or None,
            self._moves.get(placed.key),
        )


def _planned_record(state: RunState, task: int) -> PlannedRecord | None:
    schedule = planned_schedule(state)
    if schedule is None:
        return None
    tasks = state.workflows[0].workflow.tasks
    return PlannedRecord(
        state.settings.pack or "",
        len(tasks) + 1 - tasks[task].priority,
        len(tasks),
        schedule.sizes[task],
        schedule.starts_s[task],
        schedule.ends_s[task],
    )


def _number(key: str) -> int:
    return int(key.rpartition(".")[2])


def reason_record(state: RunState, reason: Reason) -> ReasonRecord:
    """A reason, with the name of its site."""
    site = None if reason.site is None else state.sites[reason.site].spec.name
    return ReasonRecord(reason.kind, reason.text, site, reason.since_s, reason.until_s)


def _score_record(
    state: RunState, columns: tuple[ScoreColumn, ...], row: SiteScores
) -> ScoreRecord:
    values = tuple(
        value if value is None
        else bool(value) if column.unit == "yes/no"
        else NEVER if isinf(value)
        else value
        for column, value in zip(columns, row.values, strict=True)
    )  # fmt: skip
    return ScoreRecord(state.sites[row.site].spec.name, values)


def decision_record(
    state: RunState, found: PastDecision, attempt: int | None, at_s: float, site: int | None
) -> DecisionRecord:
    """The record of a decision about ``attempt``; None: a decision that would be taken now.
    ``site`` is the index of the site that the task went to, or would go to; None: no site."""
    scores = found.scores or Scores((), (), None)
    return DecisionRecord(
        found.policy,
        attempt,
        at_s,
        None if site is None else state.sites[site].spec.name,
        tuple(ColumnRecord(*column) for column in scores.columns),
        tuple(_score_record(state, scores.columns, row) for row in scores.rows),
        tuple(reason_record(state, reason) for reason in found.obstacles),
        scores.note,
        found.is_replica,
        found.is_repeated,
    )
