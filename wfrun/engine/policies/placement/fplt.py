"""Fastest Processor, Largest Task (thesis section 5.1.4, policies 2 and 5)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from wfrun.engine.fitting.information import H, Information, K
from wfrun.engine.policies.placement.base import BasePlacement, least
from wfrun.engine.policies.placement.scores import Scores, highest, score


class Fplt(BasePlacement):
    """Assigns the largest task to the fastest free processor.

    Ties between tasks go to the one that became eligible first, ties between clusters to the first
    in the catalog.
    """

    name = "fplt"
    information = Information(processing_speed=K, task_runtime=K)
    summary = "the largest task to the fastest free processor"
    binds_late = True

    def order(self) -> Sequence[float]:
        return array("d", (-runtime_s for runtime_s in self.view.runtimes_s()))

    def place(self, task: int) -> int | None:
        return max(self.view.candidates(task), key=self.view.speed_ratio)

    def scores(self, task: int) -> Scores:
        return score(self.view.candidates(task), highest("speed", self.view.speed_ratio))


class Dfplt(Fplt):
    """Assigns the largest task to the free processor with the highest observed performance.

    The performance of a cluster is a moving average, over the tasks that have ended there, of their
    run time on the reference processor divided by their observed run time. The latest task has a
    weight of 1/5, all earlier ones together 4/5. A cluster where no task has ended ranks first.
    """

    name = "dfplt"
    information = Information(processing_speed=H, task_runtime=K)
    summary = "the largest task to the free processor with the highest recent speed"

    def place(self, task: int) -> int | None:
        view = self.view

        def rank(site: int) -> float:
            performance = view.performance(site)
            return float("-inf") if performance is None else -performance

        return least(view.candidates(task), rank)

    def scores(self, task: int) -> Scores:
        return score(self.view.candidates(task), highest("recent speed", self.view.performance))
