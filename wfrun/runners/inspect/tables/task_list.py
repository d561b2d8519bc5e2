"""``wfrun tasks``: tasks of a run, selected and sorted.

Open tasks come from the state. Site, host and run time of ended tasks are only in the log, which is
read only if the user selects such tasks.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wfrun.engine.core.state import Attempt, Phase, RunState, TaskStatus
from wfrun.engine.errors import InvalidError
from wfrun.engine.explain.visible import name_line
from wfrun.runners.display.console import name_cell
from wfrun.runners.display.counts import counted
from wfrun.runners.display.durations import duration
from wfrun.runners.inspect.failures.failures import task_title
from wfrun.runners.inspect.tables.followed_run import FollowedRun
from wfrun.runners.inspect.tables.results import OutcomeCollector, outcomes_of
from wfrun.runners.inspect.tables.running import LATE_FACTOR, expected_s, host_of
from wfrun.runners.run.directory.run_directory import RunDir

_PHASES = {
    Phase.RUNNING: "running",
    Phase.QUEUED: "queued",
    Phase.SUBMITTING: "queued",
    Phase.STAGING: "staging",
}
_STATUSES = {
    TaskStatus.DELAYED: "retrying",
    TaskStatus.ELIGIBLE: "eligible",
    TaskStatus.WAITING: "waiting",
    TaskStatus.FAILED: "failed",
    TaskStatus.BLOCKED: "blocked",
    TaskStatus.UNNEEDED: "not needed",
    TaskStatus.DONE: "done",
}
STATES = ("running", "queued", "staging", *_STATUSES.values())
"""States of tasks, in the order in which they are listed."""
_OPEN = STATES[:6]
_ENDED = {"done", "failed"}
_RANK = {state: rank for rank, state in enumerate(STATES)}
SORTS = ("age", "task", "type", "site")


class TaskSelection(NamedTuple):
    """Which tasks are listed, and in which order."""

    states: Collection[str] = ()
    """Empty: the states of tasks that can still run."""
    site: str | None = None
    types: Collection[str] = ()
    """Patterns of the names of types; empty: all types."""
    sort: str = "age"
    limit: int | None = None


class TaskRecord(msgspec.Struct, frozen=True):
    """A task of a run."""

    workflow: str
    task: str
    """Id of the task."""
    title: str
    """Id of the task, with its parameters if it is a task of a bag."""
    type: str
    state: str
    """``running``, ``queued``, ``staging``, ``retrying`` (waits to be tried again), ``eligible``,
    ``waiting`` (for other tasks), ``failed``, ``blocked`` (by failed tasks),
    ``not needed`` (an optional task) or ``done``."""
    site: str | None
    """Site of the open attempt in the latest phase; of an ended task, the site of the attempt that
    gave its outcome."""
    host: str | None
    attempts: int
    time_s: float | None
    """Time in seconds since the task began to run, to wait in the queue or to stage its files; of
    an ended task its run time. None: unknown, or the task is at no site."""
    expected_s: float | None
    """Expected run time of a running task."""


class TaskDocument(msgspec.Struct, frozen=True):
    """The selected tasks of a run."""

    path: str
    tasks: tuple[TaskRecord, ...]
    more: int
    """Number of tasks beyond the limit."""


class _Found(NamedTuple):
    workflow: int
    task: int
    state: str
    site: int
    """Index of the site; -1: none."""
    age_s: float
    """Value of `TaskRecord.time_s`; 0: unknown."""
    attempt: Attempt | None


def select_tasks(run: RunDir, selection: TaskSelection) -> TaskDocument:
    """The tasks of a run that are selected. Raises InvalidError for a site that the run does not
    have, and the errors of ``await_start`` and ``Store``."""
    with FollowedRun(run) as followed:
        state, events, driven = followed.state, followed.seq, followed.is_driven
    ends = outcomes_of(run, state, events) if _ENDED & set(selection.states) else None
    return _Lister(run, state, ends, driven=driven).document(selection)


class _Lister:
    def __init__(
        self, run: RunDir, state: RunState, ends: OutcomeCollector | None, *, driven: bool
    ) -> None:
        self._run, self._state, self._ends = run, state, ends
        self._now_s = time.time() if driven else state.now_s
        self._furthest: dict[tuple[int, int], Attempt] = {}
        """For each dispatched task, its open attempt in the latest phase."""
        for attempt in state.attempts.values():
            if not attempt.superseded:
                known = self._furthest.get((attempt.workflow, attempt.task))
                if known is None or attempt.phase > known.phase:
                    self._furthest[attempt.workflow, attempt.task] = attempt

    def document(self, selection: TaskSelection) -> TaskDocument:
        site = self._site(selection.site)
        states = set(selection.states or _OPEN)
        found = [
            one
            for one in (*self._dispatched(), *self._others(states))
            if one.state in states
            and (site is None or one.site == site)
            and (not selection.types or self._is_of(one, selection.types))
        ]
        found.sort(key=lambda one: (one.workflow, one.task))
        if selection.sort == "age":
            found.sort(key=lambda one: (_RANK[one.state], -one.age_s))
        elif selection.sort == "type":
            found.sort(key=self._type)
        elif selection.sort == "site":
            found.sort(key=lambda one: one.site)
        shown = found[: selection.limit]
        records = tuple(map(self._record, shown))
        return TaskDocument(str(self._run.path), records, len(found) - len(shown))

    def _site(self, name: str | None) -> int | None:
        if name is None:
            return None
        names = [site.spec.name for site in self._state.sites]
        if name not in names:
            shown = ", ".join(map(name_line, names))
            raise InvalidError(f"the run has no site {name!r}", hint=f"its sites: {shown}")
        return names.index(name)

    def _dispatched(self) -> Iterator[_Found]:
        for (workflow, task), attempt in self._furthest.items():
            since_s = attempt.placed_s
            if attempt.phase is Phase.RUNNING:
                since_s = since_s if attempt.started_s is None else attempt.started_s
            elif attempt.phase is not Phase.STAGING:
                since_s = since_s if attempt.ready_s is None else attempt.ready_s
            age_s = max(0.0, self._now_s - since_s)
            yield _Found(workflow, task, _PHASES[attempt.phase], attempt.site, age_s, attempt)

    def _others(self, states: Collection[str]) -> Iterator[_Found]:
        """Tasks without an open attempt."""
        for w in self._state.workflows:
            ends = None if self._ends is None else self._ends.ends_of(w.index)
            for status, state in _STATUSES.items():
                if state not in states or not w.count(status):
                    continue
                for task, value in enumerate(w.status):
                    if value == status:
                        site, ran_s = -1, 0.0
                        if ends is not None and state in _ENDED:
                            site, ran_s = ends.site[task], ends.ended_s[task] - ends.started_s[task]
                        age_s = ran_s if ran_s > 0 else 0.0  # nan: unknown
                        yield _Found(w.index, task, state, site, age_s, None)

    def _type(self, one: _Found) -> str:
        workflow = self._state.workflows[one.workflow].workflow
        return workflow.tasks[0 if workflow.bag is not None else one.task].name

    def _is_of(self, one: _Found, patterns: Collection[str]) -> bool:
        kind = self._type(one)
        return any(fnmatchcase(kind, pattern) for pattern in patterns)

    def _record(self, one: _Found) -> TaskRecord:
        w = self._state.workflows[one.workflow]
        host, expected = None, None
        if one.attempt is not None:
            host = host_of(self._state, one.attempt) or None
            if one.attempt.phase is Phase.RUNNING:
                expected = expected_s(self._state, one.attempt)
        elif self._ends is not None and one.site >= 0:
            number = self._ends.ends_of(one.workflow).host[one.task]
            host = None if number < 0 else self._ends.hosts[number]
        is_timed = one.attempt is not None or one.site >= 0
        return TaskRecord(
            w.workflow.name,
            w.workflow.tasks[one.task].id,
            task_title(w.workflow, one.task),
            self._type(one),
            one.state,
            None if one.site < 0 else self._state.sites[one.site].spec.name,
            host,
            w.attempts_of[one.task],
            one.age_s if is_timed and (one.attempt or one.age_s) else None,
            expected,
        )


def print_tasks(console: Console, document: TaskDocument) -> None:
    """Print a row for each task."""
    console.print(f"run {document.path}", soft_wrap=True)
    if not document.tasks:
        console.print("no such task; `--state` selects those that have ended")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("task", no_wrap=True, overflow="ellipsis", ratio=2)
    table.add_column("type", no_wrap=True, overflow="ellipsis", ratio=1)
    for heading in ("state", "site", "host"):
        table.add_column(heading, no_wrap=True)
    for heading in ("tries", "time", "expected"):
        table.add_column(heading, no_wrap=True, justify="right")
    for task in document.tasks:
        late = task.expected_s is not None and (task.time_s or 0) > LATE_FACTOR * task.expected_s
        table.add_row(
            name_cell(task.title), name_cell(task.type), task.state, task.site or "-",
            name_line(task.host or "-", _MAX_HOST), str(task.attempts),
            Text(_time(task.time_s), style="yellow" if late else ""), _time(task.expected_s),
        )  # fmt: skip
    console.print(table)
    if document.more:
        console.print(f"and {counted(document.more, 'more task')}; `--limit 0` shows all")


_MAX_HOST = 20
"""Maximum number of characters shown of the name of a host."""


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)
