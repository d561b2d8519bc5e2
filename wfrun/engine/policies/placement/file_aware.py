"""All-Clusters File-Aware (thesis section 6.1.3, policy 4)."""

from __future__ import annotations

import msgspec

from wfrun.engine.information import Information, K, R
from wfrun.engine.policies.placement.base import BasePlacement, least
from wfrun.engine.policies.placement.scores import (
    Criterion,
    Scores,
    first_where,
    lowest,
    score,
    shown,
)
from wfrun.engine.protocols import View


class FileAware(BasePlacement):
    """Submits each eligible task to the cluster with the lowest transfer cost, preferring clusters
    with enough idle processors for it.

    The cost is the sum of the transfer times of missing inputs. Ties go to the less loaded cluster,
    then to the first in the catalog.
    """

    name = "file-aware"
    information = Information(status=R, link_speed=K, file_size=R)
    summary = "each task to the cluster with the cheapest file transfers, idle ones first"

    def place(self, task: int) -> int | None:
        return cheapest(self.view, task)

    def scores(self, task: int) -> Scores:
        return score(self.view.candidates(task), *transfer_criteria(self.view, task))


class FileAwareR(FileAware):
    """File-aware with the bandwidth and latency of links as the copies of this run show them: a
    link that is slower than the catalog and earlier runs say is avoided once it has proved so."""

    name = "file-aware-r"
    information = msgspec.structs.replace(FileAware.information, link_speed=R)
    summary = "file-aware, with the speed of links as this run finds it"


def cheapest(view: View, task: int) -> int:
    """The candidate that file-aware chooses."""
    sites = view.candidates(task)
    cores = view.cores(task)
    idle = tuple(s for s in sites if view.idle(s) >= cores)
    return least(idle or sites, lambda site: view.transfer_s(task, site), view.load)


def transfer_criteria(view: View, task: int) -> list[Criterion]:
    """The criteria by which ``cheapest`` chooses."""
    cores = view.cores(task)
    return [
        first_where("has room", lambda site: view.idle(site) >= cores),
        lowest("transfers", "s", lambda site: view.transfer_s(task, site)),
        lowest("load", "", view.load),
        shown("idle", "cores", view.idle),
    ]
