"""Sites and hosts that fail one attempt after another get no more of them for a while.

A site with several failures in a row that are no task's fault is paused, tried again with a single
attempt, and paused for twice as long if that fails too: a circuit breaker (M. Nygard, Release It!,
2nd ed. 2018, section 5.2). Hosts of a site that fail what others of its hosts do are named to it,
to be avoided. All of it follows from the log.
"""

from __future__ import annotations

from wfrun.engine.actions import CancelAttempts, SetTimer
from wfrun.engine.records import Cause, Outcome
from wfrun.engine.state import (
    Attempt,
    Breaker,
    BreakerPhase,
    HostStreak,
    Phase,
    RunState,
    SiteState,
)

FAILURES_IN_A_ROW = 3
"""So many, with no success between, pause a site, or make a host one to avoid."""

FIRST_PAUSE_S = 60.0
LONGEST_PAUSE_S = 3600.0
"""Each pause is twice as long as the one before, up to this."""

MAX_PAUSES = 7
"""After so many with no success between, about two hours in all, the site is given up until the
run is resumed. A run with more retries than that has as much patience with its sites."""

HOST_PATIENCE_S = 3600.0
"""A host is avoided for so long after its last failure."""

MAX_AVOIDED_HOSTS = 8

AT_ONCE_S = 1.0
"""A task that fails sooner after its start has done nothing yet."""

AT_ONCE_IN_A_ROW = 20
"""So many of these in a row at one site, and no less good one at another, pause it: it would
otherwise be through with all tasks before others have begun."""

_AT_ONCE: frozenset[Cause] = frozenset({"exit", "signal", "start", "output"})
_ALWAYS: frozenset[Cause] = frozenset({"staging", "storage", "node", "lost", "refused"})
_NOT_THE_HOST: frozenset[Cause] = frozenset(
    {"memory", "walltime", "preempted", "expired", "cancelled", "refused"}
)


def failed(state: RunState, attempt: Attempt, outcome: Outcome) -> None:
    """An attempt of the site ended other than well."""
    site = state.sites[attempt.site]
    if outcome.host is not None and outcome.cause not in _NOT_THE_HOST:
        _host_failed(site, outcome.host, state.now_s)
    if outcome.cause in _AT_ONCE:
        _failed_at_once(state, attempt, site, outcome)
    if outcome.cause in _ALWAYS or (outcome.cause == "start" and _others_do_well(state, site)):
        in_trouble(state, attempt, outcome)


def _failed_at_once(state: RunState, attempt: Attempt, site: SiteState, outcome: Outcome) -> None:
    """Pause a site where everything fails at once, unless that is so everywhere."""
    lasted_s = (outcome.ended_s or 0.0) - (outcome.started_s or 0.0)
    if lasted_s >= AT_ONCE_S:
        return
    site.quick_failures += 1
    if site.quick_failures < AT_ONCE_IN_A_ROW:
        return
    others = (other for other in state.sites if other is not site)
    if not any(s.quick_failures < AT_ONCE_IN_A_ROW and s.reported is None for s in others):
        return
    breaker = site.breaker or Breaker()
    if site.reported is None and breaker.lets_in and attempt.placed_s >= breaker.since_s:
        site.breaker = breaker
        breaker.failures = site.quick_failures
        _pause(state, attempt.site, breaker, outcome)
        _withdraw(state, attempt.site)


def _withdraw(state: RunState, index: int) -> None:
    """What waits there would fail likewise: others are to have it."""
    waiting = [
        attempt
        for attempt in state.attempts.values()
        if attempt.site == index and attempt.phase in (Phase.SUBMITTING, Phase.QUEUED)
    ]
    for attempt in waiting:
        attempt.withdrawn = True
    if waiting:
        keys = tuple(attempt.key for attempt in waiting)
        state.outbox.append(CancelAttempts(index, keys, queued_only=True))


def in_trouble(state: RunState, attempt: Attempt, outcome: Outcome) -> None:
    """This attempt failed, and the site is to blame."""
    index = attempt.site
    site = state.sites[index]
    breaker = site.breaker
    if site.reported is not None:
        return  # it has said itself that it is out of order
    if breaker is None:
        breaker = site.breaker = Breaker()
    if breaker.phase in (BreakerPhase.PAUSED, BreakerPhase.GIVEN_UP):
        return
    if attempt.placed_s < breaker.since_s:
        return  # from before the pause
    began_s = attempt.placed_s if attempt.started_s is None else attempt.started_s
    if began_s < breaker.counted_s.get(outcome.host, began_s):
        return  # one incident ends many attempts
    breaker.counted_s[outcome.host] = state.now_s
    breaker.failures += 1
    on_trial = breaker.phase is BreakerPhase.ON_TRIAL
    if on_trial or outcome.cause == "storage" or breaker.failures >= FAILURES_IN_A_ROW:
        _pause(state, index, breaker, outcome)


def succeeded(state: RunState, index: int, host: str | None) -> None:
    """An attempt of the site is done: the site works, and so does the host."""
    site = state.sites[index]
    if host is not None:
        site.good_hosts.add(host)
        if site.failing_hosts:
            site.failing_hosts.pop(host, None)
    if site.breaker is not None:
        forget(state, index)
        update(state, index)


