"""Fastest Processor First (thesis section 5.1.4, policy 8)."""

from __future__ import annotations

from wfrun.engine.fitting.information import Information, K
from wfrun.engine.policies.placement.base import BasePlacement
from wfrun.engine.policies.placement.scores import Scores, highest, score


class Fpf(BasePlacement):
    """Places tasks in their initial order, each at the fastest free processor. Ties go to the first
    cluster in the catalog."""

    name = "fpf"
    information = Information(processing_speed=K)
    summary = "each task in turn to the fastest free processor"
    binds_late = True

    def place(self, task: int) -> int | None:
        return max(self.view.candidates(task), key=self.view.speed_ratio)

    def scores(self, task: int) -> Scores:
        return score(self.view.candidates(task), highest("speed", self.view.speed_ratio))
