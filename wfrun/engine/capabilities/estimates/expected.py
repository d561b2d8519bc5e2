"""Expected run times of tasks, for people: they see which task runs much longer than others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from wfrun.engine import events as ev
from wfrun.engine.capabilities.launchers.runtimes import RuntimeEstimates
from wfrun.engine.core.capability import Capability, Run
from wfrun.engine.core.state import Attempt, WorkflowState
from wfrun.engine.exchange import Outcome
from wfrun.engine.tasks.bag import BagTasks


class UseMark(NamedTuple):
    """Resource use of a run up to one moment."""

    at_s: float
    used_core_s: float
    """Core seconds that attempts had used."""
    done: int
    """Number of tasks that were done."""


class ExpectedTimes(Capability):
    """Estimates run times, only for display, from the documents of a run and from its tasks that
    are done.

    Cost: constant.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.runtimes = RuntimeEstimates()
        """Run times of done tasks, by `kind_of` the task."""
        self.ratios = RuntimeEstimates()
        """Ratios of observed to documented run times of done tasks, by `kind_of` the task."""
        self.since = UseMark(self.state.started_s, 0.0, 0)
        """The resource use of the run when it was started or last resumed."""

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        return run.is_watched

    def take_over(self, before: ExpectedTimes) -> None:
        self.runtimes, self.ratios, self.since = before.runtimes, before.ratios, before.since

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return {ev.RunResumed: self._resumed}

    def _resumed(self, event: ev.RunResumed) -> None:
        used_s = sum(site.used_core_s for site in self.state.sites)
        self.since = UseMark(event.at_s, used_s, self.state.done)

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        if outcome.started_s is None or outcome.ended_s is None:
            return
        w = self.state.workflows[attempt.workflow]
        elapsed_s = max(0.0, outcome.ended_s - outcome.started_s)
        speed_ratio = self.state.sites[attempt.site].spec.speed_ratio
        kind, documented_s = kind_of(w, attempt.task), documented_of(w, attempt.task)
        self.runtimes.observe(kind, elapsed_s, speed_ratio)
        if documented_s:
            self.ratios.observe(kind, elapsed_s / documented_s, speed_ratio)

    def expected_s(self, attempt: Attempt) -> float | None:
        """Expected run time of an attempt at its site, in seconds; None if unknown."""
        w = self.state.workflows[attempt.workflow]
        documented_s = documented_of(w, attempt.task)
        speed_ratio = self.state.sites[attempt.site].spec.speed_ratio
        return self.runtimes.expected_s(kind_of(w, attempt.task), documented_s, speed_ratio)


def kind_of(w: WorkflowState, task: int) -> tuple[int, str]:
    """The kind of a task: its workflow and its name. Tasks of one kind have similar run times. For
    bags the name is empty: all tasks of a bag have one name, and looking it up would create the
    task."""
    return w.index, "" if w.workflow.bag is not None else w.workflow.tasks[task].name


def documented_of(w: WorkflowState, task: int) -> float | None:
    """The documented run time of a task in seconds; None if its document states none."""
    tasks = w.workflow.tasks
    return tasks.runtime_s(task) if isinstance(tasks, BagTasks) else tasks[task].runtime_s