def forget(state: RunState, index: int) -> None:
    """Think well of a site again."""
    state.sites[index].breaker = None
    state.timers.pop(_pause_timer(index), None)
    state.timers.pop(_trial_timer(index), None)


def update(state: RunState, index: int) -> None:
    """Open or close a site for placements, as what is known of it says."""
    site, bit = state.sites[index], 1 << index
    takes = site.is_well and site.has_room
    if state.bounded:
        state.allocation_due = bool(state.pools)
        state.idle_sites &= ~bit
        state.stocked_sites &= ~bit
        if site.committed_cores < site.slots_now and site.is_well:
            state.idle_sites |= bit
            state.chance = True
        elif takes and (state.pools or site.late):
            state.stocked_sites |= bit
    if not takes:
        state.open_sites &= ~bit
    elif not state.open_sites & bit:
        state.open_sites |= bit
        state.chance = True
        if not state.queues:  # which look for themselves
            state.dirty.update(w.index for w in state.workflows if w.eligible.count)


# The trial of a site that was paused


def placed(state: RunState, attempt: Attempt, breaker: Breaker) -> None:
    """While a site is on trial it gets one attempt at a time."""
    if breaker.phase is BreakerPhase.ON_TRIAL:
        breaker.probe = attempt.key
        update(state, attempt.site)


def started(state: RunState, attempt: Attempt, breaker: Breaker) -> None:
    """A trial need not last as long as its task: running for as long as the pause lasted is
    enough."""
    if breaker.probe == attempt.key:
        timer = _trial_timer(attempt.site)
        state.timers[timer] = state.now_s + breaker.pause_s
        state.outbox.append(SetTimer(timer, state.timers[timer]))


def left(state: RunState, attempt: Attempt, breaker: Breaker) -> None:
    """An attempt is no more at the site, for whatever reason."""
    if breaker.probe == attempt.key:
        breaker.probe = None
        state.timers.pop(_trial_timer(attempt.site), None)
        update(state, attempt.site)


def pause_over(state: RunState, index: int) -> None:
    """The timer of a pause: try the site again."""
    breaker = state.sites[index].breaker
    if breaker is not None and breaker.phase is BreakerPhase.PAUSED:
        breaker.phase = BreakerPhase.ON_TRIAL
        breaker.since_s = state.now_s
        breaker.reason = "it is tried with one attempt at a time after " + breaker.reason
        update(state, index)


def trial_over(state: RunState, index: int) -> None:
    """The timer of a trial: the attempt has run for long enough. A further failure pauses the
    site for longer than before, until a task has succeeded."""
    breaker = state.sites[index].breaker
    if breaker is not None and breaker.phase is BreakerPhase.ON_TRIAL:
        breaker.phase = BreakerPhase.WATCHED
        breaker.probe = None
        breaker.failures = 0
        breaker.counted_s.clear()
        update(state, index)


def _pause(state: RunState, index: int, breaker: Breaker, outcome: Outcome) -> None:
    breaker.pauses += 1
    breaker.probe = None
    text = (outcome.message or "").strip()
    last = f"{outcome.cause}: {text.splitlines()[0]}" if text else outcome.cause
    count = breaker.failures
    what = f"{count} failures in a row, the last by {last}" if count > 1 else f"a failure by {last}"
    breaker.failures = 0
    breaker.counted_s.clear()
    if breaker.pauses > max(MAX_PAUSES, state.settings.retries):
        breaker.phase = BreakerPhase.GIVEN_UP
        breaker.reason = f"it is given up after {breaker.pauses - 1} pauses and {what}"
    else:
        breaker.phase = BreakerPhase.PAUSED
        breaker.pause_s = min(FIRST_PAUSE_S * 2.0 ** min(breaker.pauses - 1, 10), LONGEST_PAUSE_S)
        minutes = f"{breaker.pause_s / 60:.0f} min"
        breaker.reason = f"{what} (it gets no more for {minutes})"
        timer = _pause_timer(index)
        state.timers[timer] = state.now_s + breaker.pause_s
        state.outbox.append(SetTimer(timer, state.timers[timer]))
    update(state, index)


def _pause_timer(index: int) -> str:
    return f"breaker:{index}"


def _trial_timer(index: int) -> str:
    return f"trial:{index}"


def _others_do_well(state: RunState, site: SiteState) -> bool:
    return any(other.done for other in state.sites if other is not site)


# Hosts


def _host_failed(site: SiteState, host: str, now_s: float) -> None:
    site.good_hosts.discard(host)
    streak = site.failing_hosts.get(host)
    if streak is None:
        streak = site.failing_hosts[host] = HostStreak(site.done)
    streak.failures += 1
    streak.last_s = now_s


def avoided_hosts(state: RunState, index: int) -> tuple[str, ...]:
    """Hosts that have failed one attempt after another while others of the site's hosts did well,
    the latest first. Never more than there are hosts that do well."""
    site = state.sites[index]
    bad = [
        (-streak.last_s, host)
        for host, streak in site.failing_hosts.items()
        if streak.failures >= FAILURES_IN_A_ROW
        and site.done > streak.done_before
        and state.now_s < streak.last_s + HOST_PATIENCE_S
    ]
    most = min(MAX_AVOIDED_HOSTS, len(site.good_hosts))
    return tuple(host for _, host in sorted(bad)[:most])
