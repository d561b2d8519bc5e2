"""Policies and queues with one rule changed, for experiments on causes. They have no other use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import floor

from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.policies.placement.all_clusters import AllClusters
from wfrun.engine.policies.placement.base import least
from wfrun.engine.policies.placement.cluster_min import ClusterMin
from wfrun.engine.queues import LRMS
from wfrun.engine.queues.fcfs import Fcfs


class WholeLoads(AllClusters):
    """All-Clusters with loads rounded down to whole numbers."""

    name = "all-clusters:whole-loads"

    def place(self, task: int) -> int | None:
        return least(self.view.candidates(task), lambda site: floor(self.view.load(site)))


class BalancedOverflow(ClusterMin):
    """Cluster Minimization whose tasks go to the least loaded cluster when none has an idle
    processor."""

    name = "cluster-min:balanced"

    def place(self, task: int) -> int | None:
        view, cores = self.view, self.view.cores(task)
        sites = view.candidates(task)
        if any(view.idle(site) >= cores for site in sites):
            return super().place(task)
        return least(sites, view.load)


class CountedIdle(Fcfs):
    """A FCFS queue whose free processors count as idle even while a job waits at its head. Only its
    name differs from `Fcfs`: the engine assumes that queues with other names backfill."""

    name = "fcfs:counted-idle"


@contextmanager
def registered() -> Iterator[None]:
    """Register the variants by name until the block ends."""
    for variant in (WholeLoads, BalancedOverflow):
        PLACEMENT[variant.name] = variant
    LRMS[CountedIdle.name] = CountedIdle
    try:
        yield
    finally:
        for variant in (WholeLoads, BalancedOverflow):
            del PLACEMENT[variant.name]
        del LRMS[CountedIdle.name]
