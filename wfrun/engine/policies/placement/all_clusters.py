"""All-Clusters (thesis section 6.1.3, policy 3)."""

from __future__ import annotations

from wfrun.engine.fitting.information import Information, R
from wfrun.engine.policies.placement.base import BasePlacement, least
from wfrun.engine.policies.placement.scores import Scores, lowest, score


class AllClusters(BasePlacement):
    """Submits each eligible task to the least-loaded cluster.

    The load is the number of processors that all running and queued jobs of a cluster request,
    relative to its size. Ties go to the first cluster in the catalog.
    """

    name = "all-clusters"
    information = Information(status=R)
    summary = "each task to the least-loaded cluster"

    def place(self, task: int) -> int | None:
        return least(self.view.candidates(task), self.view.load)

    def scores(self, task: int) -> Scores:
        return score(self.view.candidates(task), lowest("load", "", self.view.load))
