"""Cluster Minimization (thesis section 6.1.3, policy 6)."""

from __future__ import annotations

from collections.abc import Mapping

from wfrun.engine.fitting.information import Information, K, R
from wfrun.engine.policies.placement.base import BasePlacement, least
from wfrun.engine.policies.placement.scores import Scores, first_where, highest, score, shown
from wfrun.engine.protocols import View


class ClusterMin(BasePlacement):
    """Submits as many eligible tasks as possible to the fastest cluster, until it has no idle
    processors, then to the next cluster, in descending order of speed.

    If no candidate has enough idle processors, a task goes to the cluster of the last placed task,
    or to the fastest candidate if that cluster is no candidate. Ties in speed go to the first
    cluster in the catalog.
    """

    name = "cluster-min"
    information = Information(status=R, processing_speed=K)
    summary = "fill the fastest cluster with idle processors, then the next"

    def __init__(self, view: View, options: Mapping[str, int | float | str]) -> None:
        super().__init__(view, options)
        self._last: int | None = None
        self._fastest_first: dict[tuple[int, ...], list[int]] = {}

    def place(self, task: int) -> int | None:
        view = self.view
        candidates = view.candidates(task)
        sites = self._fastest_first.get(candidates)
        if sites is None:
            sites = sorted(candidates, key=lambda site: (-view.speed_ratio(site), site))
            self._fastest_first[candidates] = sites
        cores = view.cores(task)
        for site in sites:
            if view.idle(site) >= cores:
                return site
        return self._last if self._last in sites else least(tuple(sites))

    def scores(self, task: int) -> Scores:
        view, cores = self.view, self.view.cores(task)
        sites = view.candidates(task)
        if any(view.idle(site) >= cores for site in sites):
            is_first, note = first_where("has room", lambda site: view.idle(site) >= cores), ""
        else:
            is_first = first_where("has last task", lambda site: site == self._last)
            note = "no cluster has enough idle cores, so the cluster of the last task goes first"
        idle = shown("idle", "cores", view.idle)
        return score(sites, is_first, highest("speed", view.speed_ratio), idle, note=note)

    def placed(self, task: int, site: int) -> None:
        self._last = site
