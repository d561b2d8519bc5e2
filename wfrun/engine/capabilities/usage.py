"""Usage of the sites by owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wfrun.engine import events as ev
from wfrun.engine.core.capability import Part, Run
from wfrun.engine.core.state import Attempt
from wfrun.engine.exchange import Outcome


class Usage:
    """Resource consumption of one owner: core seconds of ended attempts, and of running attempts up
    to now (thesis section 5.1.3).

    The sum over running attempts is kept in two numbers, so that the cost of a query does not
    depend on how many run.
    """

    __slots__ = ("_began_core_s", "_running_cores", "earlier_s", "past_s")

    def __init__(self, earlier_s: float = 0.0) -> None:
        self.earlier_s = earlier_s
        """Core seconds of earlier runs."""
        self.past_s = 0.0
        """Core seconds of ended attempts of this run."""
        self._running_cores = 0
        self._began_core_s = 0.0
        """Sum over the running attempts of cores multiplied by start time."""

    def started(self, cores: int, now_s: float) -> None:
        """Count an attempt that starts to run."""
        self._running_cores += cores
        self._began_core_s += cores * now_s

    def stopped(self, cores: int, started_s: float) -> None:
        """Stop counting an attempt as running. The caller adds the core seconds of the attempt to
        ``past_s``."""
        self._running_cores -= cores
        self._began_core_s -= cores * started_s

    def until(self, now_s: float) -> float:
        """Core seconds used until ``now_s``, including those of earlier runs."""
        return self.earlier_s + self.past_s + self._running_cores * now_s - self._began_core_s


class Usages(Part):
    """Counts the usage of owners, in runs with a selection policy. Cost: constant.

    A running attempt counts from the time when its start became known. An ended attempt counts by
    the times in its exit record, or else by the times that the engine has observed.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.by_owner: dict[str, Usage] = {}
        """Usage by owner."""

    def take_over(self, before: Usages) -> None:
        self.by_owner = before.by_owner

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        return bool(run.state.queues)

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return {ev.HistoryRead: self._history_read}

    def _history_read(self, event: ev.HistoryRead) -> None:
        for owner, used_s in event.usage_s.items():
            self.by_owner[owner] = Usage(used_s)

    def _of(self, attempt: Attempt) -> Usage:
        owner = self.state.workflows[attempt.workflow].workflow.owner
        usage = self.by_owner.get(owner)
        if usage is None:
            usage = self.by_owner[owner] = Usage()
        return usage

    def on_started(self, attempt: Attempt, event: ev.AttemptStarted) -> None:
        self._of(attempt).started(attempt.cores, event.at_s)

    def on_absent(self, attempt: Attempt) -> None:
        """Stop counting an attempt that was believed to run but never started: it used nothing."""
        if attempt.started_s is not None:
            self._of(attempt).stopped(attempt.cores, attempt.started_s)

    def on_left(self, attempt: Attempt) -> None:
        if attempt.started_s is not None:
            self._of(attempt).stopped(attempt.cores, attempt.started_s)

    def on_ended(self, attempt: Attempt, outcome: Outcome, core_s: float | None) -> None:
        if core_s is None and attempt.started_s is not None:
            core_s = attempt.cores * (self.state.now_s - attempt.started_s)
        if core_s:
            self._of(attempt).past_s += core_s
