"""Site health: sites and hosts with repeated failures get no attempts for a while.

The health of a site is a circuit breaker (M. Nygard, Release It!, 2nd ed. 2018, section 5.2). A
site with several failures in a row that are not the fault of tasks is paused. After the pause it is
tried with a single attempt. If this attempt fails, too, the site is paused for twice as long. A
host with failures while other hosts of the same site succeed is named to the site, which avoids it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum

from wfrun.engine.core.capability import Capability, Run
from wfrun.engine.core.state import Attempt, Condition, Phase
from wfrun.engine.events import AttemptStarted, RunStarted
from wfrun.engine.exchange import Cause, Outcome
from wfrun.engine.tasks.attempts import has_inputs
from wfrun.engine.tasks.failures import telling_line

FAILURES_IN_A_ROW = 3
"""Number of failures in a row after which a site is paused, or a host is avoided."""

FIRST_PAUSE_S = 60.0
MAX_PAUSE_S = 3600.0
"""Length of the first pause of a site, and maximum length of a pause, in seconds. Each pause is
twice as long as the one before."""

MAX_PAUSES = 7
"""Maximum number of pauses without a success in between, about two hours in all. After a further
failure the site gets no attempts until the run is resumed. If the option ``retries`` is larger, it
is the limit: a user who allows many retries expects many failures."""

HOST_AVOIDANCE_S = 3600.0
"""Time in seconds for which a host is avoided after its last failure."""

MAX_AVOIDED_HOSTS = 8
"""Maximum number of hosts that a site is asked to avoid."""

QUICK_FAILURE_S = 1.0
"""Maximum time in seconds from the start of an attempt to a *quick* failure: the task has done no
work yet."""

QUICK_FAILURES_IN_A_ROW = 20
"""Number of quick failures in a row that pause a site while another site has fewer. A site on which
tasks fail quickly accepts tasks faster than any healthy site, so that all tasks of a bag could fail
there before other sites have started any."""

_PAUSED_FOR = " (it gets no more for "

_TASK_OR_SITE: frozenset[Cause] = frozenset({"exit", "signal", "launch-failed", "output"})
"""Causes for which the task or the site may be to blame. The site is blamed only for quick
failures."""
_SITE: frozenset[Cause] = frozenset(
    {"staging", "environment", "disk-full", "node", "lost", "refused"}
)
"""Causes for which the site is to blame."""
_NEVER_THE_HOST: frozenset[Cause] = frozenset(
    {"memory", "walltime", "preempted", "expired", "cancelled", "refused"}
)
"""Causes for which a host is never to blame."""


class BreakerPhase(IntEnum):
    """State of the circuit breaker of a site."""

    WATCHED = 0  # gets attempts as usual
    PAUSED = 1  # gets none until its timer fires
    ON_TRIAL = 2  # gets one attempt at a time
    GIVEN_UP = 3  # gets none until the run is resumed


class Breaker:
    """The circuit breaker of a site: its failures since the last success."""

    __slots__ = ("counted_s", "failures", "pause_s", "pauses", "phase", "probe", "reason",
                 "since_s")  # fmt: skip

    def __init__(self) -> None:
        self.phase = BreakerPhase.WATCHED
        self.failures = 0
        """Number of failures since the last pause."""
        self.counted_s: dict[str | None, float] = {}
        """Time of the last counted failure, by host; key None: the host is unknown."""
        self.pauses = 0
        self.pause_s = 0.0
        """Length of the last pause."""
        self.since_s = float("-inf")
        """End of the last pause. Failures of attempts that were placed earlier do not count: they
        belong to the incident that caused the pause."""
        self.probe: str | None = None
        """Key of the open attempt that tries a site on trial; None if there is none."""
        self.reason = ""

    @property
    def admits_attempts(self) -> bool:
        """Whether the site may get an attempt now."""
        if self.phase is BreakerPhase.ON_TRIAL:
            return self.probe is None
        return self.phase is BreakerPhase.WATCHED


class HostStreak:
    """The consecutive failures of a host."""

    __slots__ = ("done_before", "failures", "last_s")

    def __init__(self, done_before: int) -> None:
        self.failures = 0
        self.done_before = done_before
        """Number of attempts that had succeeded at the site before the first of these failures."""
        self.last_s = 0.0


class SiteHealth:
    """The health of one site."""

    __slots__ = ("breaker", "failing_hosts", "good_hosts", "quick_failures")

    def __init__(self) -> None:
        self.breaker: Breaker | None = None
        """The failures since the last success; None if there are none."""
        self.failing_hosts: dict[str, HostStreak] = {}
        self.good_hosts: set[str] = set()
        """Hosts whose last attempt succeeded."""
        self.quick_failures = 0
        """Number of quick failures in a row."""


class Health(Capability):
    """Pauses failing sites, and names hosts to avoid.

    Cost: constant; of a pause, the open attempts.
    """

    name = "health"
    dormant = frozenset({"on_placed", "on_started", "on_absent", "on_left"})
    """These hooks matter only once a site has failed."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.sites = [SiteHealth() for _ in self.state.sites]

    @classmethod
    def is_wanted(cls, run: Run, begun: RunStarted) -> bool:
        """Always: any site may fail."""
        return True

    def timers(self) -> Mapping[str, Callable[..., None]]:
        return {"breaker": self._pause_over, "trial": self._trial_over}

    def on_placed(self, attempt: Attempt) -> None:
        """If the site is on trial, make this attempt its probe."""
        breaker = self.sites[attempt.site].breaker
        if breaker is not None and breaker.phase is BreakerPhase.ON_TRIAL:
            breaker.probe = attempt.key
            self._update_condition(attempt.site)

    def on_started(self, attempt: Attempt, event: AttemptStarted) -> None:
        """If the attempt is the probe of its site, set the timer that ends the trial when the
        attempt has run for as long as the last pause. A long task would otherwise keep the site on
        trial."""
        breaker = self.sites[attempt.site].breaker
        if breaker is not None and breaker.probe == attempt.key:
            self.run.set_timer(_trial_timer(attempt.site), self.state.now_s + breaker.pause_s)

    def on_absent(self, attempt: Attempt) -> None:
        breaker = self.sites[attempt.site].breaker
        if breaker is not None and breaker.probe == attempt.key:
            self.state.timers.pop(_trial_timer(attempt.site), None)

    def on_left(self, attempt: Attempt) -> None:
        breaker = self.sites[attempt.site].breaker
        if breaker is not None and breaker.probe == attempt.key:
            breaker.probe = None
            self.state.timers.pop(_trial_timer(attempt.site), None)
            self._update_condition(attempt.site)

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        """Clear the failures of the site and the host: both work."""
        site, host = self.sites[attempt.site], outcome.host
        site.quick_failures = 0
        if host is not None:
            site.good_hosts.add(host)
            if site.failing_hosts:
                site.failing_hosts.pop(host, None)
        if site.breaker is not None:
            self.on_reopened(attempt.site)

    def on_failed(self, attempt: Attempt, outcome: Outcome) -> None:
        if outcome.cause == "staging" and not has_inputs(self.state, attempt):
            return  # Its inputs vanished, and are copied or made again.
        if outcome.host is not None and outcome.cause not in _NEVER_THE_HOST:
            self._host_failed(attempt.site, outcome.host)
        if outcome.cause in _TASK_OR_SITE:
            self._failed_quickly(attempt, outcome)
        if outcome.cause in _SITE or (
            outcome.cause == "launch-failed" and self._others_succeed(attempt.site)
        ):
            self.on_undelivered(attempt, outcome)

    def on_undelivered(self, attempt: Attempt, outcome: Outcome) -> None:
        """Count a failure that is the fault of the site. Pause the site after `FAILURES_IN_A_ROW`
        failures, or after a single one if the site is on trial or its disk is full."""
        index = attempt.site
        site = self.sites[index]
        if self.state.sites[index].reported is not None:
            return  # The site has reported a problem itself.
        if site.breaker is None:
            site.breaker = self._make_breaker()
        breaker = site.breaker
        if breaker.phase in (BreakerPhase.PAUSED, BreakerPhase.GIVEN_UP):
            return
        if attempt.placed_s < breaker.since_s:
            return  # It belongs to the incident before the pause.
        began_s = attempt.placed_s if attempt.started_s is None else attempt.started_s
        if began_s < breaker.counted_s.get(outcome.host, began_s):
            return  # A single incident may end many attempts.
        breaker.counted_s[outcome.host] = self.state.now_s
        breaker.failures += 1
        on_trial = breaker.phase is BreakerPhase.ON_TRIAL
        if on_trial or outcome.cause == "disk-full" or breaker.failures >= FAILURES_IN_A_ROW:
            self._pause(index, breaker, outcome)

    def _make_breaker(self) -> Breaker:
        if self.dormant:
            self.run.hooks.wake(self)
        return Breaker()

    def on_reopened(self, site: int) -> None:
        """Forget the failures of the site."""
        self.sites[site].breaker = None
        self.state.timers.pop(retry_timer(site), None)
        self.state.timers.pop(_trial_timer(site), None)
        if self.name in self.state.sites[site].conditions:
            self._update_condition(site)

    def _update_condition(self, index: int) -> None:
        """Set the condition of the site by its breaker."""
        breaker = self.sites[index].breaker
        condition = None
        if breaker is not None and breaker.phase is not BreakerPhase.WATCHED:
            condition = Condition(breaker.reason, closes=not breaker.admits_attempts)
        self.run.set_condition(index, self.name, condition)

    # Pauses

    def _failed_quickly(self, attempt: Attempt, outcome: Outcome) -> None:
        """Count a quick failure. After `QUICK_FAILURES_IN_A_ROW` of them, pause the site and
        withdraw its waiting attempts, but only if another site that takes work has fewer quick
        failures. Otherwise the tasks are at fault."""
        lasted_s = (outcome.ended_s or 0.0) - (outcome.started_s or 0.0)
        if lasted_s >= QUICK_FAILURE_S:
            return
        index = attempt.site
        site = self.sites[index]
        site.quick_failures += 1
        if site.quick_failures < QUICK_FAILURES_IN_A_ROW:
            return
        reported = self.state.sites[index].reported
        others = (other for other in range(len(self.sites)) if other != index)
        if not any(
            self.sites[other].quick_failures < QUICK_FAILURES_IN_A_ROW
            and self.state.sites[other].reported is None
            for other in others
        ):
            return
        breaker = site.breaker or self._make_breaker()
        if reported is None and breaker.admits_attempts and attempt.placed_s >= breaker.since_s:
            site.breaker = breaker
            breaker.failures = site.quick_failures
            self._pause(index, breaker, outcome)
            self._withdraw(index)

    def _withdraw(self, index: int) -> None:
        """Withdraw attempts that wait at a failing site, so that other sites get their tasks."""
        self.run.withdraw(
            index,
            [
                attempt
                for attempt in self.state.sites[index].attempts.values()
                if attempt.phase in (Phase.SUBMITTING, Phase.QUEUED)
            ],
        )

    def _pause(self, index: int, breaker: Breaker, outcome: Outcome) -> None:
        """Pause a site, or give it up after too many pauses."""
        breaker.pauses += 1
        breaker.probe = None
        self.state.timers.pop(_trial_timer(index), None)
        first, *rest = (outcome.message or "").strip().splitlines() or [""]
        parts = [first.removesuffix("; the end of its stderr:")] if first else []
        if rest:
            parts.append(telling_line(outcome))
        last = ": ".join([outcome.cause, *parts])
        count = breaker.failures
        what = (
            f"{count} failures in a row, the last by {last}"
            if count > 1
            else f"a failure by {last}"
        )
        breaker.failures = 0
        breaker.counted_s.clear()
        # An environment that has never worked is a mistake in the catalog, which no pause mends.
        if outcome.cause == "environment" and not self.state.sites[index].done:
            breaker.phase = BreakerPhase.GIVEN_UP
            breaker.reason = f"it is given up after {what}"
        elif breaker.pauses > max(MAX_PAUSES, self.state.settings.retries):
            breaker.phase = BreakerPhase.GIVEN_UP
            breaker.reason = f"it is given up after {breaker.pauses - 1} pauses and {what}"
        else:
            breaker.phase = BreakerPhase.PAUSED
            doubled_s = FIRST_PAUSE_S * 2.0 ** min(breaker.pauses - 1, 10)
            breaker.pause_s = min(doubled_s, MAX_PAUSE_S)
            breaker.reason = f"{what}{_PAUSED_FOR}{breaker.pause_s / 60:.0f} min)"
            self.run.set_timer(retry_timer(index), self.state.now_s + breaker.pause_s)
        self._update_condition(index)

    def _pause_over(self, index: int) -> None:
        """Try the site again. Called by the timer of the pause."""
        breaker = self.sites[index].breaker
        if breaker is not None and breaker.phase is BreakerPhase.PAUSED:
            breaker.phase = BreakerPhase.ON_TRIAL
            breaker.since_s = self.state.now_s
            what = breaker.reason.rpartition(_PAUSED_FOR)[0]
            breaker.reason = f"it is tried with one attempt at a time after {what}"
            self._update_condition(index)

    def _trial_over(self, index: int) -> None:
        """End a trial whose attempt has run for long enough; called by the timer of the trial. The
        site gets attempts as usual. If the site is paused again before a task succeeds there, the
        new pause is twice as long as the last one."""
        breaker = self.sites[index].breaker
        if breaker is not None and breaker.phase is BreakerPhase.ON_TRIAL:
            breaker.phase = BreakerPhase.WATCHED
            breaker.probe = None
            breaker.failures = 0
            breaker.counted_s.clear()
            self._update_condition(index)

    def _others_succeed(self, index: int) -> bool:
        """Whether an attempt has succeeded at another site."""
        return any(site.done for other, site in enumerate(self.state.sites) if other != index)

    # Hosts

    def _host_failed(self, index: int, host: str) -> None:
        site = self.sites[index]
        site.good_hosts.discard(host)
        streak = site.failing_hosts.get(host)
        if streak is None:
            streak = site.failing_hosts[host] = HostStreak(self.state.sites[index].done)
        streak.failures += 1
        streak.last_s = self.state.now_s

    def avoided_hosts(self, index: int) -> tuple[str, ...]:
        """Hosts to avoid, the latest failure first: hosts that failed `FAILURES_IN_A_ROW` times
        while attempts at other hosts of the site succeeded. There are never more of them than hosts
        whose last attempt succeeded, so that a site always has hosts left."""
        site, state = self.sites[index], self.state
        if not site.failing_hosts:
            return ()
        bad = [
            (-streak.last_s, host)
            for host, streak in site.failing_hosts.items()
            if streak.failures >= FAILURES_IN_A_ROW
            and state.sites[index].done > streak.done_before
            and state.now_s < streak.last_s + HOST_AVOIDANCE_S
        ]
        most = min(MAX_AVOIDED_HOSTS, len(site.good_hosts))
        return tuple(host for _, host in sorted(bad)[:most])


def retry_timer(index: int) -> str:
    """The timer that runs until a paused site is tried again."""
    return f"breaker:{index}"


def _trial_timer(index: int) -> str:
    return f"trial:{index}"
