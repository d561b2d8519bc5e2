"""Requests for launchers: how many, how large, for how long and where.

This is late binding: tasks are placed at a site with launchers only while these have room, so the
site whose queue moves first does the work. While eligible tasks wait for room, more launchers are
requested at every site that could run them, because nobody knows which queue moves first. No
launcher is requested if the live launchers will finish the work before the new launcher would
start, as predicted from the last waiting times in that queue. Launchers that no work waits for are
stopped after a timeout. If the policy of a workflow declines a site, no launchers are requested
there for that workflow for some time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, inf
from typing import Any

from wfrun.engine import events as ev
from wfrun.engine.capabilities.estimates.walltimes import Walltimes, rounded_s
from wfrun.engine.capabilities.launchers.demand import Demand
from wfrun.engine.capabilities.launchers.launchers import Launchers
from wfrun.engine.capabilities.launchers.pool import Launcher, LauncherPhase, LauncherPool
from wfrun.engine.capabilities.placements import Placements
from wfrun.engine.core.actions import SetTimer
from wfrun.engine.core.capability import Capability, Decisions, Run
from wfrun.engine.core.state import HELD, Attempt, TaskStatus, WorkflowState
from wfrun.engine.exchange import LauncherRequest

_TIMER = "launchers"

_PLACING = (
    ev.AttemptPlaced, ev.CoresReserved, ev.ReservationDeclined, ev.SitesDeclined, ev.StorageAwaited,
)  # fmt: skip
"""Decisions that precede the decisions about launchers in each step."""

MIN_WALLTIME_S = 300.0
"""Minimum walltime of a launcher in seconds, so that its start and end take a small part of it."""


class Allocation(Capability):
    """Requests launchers, and stops those that no work waits for.

    Cost of an event: the task classes of its workflow, the masks of sites in the demand, and the
    launchers of the sites, whose number the catalog limits.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._placements = self.state.get(Placements)
        self._launchers = self.state.get(Launchers)
        self._pools = self._launchers.pools
        self._demand = Demand(self.state)
        self._unneeded_s: dict[int, float] = {}
        """By site that needs no more launchers: the time since which it needs none."""
        self._declined: dict[int, tuple[int, ...]] = {}
        """By workflow: sites that its policy has declined since the last decision."""
        self._wake_ups: dict[int, float] = {}
        """By site: time of the timer at which to decide again."""
        self._due = False

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        """Not wanted with claims, where all launchers are placeholders, nor with scavenging owners,
        who have launchers of their own."""
        others = begun.settings.place or begun.settings.scavenge
        return Launchers.is_wanted(run, begun) and not others

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return {
            ev.RunResumed: self._resumed,
            ev.TimerFired: self._timer_fired,
            ev.SitesDeclined: self._sites_declined,
        }

    def _sites_declined(self, event: ev.SitesDeclined) -> None:
        self._demand.decline(event.workflow, event.sites)

    def _resumed(self, event: ev.RunResumed) -> None:
        self._wake_ups.clear()  # They were set by the previous engine.
        self._due = self.run.decision_due = True

    def _timer_fired(self, event: ev.TimerFired) -> None:
        kind, _, site = event.timer.partition(":")
        if kind == _TIMER:
            if event.at_s >= self._wake_ups.get(int(site), inf):
                del self._wake_ups[int(site)]
            self._due = self.run.decision_due = True

    def on_eligible(self, w: WorkflowState) -> None:
        self._demand.changed(w.index)
        self._due = self.run.decision_due = True

    def on_placed(self, attempt: Attempt) -> None:
        self._demand.changed(attempt.workflow)
        self._demand.accept(attempt.workflow, attempt.site)
        self._due = self.run.decision_due = True

    def on_left(self, attempt: Attempt) -> None:
        self._demand.changed(attempt.workflow)
        self._due = self.run.decision_due = True

    def on_site_changed(self, site: int) -> None:
        self._due = self.run.decision_due = True

    def on_health_changed(self, site: int) -> None:
        self._demand.health_changed()
        self._due = self.run.decision_due = True

    def on_declined(self, w: WorkflowState, task: int, sites: int) -> None:
        if added := self._demand.not_declined(w.index, sites):
            self._declined[w.index] = self._declined.get(w.index, ()) + added
            self._due = self.run.decision_due = True

    def expects(self) -> bool:
        """Whether a healthy site has launchers that could still get work, or may request launchers
        when a decline or a pause has expired. Unhealthy sites do not count: a timer runs while such
        a site may recover. Wake-up timers do not count either: they may be set for launchers that
        have ended since, and each engine sets its own."""
        if not self.state.open_workflows:
            return False
        sites, now_s = self.state.sites, self.state.now_s
        later = self._demand.refresh() < inf
        return any(
            sites[site].is_healthy
            and (
                pool.launchers
                or later
                or (site not in self._unneeded_s and now_s <= pool.paused_until_s < inf)
            )
            for site, pool in self._pools.items()
        )

    # Decisions

    def decide(self, decisions: Decisions, possible: bool) -> None:
        if not self._due:
            return
        self._due = False
        self._ask_expired_declines()
        for workflow, sites in self._declined.items():
            declined = tuple(sorted(set(sites)))
            decisions.take(ev.SitesDeclined(self.state.now_s, workflow, declined))
        self._declined.clear()
        work = self._note_need()
        for site, pool in self._pools.items():
            event = self._decide(site, pool, work)
            if event is not None:
                decisions.take(event)
        self._due = False

    def before_replay(self, event: ev.Event) -> None:
        """Note the need for launchers at the same points of the log as the live core did: before
        the first decision about launchers after a fact, or before the next fact. Otherwise a
        resumed core would count the idle time of launchers from another moment, and stop them at
        another time."""
        if not isinstance(event, _PLACING):
            self._note_past_need()

    def end_replay(self) -> None:
        self._note_past_need()
        work = self._find_work()
        for site, pool in self._pools.items():
            self._decide(site, pool, work)  # The decisions are in the log; this sets the wake-ups.

    def _note_past_need(self) -> None:
        """Note the need for launchers at this point of the log."""
        self._demand.expired()  # Sites that were declined again are in the log.
        if self._due:
            self._due = False
            self._note_need()

    def after_replay(self, event: ev.Event) -> None:
        """After a decision about launchers or a withdrawal, decide again only after the next fact,
        as the live core did."""
        if isinstance(event, (ev.LaunchersAsked, ev.LaunchersStopped, ev.AttemptsWithdrawn)):
            self._due = False

    def _ask_expired_declines(self) -> None:
        """Ask policies whether they still decline sites whose decline has expired. The question is
        hypothetical: the policy sees such a site as its only candidate, as if it had room. No
        launcher has to be started to find out."""
        for workflow, site in self._demand.expired():
            w = self.state.workflows[workflow]
            for kind in w.eligible.counts:
                first = w.eligible.first_of(kind)
                if first is not None and kind.mask >> site & 1:
                    self.run.hypothetical = w, first[2], 1 << site
                    answer = self._placements.by_workflow[workflow].place(first[2])
                    self.run.hypothetical = None
                    if answer is None:
                        self._declined[workflow] = (*self._declined.get(workflow, ()), site)
                    break

    def _note_need(self) -> dict[int, int]:
        """Note which sites need no more launchers, and since when. Returns the cores of the work
        that waits for each site."""
        work = self._find_work()
        for site, pool in self._pools.items():
            if self._missing_cores(pool, work[site]) > 0 or len(pool.launchers) < pool.spec.min:
                self._unneeded_s.pop(site, None)
            else:
                self._unneeded_s.setdefault(site, self.state.now_s)
        return work

    def _find_work(self) -> dict[int, int]:
        """By site: number of cores of the work that waits for it. Sets the timer for the next
        expiry of a decline."""
        next_s = self._demand.refresh()
        if next_s < inf:
            for site in self._pools:
                self._decide_again_at(site, next_s)
        return {site: self._waiting_cores(site, pool) for site, pool in self._pools.items()}

    def _missing_cores(self, pool: LauncherPool, work: int) -> int:
        """Number of cores of the waiting work beyond the free slots of live launchers. If the free
        slots seem to suffice, slots whose launcher ends too early for another task are not counted
        as free."""
        missing = work - max(0, pool.live_slots + pool.closed_cores - pool.busy_cores)
        if work > 0 and missing <= 0:
            missing += _slots_without_time(pool, self.state.now_s)
        return missing

    def _decide(self, site: int, pool: LauncherPool, work: dict[int, int]) -> ev.Event | None:
        since_s = self._unneeded_s.get(site)
        if since_s is None:
            return self._request_launchers(site, pool, self._missing_cores(pool, work[site]), work)
        return self._stop_launchers(site, pool, since_s, idle=work[site] == 0)

    def _waiting_cores(self, site: int, pool: LauncherPool) -> int:
        """Cores of the work that waits for a site: eligible tasks that it could run, as far as
        policy and throttle allow, and attempts there that have not started."""
        there = self.state.sites[site].committed_cores - pool.busy_cores
        return there + self._demand.at(site)

    def _request_launchers(
        self, index: int, pool: LauncherPool, missing: int, work: dict[int, int]
    ) -> ev.Event | None:
        """Decide to request launchers for the missing cores, within the limits of the catalog."""
        site, spec, now_s = self.state.sites[index], pool.spec, self.state.now_s
        if pool.paused_until_s > now_s:
            self._decide_again_at(index, pool.paused_until_s)
            return None
        if not site.is_healthy:
            # Attempts that are there already, such as the one of a trial, still need launchers.
            missing = site.committed_cores - pool.busy_cores - pool.live_slots
            # Those at a site that gets no more are being withdrawn.
            is_over = self.state.left >> index & 1 or HELD in site.conditions
            if site.reported is not None or missing <= 0 or is_over:
                return None
        # The backlog is limited because a queue that does not move now may not move later either.
        most = min(spec.backlog - pool.queued, spec.max - len(pool.launchers))
        wanted = spec.min - len(pool.launchers)
        if most <= 0 or (missing <= pool.coming_slots and wanted <= 0):
            return None
        # Launchers that are queued or reconnecting will take their share of the missing cores.
        size = spec.cores * spec.nodes
        count = ceil((missing - pool.coming_slots) / size)
        if self._live_slots_suffice(index, pool, work):
            count = 0
        count = min(most, max(count, wanted))
        if count <= 0:
            return None
        slots = size * (len(pool.launchers) + count)
        walltime_s = self._walltime_s(index, pool, work[index], slots)
        requests = tuple(
            LauncherRequest(
                key=f"{self.state.run_id}.L{index}.{pool.made + number}",
                nodes=spec.nodes,
                cores=spec.cores,
                memory_bytes=spec.memory_bytes,
                gpus=spec.gpus,
                walltime_s=walltime_s,
            )
            for number in range(1, count + 1)
        )
        return ev.LaunchersAsked(now_s, index, requests)

    def _live_slots_suffice(self, site: int, pool: LauncherPool, work: dict[int, int]) -> bool:
        """Whether the work that waits for ``site`` will be done before a launcher requested there
        now would start. The live slots of all sites that may run all of this work are assumed to do
        it."""
        wait_s = pool.waits.predict()
        tasks_s = [p.task_s for p in self._pools.values() if p.task_s is not None]
        if wait_s is None or not tasks_s:
            return False
        helpers = self._demand.helpers(site)
        slots = sum(
            p.live_slots for other, p in self._pools.items() if work[other] and helpers >> other & 1
        )
        return bool(slots) and work[site] * max(tasks_s) / slots < wait_s

    def _walltime_s(self, index: int, pool: LauncherPool, work: int, slots: int) -> float:
        """Walltime in seconds to request for a launcher: twice the sum of the expected time of the
        work on ``slots`` slots and the run time of the longest task. It is not longer, because
        short jobs start sooner. Run times are learned from earlier runs and this one, or else
        observed in this run only. If no run time is known, the walltime is the maximum of the
        catalog."""
        learned = self.state.get(Walltimes).work_at(index)
        if learned.core_s is not None:
            wanted_s = rounded_s(2 * (learned.core_s / slots + learned.longest_s))
        else:
            longest_s = self._launchers.runtimes.longest_s
            if pool.task_s is None or longest_s is None:
                return pool.spec.walltime_s
            # No launcher starts a task whose bound exceeds its time.
            speed_ratio = self.state.sites[index].spec.speed_ratio
            longest_s = max(longest_s / speed_ratio, learned.longest_s)
            waiting = self.state.counts[TaskStatus.WAITING]
            wanted_s = 2 * ((work + waiting) * pool.task_s / slots + longest_s)
        return min(pool.spec.walltime_s, max(MIN_WALLTIME_S, wanted_s))

    def _stop_launchers(
        self, site: int, pool: LauncherPool, since_s: float, *, idle: bool
    ) -> ev.Event | None:
        """Decide to stop launchers that have been useless for ``idle_timeout_s``, queued ones
        first. The minimum number of launchers is kept."""
        now_s, timeout_s = self.state.now_s, pool.spec.idle_timeout_s
        there = [(key, x) for key, x in reversed(pool.launchers.items()) if not x.stopped]
        spare = len(there) - pool.spec.min
        keys: list[str] = []
        next_s = inf
        for key, launcher in sorted(there, key=lambda item: not item[1].is_queued):
            due_s = _useless_since_s(launcher, since_s, idle=idle) + timeout_s
            if due_s > now_s:
                next_s = min(next_s, due_s)
            elif len(keys) < spare:
                keys.append(key)
        self._decide_again_at(site, next_s)
        return ev.LaunchersStopped(now_s, site, tuple(keys)) if keys else None

    def _decide_again_at(self, site: int, at_s: float) -> None:
        """Decide again at this time. The log does not record this, so it is no timer of the state:
        each engine sets its own."""
        if at_s < self._wake_ups.get(site, inf):
            self._wake_ups[site] = at_s
            self.run.outbox.append(SetTimer(f"{_TIMER}:{site}", at_s))


def _slots_without_time(pool: LauncherPool, now_s: float) -> int:
    """Number of free slots in live launchers whose walltime would end before another task of mean
    run time."""
    task_s = pool.task_s
    if task_s is None:
        return 0
    return sum(
        launcher.slots - launcher.busy_cores
        for launcher in pool.launchers.values()
        if launcher.phase is LauncherPhase.LIVE
        and launcher.ends_s is not None
        and launcher.ends_s - now_s < task_s
    )


def _useless_since_s(launcher: Launcher, since_s: float, *, idle: bool) -> float:
    """Time since which a launcher is useless; infinite if it is useful. ``since_s``: time since
    which its site needs no more launchers. ``idle``: whether no work waits for the site."""
    if launcher.is_queued:
        return since_s
    if launcher.phase is LauncherPhase.LIVE and launcher.idle_since_s is not None and idle:
        return launcher.idle_since_s
    return inf
