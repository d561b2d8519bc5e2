"""Expected run times of tasks, for people: they see which task runs much longer than others."""

from __future__ import annotations

from wfrun.engine.capabilities.launchers.runtimes import RuntimeEstimates
from wfrun.engine.capability import Capability, Run
from wfrun.engine.exchange import Outcome
from wfrun.engine.state import Attempt, WorkflowState


class ExpectedTimes(Capability):
    """Estimates run times from the tasks of a run that are done, and from its documents. Decisions
    do not depend on it.

    Cost: constant.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._runtimes = RuntimeEstimates()

    def take_over(self, before: ExpectedTimes) -> None:
        self._runtimes = before._runtimes

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        if outcome.started_s is None or outcome.ended_s is None:
            return
        w = self.state.workflows[attempt.workflow]
        elapsed_s = max(0.0, outcome.ended_s - outcome.started_s)
        speed_ratio = self.state.sites[attempt.site].spec.speed_ratio
        self._runtimes.observe(_kind(w, attempt.task), elapsed_s, speed_ratio)

    def expected_s(self, attempt: Attempt) -> float | None:
        """Expected run time of an attempt at its site; None: nothing is known."""
        w = self.state.workflows[attempt.workflow]
        documented_s = w.workflow.tasks[attempt.task].runtime_s
        speed_ratio = self.state.sites[attempt.site].spec.speed_ratio
        return self._runtimes.expected_s(_kind(w, attempt.task), documented_s, speed_ratio)


def _kind(w: WorkflowState, task: int) -> tuple[int, str]:
    """The tasks whose run times are alike. Those of a bag have one name, which is not looked up:
    its tasks are created on access."""
    return w.index, "" if w.workflow.bag is not None else w.workflow.tasks[task].name
