"""All-Clusters (thesis section 6.1.3, policy 3)."""

from __future__ import annotations

from wfrun.engine.information import Information, R
from wfrun.engine.policies.placement.base import BasePlacement, least


class AllClusters(BasePlacement):
    """Submits each eligible task to the least-loaded cluster.

    The load is the processor requirement of all jobs running or queued in a cluster over its
    size. Ties go to the first in the catalog.
    """

    name = "all-clusters"
    information = Information(status=R)
    summary = "each task to the least-loaded cluster"

    def place(self, task: int) -> int | None:
        return least(self.view.candidates(task), self.view.load)
