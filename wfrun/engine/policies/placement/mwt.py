"""Minimum waiting time (Ramírez-Alcaraz et al., J. Grid Computing 9, 2011, Table 1)."""

from __future__ import annotations

from wfrun.engine.information import Information, K, R
from wfrun.engine.policies.placement.base import BasePlacement, least
from wfrun.engine.policies.placement.scores import Scores, lowest, score


class Mwt(BasePlacement):
    """Sends each task to the site whose tasks wait for the shortest time on average (MWT, an
    allocation strategy of information level 3). A running task counts with the time that it has
    waited, a waiting one with the wait that the site's schedule gives it; tasks that have ended do
    not count. Ties go to the first site in the catalog."""

    name = "mwt"
    information = Information(status=R, processing_speed=K, task_runtime=K)
    summary = "the site whose tasks wait for the shortest time on average"

    def place(self, task: int) -> int | None:
        return least(self.view.candidates(task), self.view.mean_wait_s)

    def scores(self, task: int) -> Scores:
        waits = lowest("mean wait", "s", self.view.mean_wait_s)
        return score(self.view.candidates(task), waits)
