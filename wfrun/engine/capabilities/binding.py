"""Late binding at sites without launchers: the limits on their dispatched attempts, in runs with
bags or launchers."""

from __future__ import annotations

from wfrun.engine.core.capability import Part, Run
from wfrun.engine.core.state import Attempt, WorkflowState
from wfrun.engine.exchange import Outcome
from wfrun.engine.fitting.information import Knowledge, uses_queues
from wfrun.engine.model import SiteSpec
from wfrun.engine.policies.placement import placement_class, throttle_of
from wfrun.engine.tasks.pace import Pace

MAX_COMMITTED_RATIO = 2
"""Maximum ratio of the cores of dispatched attempts to the slots of a site, for policies that
assign tasks to queues. Without a limit one site would take all eligible tasks before other sites,
or launchers, have room for them."""

LOCAL_LATENCY_S, SSH_LATENCY_S, BATCH_LATENCY_S = 0.02, 0.2, 10.0
"""Assumed latency in seconds of a site whose latency was not observed yet: of a local site, of a
site over SSH, and of a batch system."""


class Binding(Part):
    """Limits the number of cores of dispatched attempts at each site. For policies that assign
    tasks to free processors, the limit is the slots that other users leave free; for other
    policies, it is `MAX_COMMITTED_RATIO` times the slots. Short tasks are prefetched beyond this
    limit, so that slots do not wait for the engine between two tasks.

    The limit is what makes binding late: tasks that no site has room for stay eligible, and go to
    the site that gets room first.

    Cost: constant; of a resume, the open attempts.
    """

    dormant = frozenset({"on_ended", "on_done"})
    """Hooks that observe the pace of sites. They are dormant only in simulations of a single
    workflow. Real runs display advice that is based on the pace. Among several workflows, a bag may
    arrive late, and it needs the pace that earlier attempts have shown."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        if self.state.own_outputs or self.state.expected != 1:
            self.dormant = frozenset()
        packed = self.state.settings.pack is not None
        self._prefetches = not packed
        self.state.binds_late = packed or placement_class(self.state.settings.policy).binds_late
        self.paces = [Pace(_assumed_latency_s(site.spec)) for site in self.state.sites]
        """The observed pace of each site; nothing is observed at sites with launchers."""
        self.prefetched_cores = [0] * len(self.state.sites)
        """By site: number of cores of attempts to dispatch beyond its slots."""
        self._has_launchers = [site.spec.has_launchers for site in self.state.sites]
        self._uses_paces = False
        """Whether the number of cores to prefetch is kept up to date."""
        if throttle_of(self.state.settings) == "auto":
            self._use_paces()
        information = self.state.information
        if (
            any(self._has_launchers)
            or self.state.queues
            or self.state.binds_late
            or self.state.max_replicas
            or Knowledge.HISTORICAL in (information.processing_speed, information.task_runtime)
        ):
            self._limit_capacity()

    def take_over(self, before: Binding) -> None:
        self.paces[: len(before.paces)] = before.paces

    def _limit_capacity(self) -> None:
        """Limit the capacity of all sites from now on."""
        self.state.is_bounded = True
        if self._prefetches:
            self._use_paces()
        # A policy that estimates queues itself may prefer a queue to idle slots of a slower site.
        estimates_queues = uses_queues(self.state.information) and not self.state.binds_late
        for index, site in enumerate(self.state.sites):
            site.holds_prefetch = any(self._has_launchers) or not estimates_queues
            self._update(index)

    def _use_paces(self) -> None:
        """Keep the number of cores to prefetch up to date from now on."""
        self._uses_paces = True
        if self.dormant:
            self.run.hooks.wake(self)

    def _update(self, index: int) -> None:
        """Recompute the capacity of a site."""
        site = self.state.sites[index]
        if self._has_launchers[index]:
            return
        if not self.state.is_bounded:
            self.run.site_changed(index)
            return
        capacity = site.slots_now + self.prefetched_cores[index]
        site.capacity = (
            capacity
            if self.state.binds_late
            else max(MAX_COMMITTED_RATIO * site.spec.slots, capacity)
        )
        self.run.site_changed(index)

    def on_workflow_added(self, w: WorkflowState) -> None:
        """Begin late binding with the first bag. All tasks of a bag are eligible at once, and the
        first sites would take all of them."""
        if w.workflow.bag is not None and not self.state.is_bounded:
            self._limit_capacity()

    def on_load_changed(self, site: int) -> None:
        if self.state.is_bounded:
            self._update(site)

    def on_resumed(self, dismissed: bool) -> None:
        """Discard observations that the time without an engine has made invalid: whether open
        attempts found idle slots, and the time since the last end."""
        for attempt in self.state.attempts.values():
            attempt.found_idle = False
        for pace in self.paces:
            pace.on_interruption()

    def on_ended(self, attempt: Attempt, outcome: Outcome, core_s: float | None) -> None:
        site = self.state.sites[attempt.site]
        if core_s is not None and self._uses_paces and not self._has_launchers[attempt.site]:
            others_wait = site.committed_cores + attempt.cores > site.slots_now
            self.paces[attempt.site].on_end(
                self.state.now_s, attempt.cores, site.spec.slots, others_wait=others_wait
            )

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        index = attempt.site
        site = self.state.sites[index]
        started_s, ended_s, placed_s = outcome.started_s, outcome.ended_s, attempt.placed_s
        if started_s is None or ended_s is None or self._has_launchers[index]:
            return
        runtime_s = max(0.0, ended_s - started_s)
        overhead_s = max(0.0, self.state.now_s - placed_s - runtime_s)
        staging_s = (attempt.ready_s or placed_s) - placed_s
        pace = self.paces[index]
        pace.on_success(runtime_s, overhead_s, staging_s, found_idle=attempt.found_idle)
        if not self._uses_paces:
            return
        prefetch = pace.prefetched_cores(site.slots_now)
        if prefetch != self.prefetched_cores[index]:
            self.prefetched_cores[index] = prefetch
            self._update(index)


def _assumed_latency_s(spec: SiteSpec) -> float:
    """Latency of a site before one is observed."""
    if spec.has_batch_system:
        return BATCH_LATENCY_S
    return LOCAL_LATENCY_S if spec.access is None else SSH_LATENCY_S
