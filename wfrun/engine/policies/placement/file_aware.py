"""All-Clusters File-Aware (thesis section 6.1.3, policy 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from wfrun.engine.fitting.information import Information, K, R
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

    The cost is the sum of the transfer times of missing inputs. The thesis leaves ties open. With
    ``ties=last`` they go to the cluster of the workflow's last task if it has idle processors, then
    to the least loaded cluster. So a workflow stays in one cluster, and several workflows begin in
    different clusters. With ``ties=catalog`` they go to the first cluster in the catalog.
    """

    name = "file-aware"
    information = Information(status=R, link_speed=K, file_size=R)
    summary = "each task to the cluster with the cheapest file transfers, idle ones first"
    options: ClassVar[Mapping[str, int | float | str]] = {"ties": "last"}
    choices: ClassVar[Mapping[str, Sequence[str]]] = {"ties": ("last", "catalog")}

    def __init__(self, view: View, options: Mapping[str, int | float | str]) -> None:
        super().__init__(view, options)
        self._cheapest = Cheapest(view, options)

    def place(self, task: int) -> int | None:
        return self._cheapest.site(task)

    def scores(self, task: int) -> Scores:
        return score(self.view.candidates(task), *self._cheapest.criteria(task))

    def placed(self, task: int, site: int) -> None:
        self._cheapest.last = site


class FileAwareR(FileAware):
    """File-aware with the bandwidth and latency of links as measured by the copies of this run. A
    link that turns out slower than in the catalog and in earlier runs is then avoided."""

    name = "file-aware-r"
    information = msgspec.structs.replace(FileAware.information, link_speed=R)
    summary = "file-aware, with the speed of links as this run finds it"


class Cheapest:
    """Chooses sites by the rule of file-aware, for one workflow."""

    def __init__(self, view: View, options: Mapping[str, int | float | str]) -> None:
        self._view = view
        self._in_catalog_order = options["ties"] == "catalog"
        self.last: int | None = None
        """The site of the workflow's last task; None before its first."""

    def site(self, task: int) -> int:
        """The site that the rule chooses for a task."""
        view = self._view
        sites = view.candidates(task)
        cores = view.cores(task)
        idle = tuple(s for s in sites if view.idle(s) >= cores)

        def transfer_s(site: int) -> float:
            return view.transfer_s(task, site)

        if self._in_catalog_order:
            return least(idle or sites, transfer_s)
        # Without an idle site the last one has no advantage: the whole overflow would queue there.
        if idle:
            return least(idle, transfer_s, self._is_other, view.load)
        return least(sites, transfer_s, view.load)

    def criteria(self, task: int) -> list[Criterion]:
        """The criteria by which ``site`` chooses."""
        view = self._view
        cores = view.cores(task)

        def has_room(site: int) -> bool:
            return view.idle(site) >= cores

        criteria = [
            first_where("has room", has_room),
            lowest("transfers", "s", lambda site: view.transfer_s(task, site)),
        ]
        if not self._in_catalog_order:
            criteria += [
                first_where("has last task", lambda site: site == self.last and has_room(site)),
                lowest("load", "", view.load),
            ]
        return [*criteria, shown("idle", "cores", view.idle)]

    def _is_other(self, site: int) -> bool:
        return site != self.last
