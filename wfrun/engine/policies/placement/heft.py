"""HEFT and HEFT-P, dynamic and on clusters (thesis section 6.1.3, policy 7)."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from wfrun.engine.fitting.information import Information, K, R
from wfrun.engine.policies.placement.base import BasePlacement
from wfrun.engine.policies.placement.scores import Scores, lowest, score, shown
from wfrun.engine.protocols import View
from wfrun.engine.tasks.graph import topological_order


class Heft(BasePlacement):
    """Places the eligible task with the highest upward rank first, at the cluster where it is
    completed first. Its completion is the estimated start there, plus the transfers of its inputs
    one after another, plus its run time at the speed of the cluster.

    Run times of other users' jobs are those that the information service of a site knows. Upward
    ranks (Topcuoglu et al. 2002) use the reference processor and the mean bandwidth between sites;
    priorities of the document are ignored. Ties between ranks go to the task that became eligible
    first, ties between clusters to the first in the catalog.
    """

    name = "heft"
    information = Information(
        status=R,
        processing_speed=K,
        link_speed=K,
        task_runtime=K,
        file_size=K,
        background_runtime=K,
    )
    throttle: ClassVar[Literal["auto", "none"]] = "auto"
    completes_earliest = True
    summary = "highest upward rank first, to the cluster with the earliest completion"

    def order(self) -> list[float] | None:
        return [-rank for rank in upward_ranks_s(self.view)]

    def place(self, task: int) -> int | None:
        return self.view.earliest_staged_completion(task, self.view.candidates(task))

    def scores(self, task: int) -> Scores:
        view = self.view

        def staging_s(site: int) -> float:
            return view.transfer_s(task, site)

        return score(
            view.candidates(task),
            lowest("ends in", "s",
                   lambda site: view.estimate_completion_s(site, task, staging_s(site))),
            shown("waits", "s", lambda site: view.estimate_start_s(site, task, staging_s(site))),
            shown("transfers", "s", staging_s),
            shown("runs", "s", lambda site: view.predict_s(task, site)),
        )  # fmt: skip


class HeftP(Heft):
    """HEFT with predicted run times of other users' jobs: by default the mean of the last two jobs
    that ended at the site with the same user, application and number of cores (Last2)."""

    name = "heft-p"
    information = msgspec.structs.replace(Heft.information, background_runtime=R)
    summary = "heft, with the run times of other users' jobs predicted (--predictor)"


def upward_ranks_s(view: View) -> list[float]:
    """Per task, the length of the longest path from it to an exit task: run times on the reference
    processor, and transfers at the reference bandwidth."""
    seconds_per_byte = view.reference_seconds_per_byte()
    runtimes_s = view.runtimes_s()
    ranks_s = [0.0] * view.task_count
    longest_s = [0.0] * view.task_count  # The longest path through the children visited so far.
    for task in reversed(topological_order(view.parents, view.children)):
        rank_s = ranks_s[task] = runtimes_s[task] + longest_s[task]
        received: dict[int, int] = dict.fromkeys(view.parents[task], 0)
        for file in view.inputs(task):
            producer = view.producer(file)
            if producer is not None:
                received[producer] += view.size_bytes(file)
        for parent, size_bytes in received.items():
            through_s = rank_s + size_bytes * seconds_per_byte
            if through_s > longest_s[parent]:
                longest_s[parent] = through_s
    return ranks_s
