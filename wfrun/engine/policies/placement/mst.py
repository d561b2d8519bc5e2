"""Minimum start time (Ramírez-Alcaraz et al., J. Grid Computing 9, 2011, Table 1)."""

from __future__ import annotations

from wfrun.engine.information import Information, K, R
from wfrun.engine.policies.placement.base import BasePlacement, least
from wfrun.engine.policies.placement.scores import Scores, lowest, score


class Mst(BasePlacement):
    """Sends each task to the site whose queue would start it first (MST, an allocation strategy of
    information level 3: run times and the schedules of all sites). Ties go to the first site in the
    catalog."""

    name = "mst"
    information = Information(status=R, processing_speed=K, task_runtime=K)
    summary = "the site whose queue would start the task first"

    def place(self, task: int) -> int | None:
        view = self.view
        return least(view.candidates(task), lambda site: view.estimate_start_s(site, task))

    def scores(self, task: int) -> Scores:
        view = self.view
        starts = lowest("starts in", "s", lambda site: view.estimate_start_s(site, task))
        return score(view.candidates(task), starts)
