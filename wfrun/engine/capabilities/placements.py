"""The placement policies of the workflows of a run."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import cast

from wfrun.engine.capabilities.view import StateView
from wfrun.engine.core.capability import Part, Run
from wfrun.engine.core.state import Attempt, WorkflowState
from wfrun.engine.fitting.information import Knowledge
from wfrun.engine.model import Workflow
from wfrun.engine.policies.placement import placement_class, placement_options
from wfrun.engine.policies.placement.base import BasePlacement
from wfrun.engine.policies.policy_error import answer_error
from wfrun.engine.protocols import Placement
from wfrun.engine.tasks.bag import tasks_of


class Placements(Part):
    """Creates the policy object of each workflow, takes the order of its tasks from it, and calls
    its ``placed`` after each placement.

    Cost: constant, if that of ``placed`` is; of a new workflow, that of the policy's ``order``.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.by_workflow: list[Placement] = []
        """Policy objects by workflow."""
        self._sites: list[array[int]] = []
        """By workflow: the site of the last placement of each task, -1 before the first. Empty if
        the policy does not follow placements."""
        settings = self.state.settings
        self._policy = placement_class(settings.policy)
        self._options = placement_options(self._policy, settings.policy_options)
        self._knows_runtimes = self.state.information.task_runtime is Knowledge.KNOWN
        self._follows = self._policy.placed is not BasePlacement.placed
        """Whether the policy overrides ``placed``, and so follows placements."""
        if not self._follows:
            self.dormant = frozenset({"on_placed"})

    def on_workflow_added(self, w: WorkflowState) -> None:
        if self._knows_runtimes:
            w.runtimes_s = expected_runtimes_s(w.workflow)
        placement = self._policy(StateView(self.run, w), self._options)
        w.order = self._checked(placement.order(), len(w.status))
        self.by_workflow.append(placement)
        self._sites.append(array("h", [-1]) * (len(w.status) if self._follows else 0))

    def _checked(self, order: Sequence[float] | None, tasks: int) -> Sequence[float] | None:
        """Return the order. Raises PolicyError unless it is None or has a number for each task."""
        try:
            if order is None or len(array("d", order)) == tasks:
                return order
        except (TypeError, ValueError, OverflowError):
            pass
        raise answer_error(
            f"policy {self.state.settings.policy!r} gave no order of its tasks: {repr(order)[:80]}",
            self._policy.order,
            f"It returns a number for each of the {tasks} tasks, or None",
        )

    def on_placed(self, attempt: Attempt) -> None:
        self.by_workflow[attempt.workflow].placed(attempt.task, attempt.site)
        self._sites[attempt.workflow][attempt.task] = attempt.site

    def take_over(self, before: Placements) -> None:
        """Report earlier placements to policies that follow placements, except at sites that left
        the catalog. A policy that keeps tasks together then goes on with the sites that it has
        chosen."""
        for number, sites in enumerate(before._sites):
            own = self._sites[number]
            for task, site in enumerate(sites if own else ()):
                if site >= 0 and not self.state.left >> site & 1:
                    own[task] = site
                    self.by_workflow[number].placed(task, site)


def expected_runtimes_s(workflow: Workflow) -> Sequence[float]:
    """Run time of each task on the reference processor, in seconds. A task without a documented run
    time gets the mean of the tasks with the same name, else of all tasks, else 1 s."""
    if workflow.bag is not None:
        return tasks_of(workflow).runtimes_s() or array("d", [1.0]) * len(workflow.tasks)
    documented = [task.runtime_s for task in workflow.tasks]
    if None not in documented:
        return cast("list[float]", documented)
    known: dict[str, list[float]] = {}
    for task in workflow.tasks:
        if task.runtime_s is not None:
            known.setdefault(task.name, []).append(task.runtime_s)
    means = {name: sum(values) / len(values) for name, values in known.items()}
    everything = [value for values in known.values() for value in values]
    overall = sum(everything) / len(everything) if everything else 1.0
    return [
        task.runtime_s if task.runtime_s is not None else means.get(task.name, overall)
        for task in workflow.tasks
    ]
