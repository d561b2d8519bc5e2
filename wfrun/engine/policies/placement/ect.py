"""Earliest Completion Time (thesis section 5.1.4, policies 1 and 6)."""

from __future__ import annotations

import msgspec

from wfrun.engine.information import H, Information, K, R
from wfrun.engine.policies.placement.base import BasePlacement


class Ect(BasePlacement):
    """Assigns each task to the cluster where it is completed first: the time at which the cluster's
    queue would start it, and its run time at the cluster's speed. Ties: the order of the catalog.

    Clusters get no more than twice what they have slots for, but for short tasks, so that these do
    not wait for us; the task is then the next best's.
    """

    name = "ect"
    information = Information(status=R, processing_speed=K, task_runtime=K)
    summary = "the cluster where the task is completed first, its queue counted"

    def place(self, task: int) -> int | None:
        return self.view.earliest_completion(task, self.view.candidates(task))


class EctP(Ect):
    """ECT with predicted run times: the average of the last two tasks of the same owner,
    application and size at the site (Last2). What runs and waits there is predicted anew when tasks
    of its class have ended (section 7.3.1)."""

    name = "ect-p"
    information = msgspec.structs.replace(Ect.information, task_runtime=H)
    summary = "ect, with run times predicted from the last two of their class (Last2)"
