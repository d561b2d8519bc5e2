"""The launchers of a run, from request to end, and the slots and capacity of sites that follow from
them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.capabilities.estimates.walltimes import Walltimes
from wfrun.engine.capabilities.health import (
    FAILURES_IN_A_ROW,
    FIRST_PAUSE_S,
    MAX_PAUSE_S,
    MAX_PAUSES,
)
from wfrun.engine.capabilities.launchers.pool import Launcher, LauncherPhase, LauncherPool
from wfrun.engine.capabilities.launchers.runtimes import RuntimeEstimates
from wfrun.engine.core.actions import FindLaunchers, StartLaunchers, StopLaunchers
from wfrun.engine.core.capability import Capability, Run
from wfrun.engine.core.state import Attempt, Condition, RunState, WorkflowState
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import Workflow
from wfrun.engine.tasks.attempts import take_back
from wfrun.engine.tasks.bag import tasks_of

RECONNECT_TIMEOUT_S = 120.0
"""Maximum time in seconds that a resumed engine waits for launchers of the previous engine to
reconnect. Then the engine requests other launchers."""

EXPIRED_GROWTH = 1.5
"""Minimum ratio of the expected run time of a task to the time that it had run when the walltime of
an earlier launcher cut it off."""

MAX_WALLTIME_SHARE = 0.75
"""Maximum expected run time of a task as a share of a launcher's walltime, unless the task has run
longer. Otherwise a wrong estimate could keep every launcher from starting the task."""

_WHY: dict[ev.StopCause, str] = {
    "unneeded": "no work waits for it",
    "local": "jobs of others get its processors",
    "shared": "another owner gets its processors",
    "late": "it has waited too long in the queue",
}


class Launchers(Capability):
    """Keeps the launchers of each site, and the attempts in them.

    Cost: constant; of an event about a launcher, the launchers of its site, whose number the
    catalog limits.
    """

    name = "launchers"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.pools: dict[int, LauncherPool] = {}
        """Launchers by site; sites without launchers are absent."""
        self.runtimes = RuntimeEstimates()
        self._ran_s: dict[tuple[int, int], float] = {}
        """By (workflow, task) of tasks that were cut off when the walltime of their launcher ended:
        longest time in seconds that the task had run."""
        self._unlocated: set[str] = set()
        """Keys of attempts whose launcher is unknown: the previous engine gave them to a launcher,
        and this engine has no report of their start."""
        for index, site in enumerate(self.state.sites):
            access = site.spec.access
            if access is not None and access.launchers is not None and site.spec.has_launchers:
                settings = self.state.settings
                pulls = settings.pack is not None or settings.scavenge is not None
                self.pools[index] = LauncherPool(access.launchers, prefetches=not pulls)
                self._update_site(index)

    def take_over(self, before: Launchers) -> None:
        """Keep the launchers and the attempts in them. At a site that left the catalog, no minimum
        number of launchers is kept any more."""
        self.runtimes, self._unlocated = before.runtimes, before._unlocated
        self._ran_s = before._ran_s
        for index, pool in before.pools.items():
            spec = self.pools[index].spec
            # No launcher waits for work at a site that gets none.
            has_left = self.state.left >> index & 1
            pool.spec = msgspec.structs.replace(spec, min=0) if has_left else spec
            self.pools[index] = pool
            self._changed(index)

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        return any(spec.has_launchers for spec in begun.sites)

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
        return {"away": self._give_up_reconnection}

    def on_workflow_added(self, w: WorkflowState) -> None:
        self.runtimes.expect_at_least(_longest_s(w.workflow))

    # Launchers

    def _asked(self, event: ev.LaunchersAsked) -> None:
        pool = self.pools[event.site]
        for request in event.launchers:
            pool.launchers[request.key] = Launcher(request, event.at_s)
        pool.made += len(event.launchers)
        pool.refresh()
        if pool.reason is not None:  # The pause is over.
            pool.reason = None
            # The condition closed nothing: no decision depends on its end.
            self.state.sites[event.site].conditions.pop(self.name, None)
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
            return  # It has ended in the meantime.
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
                launcher.reason = _WHY[event.cause]
                if launcher.phase is LauncherPhase.LIVE:
                    launcher.phase = LauncherPhase.DRAINING
        self.run.outbox.append(StopLaunchers(event.site, event.keys, now=event.now))
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
            self._count_useless(pool, event)
        self._changed(event.site)
        if pool.paused_until_s == inf and not pool.launchers:
            take_back(self.run, event.site)  # No launcher will ever start them.

    def _count_useless(self, pool: LauncherPool, event: ev.LauncherEnded) -> None:
        """Count a useless launcher: one that ran nothing although it was not stopped. After
        `FAILURES_IN_A_ROW` useless launchers, or a refused one, requests for launchers at the site
        pause. Each pause is twice as long as the one before, up to a maximum; after `MAX_PAUSES`,
        no launcher is requested until the run is resumed. Launchers that end during a pause do not
        count: they were requested before the pause and fail for the same cause."""
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
            pool.reason = f"{what} ran nothing, the last by {last}; no more are requested"
            return
        pause_s = min(FIRST_PAUSE_S * 2.0 ** (pool.pauses - 1), MAX_PAUSE_S)
        pool.paused_until_s = self.state.now_s + pause_s
        minutes = f"{pause_s / 60:.0f} min"
        pool.reason = f"{what} ran nothing, the last by {last} (no more for {minutes})"

    def on_resumed(self, dismissed: bool) -> None:
        """Look for the launchers of the previous engine. If that engine dismissed its launchers at
        the end of the run, stop them again, and count launchers that had not started as ended."""
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

    def _give_up_reconnection(self, site: int) -> None:
        """Stop waiting for launchers that have not reconnected. Called by a timer. A launcher that
        reconnects later is used again."""
        for launcher in self.pools[site].launchers.values():
            if launcher.phase is LauncherPhase.AWAY:
                launcher.phase = LauncherPhase.DRAINING
                launcher.reason = "it has not reconnected since the engine was restarted"
        self._changed(site)

    def _changed(self, site: int) -> None:
        self.pools[site].refresh()
        self._update_site(site)

    def _update_site(self, index: int) -> None:
        """Set the slots and the capacity of a site by its launchers."""
        pool, site = self.pools[index], self.state.sites[index]
        site.slots = pool.live_slots
        # Attempts in launchers that take no more tasks hold no slots of the live ones.
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
            pool.observe_staging(self.state.now_s - attempt.placed_s)

    def on_active(self, attempt: Attempt) -> None:
        """Note an attempt that its site has, but whose launcher is unknown. Until its start is
        reported, its cores use no slots of the live launchers."""
        pool = self.pools.get(attempt.site)
        if pool is None or attempt.launcher in pool.launchers:
            return
        if attempt.key not in self._unlocated:
            self._unlocated.add(attempt.key)
            pool.unlocated_cores += attempt.cores
            self._update_site(attempt.site)

    def on_started(self, attempt: Attempt, event: ev.AttemptStarted) -> None:
        pool = self.pools.get(attempt.site)
        if pool is None or not event.launcher:
            return
        changed = self._locate(pool, attempt)
        launcher = pool.launchers.get(event.launcher)
        if launcher is not None:
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
        changed = self._locate(pool, attempt)
        launcher = pool.launchers.get(attempt.launcher)
        if launcher is not None:
            changed |= _occupy(pool, launcher, -attempt.cores)
            if launcher.busy_cores == 0:
                launcher.idle_since_s = self.state.now_s
        if changed:
            self._update_site(attempt.site)

    def _locate(self, pool: LauncherPool, attempt: Attempt) -> bool:
        """Note that the launcher of an attempt is known, or no longer matters. Returns whether it
        was unknown before."""
        if attempt.key not in self._unlocated:
            return False
        self._unlocated.discard(attempt.key)
        pool.unlocated_cores -= attempt.cores
        return True

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        """Clear the failures of the site's launchers, and observe the run time of the task."""
        pool = self.pools.get(attempt.site)
        if pool is None:
            return
        pool.failures = pool.pauses = 0
        if pool.paused_until_s <= self.state.now_s:
            pool.reason = None
        launcher = pool.launchers.get(attempt.launcher)
        if launcher is not None:
            launcher.done += 1
        if outcome.started_s is not None and outcome.ended_s is not None:
            elapsed_s = max(0.0, outcome.ended_s - outcome.started_s)
            pool.observe_runtime(elapsed_s)
            speed_ratio = self.state.sites[attempt.site].spec.speed_ratio
            self.runtimes.observe(self._task_kind(attempt), elapsed_s, speed_ratio)
        self._update_site(attempt.site)

    def on_failed(self, attempt: Attempt, outcome: Outcome) -> None:
        """Expect longer run times after a task was cut off by the end of its launcher, so that
        further launchers request longer walltimes."""
        if outcome.cause == "expired":
            ran_s = (outcome.ended_s or 0.0) - (outcome.started_s or 0.0)
            task = attempt.workflow, attempt.task
            self._ran_s[task] = max(ran_s, self._ran_s.get(task, 0.0))
            self.runtimes.expect_at_least(
                2 * ran_s, self.state.sites[attempt.site].spec.speed_ratio
            )

    def _task_kind(self, attempt: Attempt) -> tuple[int, str]:
        w = self.state.workflows[attempt.workflow]
        return w.index, w.workflow.tasks[attempt.task].name

    def expected_s(self, w: WorkflowState, task: int, site: int) -> float | None:
        """Expected run time of a task at a site in seconds, by which launchers decide whether to
        start it; None if unknown.

        The estimate is at most `MAX_WALLTIME_SHARE` of a launcher's walltime: otherwise a wrong
        estimate could keep every launcher from starting the task. It has no maximum for a task that
        has already run for more than this share.
        """
        spec = self.pools[site].spec
        record = w.workflow.tasks[task]
        # The bound, not the mean: a task that ends with its launcher costs more than an idle slot.
        runtime_s = self.state.get(Walltimes).bound_s(w, task, site)
        if runtime_s is not None:
            # The bound may have grown since the launchers were requested.
            asked_s = (x.request.walltime_s for x in self.pools[site].launchers.values())
            longest_s = max(asked_s, default=spec.walltime_s)
            runtime_s = min(runtime_s, MAX_WALLTIME_SHARE * longest_s)
        else:
            speed_ratio = self.state.sites[site].spec.speed_ratio
            kind = w.index, record.name
            runtime_s = self.runtimes.expected_s(kind, record.runtime_s, speed_ratio)
        ran_s = self._ran_s.get((w.index, task))
        if ran_s is not None:
            runtime_s = max(runtime_s or 0.0, EXPIRED_GROWTH * ran_s)
            if ran_s > MAX_WALLTIME_SHARE * spec.walltime_s:
                return runtime_s
        return None if runtime_s is None else min(runtime_s, MAX_WALLTIME_SHARE * spec.walltime_s)


def pool_at(state: RunState, site: int) -> LauncherPool | None:
    """The launchers of a site; None if it has none."""
    launchers = state.find(Launchers)
    return None if launchers is None else launchers.pools.get(site)


def _occupy(pool: LauncherPool, launcher: Launcher, cores: int) -> bool:
    """Add ``cores``, which may be negative, to the busy cores of a launcher. Returns whether this
    changes the room of the site."""
    launcher.busy_cores += cores
    pool.busy_cores += cores
    if launcher.phase is LauncherPhase.LIVE:
        return False
    pool.closed_cores += cores
    return True


def _longest_s(workflow: Workflow) -> float:
    """The longest documented run time of the tasks of a workflow, in seconds; 0 without any."""
    if workflow.bag is not None:
        return max(tasks_of(workflow).runtimes_s() or (0.0,))
    return max((t.runtime_s or 0.0 for t in workflow.tasks), default=0.0)
