"""Reads the attempts of a run from its log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.core.state import Attempt, Phase, RunState, TaskStatus
from wfrun.engine.exchange import Outcome
from wfrun.engine.explain.visible import name_line
from wfrun.runners.inspect.tables.running import host_of
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.collecting import collect

SUPERSEDED, LOST = "superseded", "lost"
_PHASES = {
    Phase.STAGING: "staging",
    Phase.SUBMITTING: "queued",
    Phase.QUEUED: "queued",
    Phase.RUNNING: "running",
}


class AttemptRecord(msgspec.Struct, frozen=True, gc=False):
    """One attempt. Times are those of the log. None: the attempt did not reach that point, or the
    value is unknown."""

    key: str
    workflow: int
    task: int
    site: int
    host: str
    """Empty: unknown."""
    launcher: str
    cores: int
    is_replica: bool
    state: str
    """``done``, the cause of its failure, ``superseded`` if another attempt of the task was done
    first, or ``lost`` if its site or its inputs were lost. For an open attempt ``staging``,
    ``queued`` or ``running``."""
    placed_s: float
    ready_s: float | None
    """Time at which all inputs of the attempt were at the site."""
    started_s: float | None
    """Start of the attempt, by the clock of the site if the exit record is known."""
    ended_s: float | None
    outcome: Outcome | None

    @property
    def is_open(self) -> bool:
        return self.ended_s is None

    @property
    def number(self) -> int:
        """Number of the attempt of its task, from 1."""
        return int(self.key.rpartition(".")[2])

    @property
    def runtime_s(self) -> float | None:
        """Run time in seconds; None if the attempt is open or never started."""
        if self.started_s is None or self.ended_s is None:
            return None
        return max(0.0, self.ended_s - self.started_s)


class RunAttempts(NamedTuple):
    """The state and the attempts of a run, from its log."""

    run: RunDir
    state: RunState
    word: str
    """State of the run: ``running``, ``interrupted``, ``done``, ``failed`` or ``cancelled``."""
    attempts: list[AttemptRecord]
    """In the order of their placement."""

    @property
    def wfrun_version(self) -> str:
        """The version of wfrun that began the run; ``unknown`` in logs that do not state it."""
        return name_line(self.state.version) or "unknown"

    def is_done(self, workflow: int, task: int) -> bool:
        """Whether a task is done."""
        return self.state.workflows[workflow].status[task] == TaskStatus.DONE

    def successes(self, workflow: int) -> dict[int, AttemptRecord]:
        """Return the successful attempt of each done task of a workflow: the last one, if the task
        was done again because its files were lost."""
        return {
            a.task: a
            for a in self.attempts
            if a.workflow == workflow and a.state == "done" and self.is_done(workflow, a.task)
        }


def read_attempts(run: RunDir) -> RunAttempts:
    """Read the log of a run, also while it is written. Raises what ``collect`` raises."""
    state, collector, driven = collect(run, _Collector)
    word = "running" if driven else state.ended or "interrupted"
    return RunAttempts(run, state, word, collector.records())


class _Collector:
    """Collects attempts while the log is replayed."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._ended: dict[str, AttemptRecord | None] = {}
        """Records of ended attempts by key, in the order of placement; None: the attempt is
        open."""
        self._open: dict[str, Attempt] = {}

    def passed(self, events: Iterator[ev.AnyEvent]) -> Iterator[ev.AnyEvent]:
        """Yield the events. Once the caller has replayed an event, record the attempts that it
        placed or ended."""
        opened = self._state.attempts
        for event in events:
            yield event
            if isinstance(event, ev.AttemptPlaced):
                self._ended[event.key] = None
                self._open[event.key] = opened[event.key]
            elif isinstance(event, ev.AttemptEnded):
                attempt = self._open.get(event.key)
                if attempt is not None and event.key not in opened:
                    self._end(attempt, event.at_s, event.outcome)
            if len(self._open) != len(opened):
                # Some fail without an end: an input did not arrive, or their site has lost them.
                for key in [key for key in self._open if key not in opened]:
                    self._end(self._open[key], event.at_s, None)

    def _end(self, attempt: Attempt, at_s: float, outcome: Outcome | None) -> None:
        del self._open[attempt.key]
        self._ended[attempt.key] = self._record(attempt, at_s, outcome)

    def records(self) -> list[AttemptRecord]:
        return [
            self._record(self._open[key], None, None) if record is None else record
            for key, record in self._ended.items()
        ]

    def _record(
        self, attempt: Attempt, at_s: float | None, outcome: Outcome | None
    ) -> AttemptRecord:
        started_s, host, word = attempt.started_s, "", LOST
        if outcome is not None:
            word = SUPERSEDED if attempt.superseded else outcome.cause
            host = outcome.host or ""
            if outcome.started_s is not None and outcome.ended_s is not None:
                started_s, at_s = outcome.started_s, outcome.ended_s
        elif at_s is None:
            word = _PHASES[attempt.phase]
        return AttemptRecord(
            key=attempt.key,
            workflow=attempt.workflow,
            task=attempt.task,
            site=attempt.site,
            host=host or host_of(self._state, attempt),
            launcher=attempt.launcher,
            cores=attempt.cores,
            is_replica=attempt.is_replica,
            state=word,
            placed_s=attempt.placed_s,
            ready_s=attempt.ready_s,
            started_s=started_s,
            ended_s=at_s,
            outcome=outcome,
        )
