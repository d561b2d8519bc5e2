"""Shortest Task First with Replication (thesis section 5.1.4, policy 7)."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine.fitting.information import Information, K
from wfrun.engine.policies.placement.base import BasePlacement
from wfrun.engine.policies.placement.rr import next_in_turn, turn_scores
from wfrun.engine.policies.placement.scores import Scores


class Stfr(BasePlacement):
    """Assigns the shortest task first, to free processors, the clusters in turn. When no task
    waits, each running task is replicated once on processors that become free."""

    name = "stfr"
    information = Information(task_runtime=K)
    summary = "the shortest task first; then each task that runs is replicated once"
    binds_late = True
    replicas = 1

    def order(self) -> Sequence[float]:
        return self.view.runtimes_s()

    def place(self, task: int) -> int | None:
        return next_in_turn(self.view, task)

    def scores(self, task: int) -> Scores:
        return turn_scores(self.view, task)
