"""HEFT and HEFT-P, dynamic and on clusters (thesis section 6.1.3, policy 7)."""

from __future__ import annotations

import msgspec

from wfrun.engine.graph import topological_order
from wfrun.engine.information import Information, K, R
from wfrun.engine.policies.placement.base import BasePlacement, least
from wfrun.engine.protocols import View


class Heft(BasePlacement):
    """Of the eligible tasks the one with the highest upward rank goes to the cluster with its
    earliest completion time: the estimated start there, plus the transfer of its inputs one
    after another, plus its run time at that cluster's speed.

    The run times of other users' jobs are taken as the site's information service knows them.
    The upward rank (Topcuoglu et al. 2002) uses the reference processor (speed 1.0) and the mean
    inter-site bandwidth; a priority of the document has no say. Ties: the rank's by the order of
    becoming eligible, the completion time's by the catalog.
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
    summary = "highest upward rank first, to the cluster with the earliest completion"

    def order(self) -> list[float] | None:
        return [-rank for rank in upward_ranks_s(self.view)]

    def place(self, task: int) -> int | None:
        view = self.view
        return least(
            view.candidates(task),
            lambda site: view.estimate_completion_s(site, task, view.transfer_s(task, site)),
        )


class HeftP(Heft):
    """HEFT with predicted run times of other users' jobs: the average of the last two that ended
    at the site (Last2)."""

    name = "heft-p"
    information = msgspec.structs.replace(Heft.information, background_runtime=R)
    summary = "heft, with the run times of other users' jobs predicted (Last2)"


def upward_ranks_s(view: View) -> list[float]:
    """Per task, the length of the longest path from it to an exit: run times on the reference
    processor and transfers at the reference bandwidth."""
    seconds_per_byte = view.reference_seconds_per_byte()
    ranks_s = [0.0] * view.task_count
    longest_s = [0.0] * view.task_count  # over the children seen so far
    for task in reversed(topological_order(view.parents, view.children)):
        rank_s = ranks_s[task] = view.runtime_s(task) + longest_s[task]
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
