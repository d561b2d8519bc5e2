"""Round Robin (thesis section 6.1.3, policy 1)."""

from __future__ import annotations

from collections.abc import Mapping

from wfrun.engine.fitting.information import Information
from wfrun.engine.policies.placement.base import BasePlacement
from wfrun.engine.policies.placement.scores import Scores, lowest, score, turn
from wfrun.engine.protocols import View


class RoundRobin(BasePlacement):
    """Submits the eligible tasks of a workflow to the clusters in round-robin order.

    The thesis leaves the order of clusters open; here it is that of the catalog. A cluster that is
    no candidate for a task is skipped.
    """

    name = "round-robin"
    information = Information()
    summary = "the clusters in turn"

    def __init__(self, view: View, options: Mapping[str, int | float | str]) -> None:
        super().__init__(view, options)
        self._last = -1

    def place(self, task: int) -> int | None:
        sites = self.view.candidates(task)
        for site in sites:
            if site > self._last:
                return site
        return sites[0]

    def scores(self, task: int) -> Scores:
        count = self.view.site_count
        position = lowest("turn", "", lambda site: turn(site, self._last, count))
        return score(self.view.candidates(task), position)

    def placed(self, task: int, site: int) -> None:
        self._last = site
