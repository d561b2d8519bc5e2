"""The launchers of a run: asked for, queued, started, ended, and what follows for their sites."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from wfrun.engine import events as ev
from wfrun.engine.actions import FindLaunchers, StartLaunchers, StopLaunchers
from wfrun.engine.bag import tasks_of
from wfrun.engine.capabilities.binding import has_launchers
from wfrun.engine.capabilities.health import (
    FAILURES_IN_A_ROW,
    FIRST_PAUSE_S,
    MAX_PAUSE_S,
    MAX_PAUSES,
)
from wfrun.engine.capabilities.launchers.pool import Launcher, LauncherPhase, LauncherPool
from wfrun.engine.capabilities.launchers.runtimes import RuntimeEstimates
from wfrun.engine.capability import Capability, Run
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import LauncherSpec, SiteSpec, Workflow
from wfrun.engine.state import Attempt, Condition, RunState, WorkflowState

RECONNECT_TIMEOUT_S = 120.0
"""Maximum time that a launcher of the engine before is waited for; then others are asked for."""

EXPIRED_GROWTH = 1.5
"""A task whose launcher's time was over before it had ended is expected to take this times what it
ran."""

MAX_WALLTIME_SHARE = 0.75
"""A task is expected to take no more of a launcher's whole time than this, unless it has."""


