"""What becomes of launchers: asked for, queued, started, ended, and what follows for their site.

A part of ``wfrun.engine.apply``.
"""

from __future__ import annotations

from math import inf

from wfrun.engine import events as ev
from wfrun.engine.actions import (
    CancelAttempts,
    FindLaunchers,
    SetTimer,
    StartLaunchers,
    StopLaunchers,
)
from wfrun.engine.health import FAILURES_IN_A_ROW, FIRST_PAUSE_S, LONGEST_PAUSE_S, MAX_PAUSES
from wfrun.engine.health import update as update_site
from wfrun.engine.pool import Launcher, LauncherPhase, Pool
from wfrun.engine.records import Outcome
from wfrun.engine.state import Attempt, RunState

RETURN_S = 120.0
"""A launcher of the engine before is expected back for so long; then others are asked for."""


def _pool(state: RunState, site: int) -> Pool:
    pool = state.sites[site].pool
    assert pool is not None, "launchers are asked for at sites that have some"
    return pool


def _changed(state: RunState, site: int) -> None:
    _pool(state, site).refresh()
    update_site(state, site)


def launchers_asked(state: RunState, event: ev.LaunchersAsked) -> None:
    pool = _pool(state, event.site)
    for request in event.launchers:
        pool.launchers[request.key] = Launcher(request, event.at_s)
    pool.made += len(event.launchers)
    pool.refresh()
    state.outbox.append(StartLaunchers(event.site, event.launchers))


def launchers_submitted(state: RunState, event: ev.LaunchersSubmitted) -> None:
    launchers = _pool(state, event.site).launchers
    for key in event.keys:
        launcher = launchers.get(key)
        if launcher is not None and launcher.phase is LauncherPhase.ASKED:
            launcher.phase = LauncherPhase.QUEUED
            launcher.queued_s = event.at_s


def launcher_started(state: RunState, event: ev.LauncherStarted) -> None:
    pool = _pool(state, event.site)
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
    _changed(state, event.site)


def launcher_draining(state: RunState, event: ev.LauncherDraining) -> None:
    launcher = _pool(state, event.site).launchers.get(event.key)
    if launcher is not None and launcher.started_s is not None:
        launcher.phase = LauncherPhase.DRAINING
        launcher.reason = event.reason
        _changed(state, event.site)


def launchers_stopped(state: RunState, event: ev.LaunchersStopped) -> None:
    launchers = _pool(state, event.site).launchers
    for key in event.keys:
        launcher = launchers.get(key)
        if launcher is not None:
            launcher.stopped = True
            launcher.reason = "no work waits for it"
            if launcher.phase is LauncherPhase.LIVE:
                launcher.phase = LauncherPhase.DRAINING
    state.outbox.append(StopLaunchers(event.site, event.keys))
    _changed(state, event.site)


def launcher_ended(state: RunState, event: ev.LauncherEnded) -> None:
    pool = _pool(state, event.site)
    launcher = pool.launchers.pop(event.key, None)
    if launcher is None:
        return
    launcher.phase = LauncherPhase.ENDED
    launcher.ended_s, launcher.cause, launcher.reason = event.at_s, event.cause, event.message
    pool.ended.append(launcher)
    if not launcher.stopped and not launcher.ran:
        _was_in_vain(state, pool, event)
    _changed(state, event.site)


def _was_in_vain(state: RunState, pool: Pool, event: ev.LauncherEnded) -> None:
    """It has run nothing, and nobody had told it to end: after some of them in a row no more are
    asked for until a while has passed, twice as long as the last time. Those that were asked for
    before have failed by the same incident."""
    if pool.paused_until_s > state.now_s:
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
    pause_s = min(FIRST_PAUSE_S * 2.0 ** (pool.pauses - 1), LONGEST_PAUSE_S)
    pool.paused_until_s = state.now_s + pause_s
    pool.reason = f"{what} ran nothing, the last by {last} (no more for {pause_s / 60:.0f} min)"


def attempts_withdrawn(state: RunState, event: ev.AttemptsWithdrawn) -> None:
    for key in event.keys:
        attempt = state.attempts.get(key)
        if attempt is not None:
            attempt.withdrawn = True
    state.outbox.append(CancelAttempts(event.site, event.keys, queued_only=True))


def resumed(state: RunState, site: int, *, dismissed: bool) -> None:
    """A new engine: the launchers of the one before are looked for. ``dismissed``: that has told
    them all to end, so none is counted on, and those that had not started are as good as gone."""
    pool = state.sites[site].pool
    if pool is None:
        return
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
            launcher.ended_s, launcher.cause = state.now_s, "cancelled"
            launcher.reason = "dismissed with the run"
            pool.ended.append(pool.launchers.pop(key))
    if keys:
        state.outbox.append(FindLaunchers(site, keys))
        if dismissed:
            state.outbox.append(StopLaunchers(site, keys))
        timer = f"away:{site}"
        state.timers[timer] = state.now_s + RETURN_S
        state.outbox.append(SetTimer(timer, state.timers[timer]))
    _changed(state, site)


def stayed_away(state: RunState, site: int) -> None:
    """The timer of launchers that have not been heard of since the last engine: they are not
    waited for any longer, as long as they stay away."""
    for launcher in _pool(state, site).launchers.values():
        if launcher.phase is LauncherPhase.AWAY:
            launcher.phase = LauncherPhase.DRAINING
            launcher.reason = "it has not come back since the last engine"
    _changed(state, site)


# Attempts in launchers


def found(pool: Pool, attempt: Attempt, cores: int) -> None:
    """It is at the site, with whichever launcher."""
    if not attempt.launcher and not attempt.unclear:
        attempt.unclear = True
        pool.unclear_cores += cores


def _clear(pool: Pool, attempt: Attempt, cores: int) -> None:
    if attempt.unclear:
        attempt.unclear = False
        pool.unclear_cores -= cores


def started(state: RunState, pool: Pool, attempt: Attempt, cores: int, key: str) -> None:
    _clear(pool, attempt, cores)
    launcher = pool.launchers.get(key)
    if launcher is not None:
        attempt.launcher = key
        _occupy(pool, launcher, cores)
        launcher.ran += 1
        launcher.idle_since_s = None


def _occupy(pool: Pool, launcher: Launcher, cores: int) -> None:
    launcher.busy_cores += cores
    pool.busy_cores += cores
    if launcher.phase is not LauncherPhase.LIVE:
        pool.closed_cores += cores


def left(state: RunState, pool: Pool, attempt: Attempt, cores: int) -> None:
    _clear(pool, attempt, cores)
    launcher = pool.launchers.get(attempt.launcher)
    if launcher is not None:
        _occupy(pool, launcher, -cores)
        if launcher.busy_cores == 0:
            launcher.idle_since_s = state.now_s


def done(pool: Pool, attempt: Attempt, outcome: Outcome) -> None:
    """It succeeded: whatever the launchers before have run, those of today are of use."""
    pool.failures = pool.pauses = 0
    pool.reason = None
    launcher = pool.launchers.get(attempt.launcher)
    if launcher is not None:
        launcher.done += 1
    if outcome.started_s is not None and outcome.ended_s is not None:
        pool.ran(max(0.0, outcome.ended_s - outcome.started_s))
