"""Late binding at sites without launchers: how many attempts they take, in runs with bags or
launchers."""

from __future__ import annotations

from wfrun.engine.capability import Capability, Run
from wfrun.engine.exchange import Outcome
from wfrun.engine.information import Knowledge
from wfrun.engine.model import SiteSpec
from wfrun.engine.policies.placement import binds_late, placement_class
from wfrun.engine.prefetch import prefetch_per_slot
from wfrun.engine.state import Attempt, WorkflowState

MAX_COMMITTED_RATIO = 2
"""Maximum cores of dispatched attempts relative to the slots of a site, for policies that assign
tasks to queues. Without a limit such a site would take all eligible tasks before other sites, or
launchers, have room for them."""

LOCAL_LATENCY_S, SSH_LATENCY_S, BATCH_LATENCY_S = 0.02, 0.2, 10.0
"""Assumed time from the end of an attempt to the start of the next one that is submitted then: at a
local site, over SSH, and through a batch system."""

LATEST_WEIGHT = 0.1
"""Weight of the latest run time in the mean."""


class Binding(Capability):
    """Limits the capacity of sites: to their free slots for policies that assign tasks to free
    processors, to a multiple of their slots for others. Short tasks are prefetched beyond that, so
    that slots do not wait for the engine between two tasks.

    The limit is what makes binding late: tasks that no site has room for stay eligible, and go to
    the site that gets room first.

    Cost: constant.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._binds_late = binds_late(placement_class(self.state.settings.policy))
        self._runtime_s: list[float | None] = [None] * len(self.state.sites)
        """Recent mean run time of tasks, by site; None before the first."""
        self._prefetch = [0] * len(self.state.sites)
        """Cores that prefetched tasks may hold, by site."""
        self._beside_launchers = any(has_launchers(site.spec) for site in self.state.sites)
        information = self.state.information
        if (
            self._beside_launchers
            or self.state.queues
            or self._binds_late
            or self.state.max_replicas
            or Knowledge.HISTORICAL in (information.processing_speed, information.task_runtime)
        ):
            self._limit_capacity()

    def _limit_capacity(self) -> None:
        """Limit the capacity of all sites from now on."""
        self.state.is_bounded = True
        for index, site in enumerate(self.state.sites):
            site.holds_prefetch = self._binds_late or self._beside_launchers
            self._update(index)

    def _update(self, index: int) -> None:
        """Recompute the capacity of a site."""
        site = self.state.sites[index]
        if has_launchers(site.spec):
            return
        capacity = site.slots_now + self._prefetch[index]
        site.capacity = (
            capacity if self._binds_late else max(MAX_COMMITTED_RATIO * site.spec.slots, capacity)
        )
        self.run.site_changed(index)

    def on_workflow_added(self, w: WorkflowState) -> None:
        """Late binding begins with the first bag: its tasks are all eligible at once, and the sites
        would take all of them."""
        if w.workflow.bag is not None and not self.state.is_bounded:
            self._limit_capacity()

    def on_load_changed(self, site: int) -> None:
        if self.state.is_bounded:
            self._update(site)

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        if not self.state.is_bounded or outcome.started_s is None or outcome.ended_s is None:
            return
        index = attempt.site
        spec = self.state.sites[index].spec
        if has_launchers(spec):
            return
        elapsed_s = max(0.0, outcome.ended_s - outcome.started_s)
        mean_s = self._runtime_s[index]
        mean_s = elapsed_s if mean_s is None else mean_s + LATEST_WEIGHT * (elapsed_s - mean_s)
        self._runtime_s[index] = mean_s
        prefetch = spec.slots * prefetch_per_slot(_latency_s(spec), mean_s)
        if prefetch != self._prefetch[index]:
            self._prefetch[index] = prefetch
            self._update(index)


def has_launchers(spec: SiteSpec) -> bool:
    """Whether tasks of this site run in launchers."""
    return spec.access is not None and spec.access.dispatch == "launchers"


def _latency_s(spec: SiteSpec) -> float:
    """Assumed time between two attempts in a slot of a site."""
    if spec.has_batch_system:
        return BATCH_LATENCY_S
    return LOCAL_LATENCY_S if spec.access is None else SSH_LATENCY_S
