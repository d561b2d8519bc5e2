"""Earliest Completion Time (thesis section 5.1.4, policies 1 and 6)."""

from __future__ import annotations

import msgspec

from wfrun.engine.fitting.information import H, Information, K, R
from wfrun.engine.policies.placement.base import BasePlacement
from wfrun.engine.policies.placement.scores import Scores, lowest, score, shown


class Ect(BasePlacement):
    """Assigns each task to the cluster where it is completed first, by the expected start in the
    queue of the cluster and the run time at its speed. Ties go to the first cluster in the catalog.

    The schedule is a Gantt chart that is made anew at each decision. A task that would be completed
    first at a busy cluster gets a reservation there, and the tasks behind it may use idle slots. No
    task leaves the global queue until its cluster has a free slot. So a task moves when another
    cluster becomes idle earlier than expected (section 5.1.2), and badly estimated run times bind
    no task to the wrong queue. See ``AutoThrottle``.
    """

    name = "ect"
    information = Information(status=R, processing_speed=K, task_runtime=K)
    replans = True
    completes_earliest = True
    summary = "the cluster where the task is completed first, its queue counted"

    def place(self, task: int) -> int | None:
        return self.view.earliest_completion(task, self.view.candidates(task))

    def scores(self, task: int) -> Scores:
        view = self.view
        return score(
            view.candidates(task),
            lowest("ends in", "s", lambda site: view.estimate_completion_s(site, task)),
            shown("waits", "s", lambda site: view.estimate_start_s(site, task)),
            shown("runs", "s", lambda site: view.predict_s(task, site)),
        )


class EctP(Ect):
    """ECT with predicted run times: by default the mean of the last two tasks of the same owner,
    application and number of cores at the site (Last2). Predictions for running and waiting tasks
    are renewed when tasks of their class end (section 7.3.1)."""

    name = "ect-p"
    information = msgspec.structs.replace(Ect.information, task_runtime=H)
    summary = "ect, with run times predicted from tasks of their class (--predictor)"