class Launchers(Capability):
    """Knows the launchers of each site and the attempts in them.

    Cost: constant; of an event about a launcher, the launchers of its site, which the catalog
    bounds.
    """

    name = "launchers"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.pools: dict[int, LauncherPool] = {}
        """By site; sites without launchers have none."""
        self.runtimes = RuntimeEstimates()
        self._unclear: set[str] = set()
        """Attempts that the engine before gave to some launcher, and that have not started as far
        as is known."""
        for index, site in enumerate(self.state.sites):
            access = site.spec.access
            if access is not None and access.launchers is not None and has_launchers(site.spec):
                self.pools[index] = LauncherPool(access.launchers)
                site.is_provisioned = True
                self._update_site(index)

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        return any(has_launchers(spec) for spec in begun.sites)

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return {
            ev.LaunchersAsked: self._asked,
            ev.LaunchersSubmitted: self._submitted,
            ev.LauncherStarted: self._started,
            ev.LauncherDraining: self._draining,
            ev.LaunchersStopped: self._stopped,
            ev.LauncherEnded: self._ended,
        }

    def timers(self) -> Mapping[str, Callable[..., None]]:
        return {"away": self._stayed_away}

    def on_workflow_added(self, w: WorkflowState) -> None:
        self.runtimes.foresee(_longest_s(w.workflow))

    # Launchers

    def _asked(self, event: ev.LaunchersAsked) -> None:
        pool = self.pools[event.site]
        for request in event.launchers:
            pool.launchers[request.key] = Launcher(request, event.at_s)
        pool.made += len(event.launchers)
        pool.refresh()
        self.run.outbox.append(StartLaunchers(event.site, event.launchers))

    def _submitted(self, event: ev.LaunchersSubmitted) -> None:
        launchers = self.pools[event.site].launchers
        for key in event.keys:
            launcher = launchers.get(key)
            if launcher is not None and launcher.phase is LauncherPhase.ASKED:
                launcher.phase = LauncherPhase.QUEUED
                launcher.queued_s = event.at_s

    def _started(self, event: ev.LauncherStarted) -> None:
        pool = self.pools[event.site]
        launcher = pool.launchers.get(event.key)
        if launcher is None:
            return  # it has ended meanwhile
        if launcher.started_s is None:
            launcher.started_s = launcher.idle_since_s = event.at_s
            since_s = launcher.asked_s if launcher.queued_s is None else launcher.queued_s
            pool.waits.observe(event.at_s - since_s)
        launcher.host, launcher.slots, launcher.ends_s = event.host, event.slots, event.ends_s
        launcher.channel, launcher.latency_s = event.channel, event.latency_s
        launcher.phase = LauncherPhase.DRAINING if launcher.stopped else LauncherPhase.LIVE
        launcher.reason = None
        self._changed(event.site)

    def _draining(self, event: ev.LauncherDraining) -> None:
        launcher = self.pools[event.site].launchers.get(event.key)
        if launcher is not None and launcher.started_s is not None:
            launcher.phase = LauncherPhase.DRAINING
            launcher.reason = event.reason
            self._changed(event.site)

    def _stopped(self, event: ev.LaunchersStopped) -> None:
        launchers = self.pools[event.site].launchers
        for key in event.keys:
            launcher = launchers.get(key)
            if launcher is not None:
                launcher.stopped = True
                launcher.reason = "no work waits for it"
                if launcher.phase is LauncherPhase.LIVE:
                    launcher.phase = LauncherPhase.DRAINING
        self.run.outbox.append(StopLaunchers(event.site, event.keys))
        self._changed(event.site)

    def _ended(self, event: ev.LauncherEnded) -> None:
        pool = self.pools[event.site]
        launcher = pool.launchers.pop(event.key, None)
        if launcher is None:
            return
        launcher.phase = LauncherPhase.ENDED
        launcher.ended_s, launcher.cause, launcher.reason = event.at_s, event.cause, event.message
        pool.ended.append(launcher)
        if not launcher.stopped and not launcher.ran:
            self._was_in_vain(pool, event)
        self._changed(event.site)

    def _was_in_vain(self, pool: LauncherPool, event: ev.LauncherEnded) -> None:
        """It has run nothing, and nobody had told it to end: after some of them in a row no more
        are asked for until a while has passed, twice as long as the last time. Those that were
        asked for before have failed by the same incident."""
        if pool.paused_until_s > self.state.now_s:
            return
        pool.failures += 1
        if pool.failures < FAILURES_IN_A_ROW and event.cause != "refused":
            return
        text = (event.message or "").strip()
        last = f"{event.cause}: {text.splitlines()[0]}" if text else event.cause
        what = "a launcher" if pool.failures == 1 else f"{pool.failures} launchers in a row"
        pool.pauses += 1
        pool.failures = 0
        if pool.pauses > MAX_PAUSES:
            pool.paused_until_s = inf
            pool.reason = f"{what} ran nothing, the last by {last}; no more are asked for"
            return
        pause_s = min(FIRST_PAUSE_S * 2.0 ** (pool.pauses - 1), MAX_PAUSE_S)
        pool.paused_until_s = self.state.now_s + pause_s
        minutes = f"{pause_s / 60:.0f} min"
        pool.reason = f"{what} ran nothing, the last by {last} (no more for {minutes})"

    def on_resumed(self, dismissed: bool) -> None:
        """The launchers of the engine before are looked for. One that has told them all to end can
        count on none, and those that had not started are as good as gone."""
        for site, pool in self.pools.items():
            self._look_for(site, pool, dismissed)
            self._changed(site)

    def _look_for(self, site: int, pool: LauncherPool, dismissed: bool) -> None:
        pool.failures = pool.pauses = 0
        pool.paused_until_s, pool.reason = -inf, None
        keys = tuple(pool.launchers)
        for key in keys:
            launcher = pool.launchers[key]
            if launcher.phase in (LauncherPhase.LIVE, LauncherPhase.DRAINING):
                launcher.phase = LauncherPhase.AWAY
            launcher.stopped = launcher.stopped or dismissed
            if dismissed and launcher.started_s is None:
                launcher.phase = LauncherPhase.ENDED
                launcher.ended_s, launcher.cause = self.state.now_s, "cancelled"
                launcher.reason = "dismissed with the run"
                pool.ended.append(pool.launchers.pop(key))
        if not keys:
            return
        self.run.outbox.append(FindLaunchers(site, keys))
        if dismissed:
            self.run.outbox.append(StopLaunchers(site, keys))
        self.run.set_timer(f"away:{site}", self.state.now_s + RECONNECT_TIMEOUT_S)

    def _stayed_away(self, site: int) -> None:
        """The timer of launchers that nothing was heard of since the last engine: they are not
        waited for any longer, while they stay away."""
        for launcher in self.pools[site].launchers.values():
            if launcher.phase is LauncherPhase.AWAY:
                launcher.phase = LauncherPhase.DRAINING
                launcher.reason = "it has not come back since the last engine"
        self._changed(site)

    def _changed(self, site: int) -> None:
        self.pools[site].refresh()
        self._update_site(site)

    def _update_site(self, index: int) -> None:
        """Give the site the room that its launchers have."""
        pool, site = self.pools[index], self.state.sites[index]
        site.slots = pool.live_slots
        # Attempts in launchers that take no more are no load on the others.
        site.slots_now = pool.live_slots + pool.closed_cores
        site.capacity = pool.capacity
        note = None if pool.reason is None else Condition(pool.reason, closes=False)
        if note != site.conditions.get(self.name):
            self.run.set_condition(index, self.name, note)
        else:
            self.run.site_changed(index)

    # Attempts in launchers

    def on_ready(self, attempt: Attempt) -> None:
        pool = self.pools.get(attempt.site)
        if pool is not None:
            pool.staged(self.state.now_s - attempt.placed_s)

    def on_active(self, attempt: Attempt) -> None:
        """It is at the site, with whichever launcher."""
        pool = self.pools.get(attempt.site)
        if pool is not None and not attempt.launcher and attempt.key not in self._unclear:
            self._unclear.add(attempt.key)
            pool.unclear_cores += attempt.cores
            self._update_site(attempt.site)

    def on_started(self, attempt: Attempt, event: ev.AttemptStarted) -> None:
        pool = self.pools.get(attempt.site)
        if pool is None or not event.launcher:
            return
        changed = self._clear(pool, attempt)
        launcher = pool.launchers.get(event.launcher)
        if launcher is not None:
            attempt.launcher = event.launcher
            changed |= _occupy(pool, launcher, attempt.cores)
            launcher.ran += 1
            launcher.idle_since_s = None
        if changed:
            self._update_site(attempt.site)

    def on_absent(self, attempt: Attempt) -> None:
        self.on_left(attempt)

    def on_left(self, attempt: Attempt) -> None:
        pool = self.pools.get(attempt.site)
        if pool is None:
            return
        changed = self._clear(pool, attempt)
        launcher = pool.launchers.get(attempt.launcher)
        if launcher is not None:
            changed |= _occupy(pool, launcher, -attempt.cores)
            if launcher.busy_cores == 0:
                launcher.idle_since_s = self.state.now_s
        if changed:
            self._update_site(attempt.site)

    def _clear(self, pool: LauncherPool, attempt: Attempt) -> bool:
        """It is known now where the attempt is; whether it was not before."""
        if attempt.key not in self._unclear:
            return False
        self._unclear.discard(attempt.key)
        pool.unclear_cores -= attempt.cores
        return True

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        """Whatever the launchers before have run, those of today are of use."""
        pool = self.pools.get(attempt.site)
        if pool is None:
            return
        pool.failures = pool.pauses = 0
        pool.reason = None
        launcher = pool.launchers.get(attempt.launcher)
        if launcher is not None:
            launcher.done += 1
        if outcome.started_s is not None and outcome.ended_s is not None:
            elapsed_s = max(0.0, outcome.ended_s - outcome.started_s)
            pool.ran(elapsed_s)
            speed_ratio = self.state.sites[attempt.site].spec.speed_ratio
            self.runtimes.observe(self._kind(attempt), elapsed_s, speed_ratio)
        self._update_site(attempt.site)

    def on_failed(self, attempt: Attempt, outcome: Outcome) -> None:
        """One whose launcher's time was over needs a longer one."""
        if outcome.cause == "expired":
            ran_s = (outcome.ended_s or 0.0) - (outcome.started_s or 0.0)
            w = self.state.workflows[attempt.workflow]
            w.ran_s[attempt.task] = max(ran_s, w.ran_s.get(attempt.task, 0.0))
            self.runtimes.foresee(2 * ran_s, self.state.sites[attempt.site].spec.speed_ratio)

    def _kind(self, attempt: Attempt) -> tuple[int, str]:
        w = self.state.workflows[attempt.workflow]
        return w.index, w.workflow.tasks[attempt.task].name

    def expected_s(self, w: WorkflowState, task: int, site: SiteSpec) -> float | None:
        """Expected run time of a task at a site, for its launchers; None: unknown. What may be
        wrong is never taken for longer than one of them lives, or none would ever begin the task;
        what has filled one is."""
        spec = _launcher_spec(site)
        record = w.workflow.tasks[task]
        kind = w.index, record.name
        runtime_s = self.runtimes.expected_s(kind, record.runtime_s, site.speed_ratio)
        ran_s = w.ran_s.get(task)
        if ran_s is not None:
            runtime_s = max(runtime_s or 0.0, EXPIRED_GROWTH * ran_s)
            if ran_s > MAX_WALLTIME_SHARE * spec.walltime_s:
                return runtime_s
        return None if runtime_s is None else min(runtime_s, MAX_WALLTIME_SHARE * spec.walltime_s)


def pool_at(state: RunState, site: int) -> LauncherPool | None:
    """The launchers of a site; None: it has none."""
    launchers = state.find(Launchers)
    return None if launchers is None else launchers.pools.get(site)


def _launcher_spec(site: SiteSpec) -> LauncherSpec:
    assert site.access is not None, "a site with launchers is a cluster"
    assert site.access.launchers is not None, "the catalog has checked it"
    return site.access.launchers


def _occupy(pool: LauncherPool, launcher: Launcher, cores: int) -> bool:
    """Whether the site's room has changed with it."""
    launcher.busy_cores += cores
    pool.busy_cores += cores
    if launcher.phase is LauncherPhase.LIVE:
        return False
    pool.closed_cores += cores
    return True


def _longest_s(workflow: Workflow) -> float:
    if workflow.bag is not None:
        return max(tasks_of(workflow).runtimes_s() or (0.0,))
    return max((t.runtime_s or 0.0 for t in workflow.tasks), default=0.0)
