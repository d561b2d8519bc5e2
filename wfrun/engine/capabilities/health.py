"""Sites and hosts that fail one attempt after another get no more of them for a while.

A site with several failures in a row that are no task's fault is paused, tried again with a single
attempt, and paused for twice as long if that fails too: a circuit breaker (M. Nygard, Release It!,
2nd ed. 2018, section 5.2). Hosts of a site that fail what others of its hosts do are named to it,
to be avoided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum

from wfrun.engine.capability import Capability, Run
from wfrun.engine.events import AttemptStarted
from wfrun.engine.exchange import Cause, Outcome
from wfrun.engine.state import Attempt, Condition, Phase

FAILURES_IN_A_ROW = 3
"""Number of failures with no success between that pause a site, or make a host one to avoid."""

FIRST_PAUSE_S = 60.0
MAX_PAUSE_S = 3600.0
"""Each pause is twice as long as the one before, up to this."""

MAX_PAUSES = 7
"""Number of pauses with no success between, about two hours in all, after which the site is given
up until the run is resumed. A run with more retries has as much patience with its sites."""

HOST_AVOIDANCE_S = 3600.0
"""Time for which a host is avoided after its last failure."""

MAX_AVOIDED_HOSTS = 8

QUICK_FAILURE_S = 1.0
"""A task that fails sooner after its start has done nothing yet."""

QUICK_FAILURES_IN_A_ROW = 20
"""Number of such failures in a row that pause a site while another has fewer: it would otherwise
be through with all tasks before others have begun."""

_TASK_OR_SITE: frozenset[Cause] = frozenset({"exit", "signal", "start", "output"})
_SITE: frozenset[Cause] = frozenset({"staging", "storage", "node", "lost", "refused"})
_NEVER_THE_HOST: frozenset[Cause] = frozenset(
    {"memory", "walltime", "preempted", "expired", "cancelled", "refused"}
)


class BreakerPhase(IntEnum):
    """Whether a site that has failed gets attempts."""

    WATCHED = 0  # as many as ever
    PAUSED = 1  # none until its timer fires
    ON_TRIAL = 2  # one at a time
    GIVEN_UP = 3  # none until the run is resumed


class Breaker:
    """The failures of a site in a row, since its last success."""

    __slots__ = ("counted_s", "failures", "pause_s", "pauses", "phase", "probe", "reason",
                 "since_s")  # fmt: skip

    def __init__(self) -> None:
        self.phase = BreakerPhase.WATCHED
        self.failures = 0
        """Failures since the last pause."""
        self.counted_s: dict[str | None, float] = {}
        """When the last of them was, by host."""
        self.pauses = 0
        self.pause_s = 0.0
        """How long the last one was."""
        self.since_s = float("-inf")
        """Only attempts placed since then count."""
        self.probe: str | None = None
        """The one attempt of a trial."""
        self.reason = ""

    @property
    def admits_attempts(self) -> bool:
        """Whether the site may get an attempt now."""
        if self.phase is BreakerPhase.ON_TRIAL:
            return self.probe is None
        return self.phase is BreakerPhase.WATCHED


class HostStreak:
    """Failures of one host in a row."""

    __slots__ = ("done_before", "failures", "last_s")

    def __init__(self, done_before: int) -> None:
        self.failures = 0
        self.done_before = done_before
        """Attempts that the site had done when they began."""
        self.last_s = 0.0


class SiteHealth:
    """What is known of the health of one site."""

    __slots__ = ("breaker", "failing_hosts", "good_hosts", "quick_failures")

    def __init__(self) -> None:
        self.breaker: Breaker | None = None
        """None: nothing is held against the site."""
        self.failing_hosts: dict[str, HostStreak] = {}
        self.good_hosts: set[str] = set()
        """Hosts whose last attempt was done."""
        self.quick_failures = 0
        """Attempts in a row that failed as soon as they had started."""


class Health(Capability):
    """Pauses sites that fail, and names hosts to avoid.

    Cost: constant; of a pause, the attempts that are open.
    """

    name = "health"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.sites = [SiteHealth() for _ in self.state.sites]

    def timers(self) -> Mapping[str, Callable[..., None]]:
        return {"breaker": self._pause_over, "trial": self._trial_over}

    def on_placed(self, attempt: Attempt) -> None:
        """While a site is on trial it gets one attempt at a time."""
        breaker = self.sites[attempt.site].breaker
        if breaker is not None and breaker.phase is BreakerPhase.ON_TRIAL:
            breaker.probe = attempt.key
            self._tell(attempt.site)

    def on_started(self, attempt: Attempt, event: AttemptStarted) -> None:
        """A trial need not last as long as its task: running for as long as the pause lasted is
        enough."""
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
            self._tell(attempt.site)

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        """The site works, and so does the host."""
        site, host = self.sites[attempt.site], outcome.host
        site.quick_failures = 0
        if host is not None:
            site.good_hosts.add(host)
            if site.failing_hosts:
                site.failing_hosts.pop(host, None)
        if site.breaker is not None:
            self.on_reopened(attempt.site)

    def on_failed(self, attempt: Attempt, outcome: Outcome) -> None:
        if outcome.host is not None and outcome.cause not in _NEVER_THE_HOST:
            self._host_failed(attempt.site, outcome.host)
        if outcome.cause in _TASK_OR_SITE:
            self._failed_at_once(attempt, outcome)
        if outcome.cause in _SITE or (
            outcome.cause == "start" and self._others_succeed(attempt.site)
        ):
            self.on_undelivered(attempt, outcome)

    def on_undelivered(self, attempt: Attempt, outcome: Outcome) -> None:
        """This attempt failed, and the site is to blame."""
        index = attempt.site
        site = self.sites[index]
        if self.state.sites[index].reported is not None:
            return  # it has said itself that it is out of order
        if site.breaker is None:
            site.breaker = Breaker()
        breaker = site.breaker
        if breaker.phase in (BreakerPhase.PAUSED, BreakerPhase.GIVEN_UP):
            return
        if attempt.placed_s < breaker.since_s:
            return  # from before the pause
        began_s = attempt.placed_s if attempt.started_s is None else attempt.started_s
        if began_s < breaker.counted_s.get(outcome.host, began_s):
            return  # one incident ends many attempts
        breaker.counted_s[outcome.host] = self.state.now_s
        breaker.failures += 1
        on_trial = breaker.phase is BreakerPhase.ON_TRIAL
        if on_trial or outcome.cause == "storage" or breaker.failures >= FAILURES_IN_A_ROW:
            self._pause(index, breaker, outcome)

    def on_reopened(self, site: int) -> None:
        """What was held against the site is void."""
        self.sites[site].breaker = None
        self.state.timers.pop(_pause_timer(site), None)
        self.state.timers.pop(_trial_timer(site), None)
        if self.name in self.state.sites[site].conditions:
            self._tell(site)

    def _tell(self, index: int) -> None:
        """Let the site be open or closed, as its breaker says."""
        breaker = self.sites[index].breaker
        condition = None
        if breaker is not None and breaker.phase is not BreakerPhase.WATCHED:
            condition = Condition(breaker.reason, closes=not breaker.admits_attempts)
        self.run.set_condition(index, self.name, condition)

    # Pauses

    def _failed_at_once(self, attempt: Attempt, outcome: Outcome) -> None:
        """Pause a site where everything fails at once, unless that is so everywhere."""
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
        breaker = site.breaker or Breaker()
        if reported is None and breaker.admits_attempts and attempt.placed_s >= breaker.since_s:
            site.breaker = breaker
            breaker.failures = site.quick_failures
            self._pause(index, breaker, outcome)
            self._withdraw(index)

    def _withdraw(self, index: int) -> None:
        """Withdraw what waits at a failing site, so that other sites get it."""
        self.run.withdraw(
            index,
            [
                attempt
                for attempt in self.state.attempts.values()
                if attempt.site == index and attempt.phase in (Phase.SUBMITTING, Phase.QUEUED)
            ],
        )

    def _pause(self, index: int, breaker: Breaker, outcome: Outcome) -> None:
        breaker.pauses += 1
        breaker.probe = None
        self.state.timers.pop(_trial_timer(index), None)
        text = (outcome.message or "").strip()
        last = f"{outcome.cause}: {text.splitlines()[0]}" if text else outcome.cause
        count = breaker.failures
        what = (
            f"{count} failures in a row, the last by {last}"
            if count > 1
            else f"a failure by {last}"
        )
        breaker.failures = 0
        breaker.counted_s.clear()
        if breaker.pauses > max(MAX_PAUSES, self.state.settings.retries):
            breaker.phase = BreakerPhase.GIVEN_UP
            breaker.reason = f"it is given up after {breaker.pauses - 1} pauses and {what}"
        else:
            breaker.phase = BreakerPhase.PAUSED
            doubled_s = FIRST_PAUSE_S * 2.0 ** min(breaker.pauses - 1, 10)
            breaker.pause_s = min(doubled_s, MAX_PAUSE_S)
            breaker.reason = f"{what} (it gets no more for {breaker.pause_s / 60:.0f} min)"
            self.run.set_timer(_pause_timer(index), self.state.now_s + breaker.pause_s)
        self._tell(index)

    def _pause_over(self, index: int) -> None:
        """The timer of a pause: try the site again."""
        breaker = self.sites[index].breaker
        if breaker is not None and breaker.phase is BreakerPhase.PAUSED:
            breaker.phase = BreakerPhase.ON_TRIAL
            breaker.since_s = self.state.now_s
            breaker.reason = "it is tried with one attempt at a time after " + breaker.reason
            self._tell(index)

    def _trial_over(self, index: int) -> None:
        """The timer of a trial: the attempt has run for long enough. A further failure pauses the
        site for longer than before, until a task has succeeded."""
        breaker = self.sites[index].breaker
        if breaker is not None and breaker.phase is BreakerPhase.ON_TRIAL:
            breaker.phase = BreakerPhase.WATCHED
            breaker.probe = None
            breaker.failures = 0
            breaker.counted_s.clear()
            self._tell(index)

    def _others_succeed(self, index: int) -> bool:
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
        """Hosts that have failed one attempt after another while others of the site's hosts
        succeeded, the latest first. Never more than there are hosts that succeed."""
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


def _pause_timer(index: int) -> str:
    return f"breaker:{index}"


def _trial_timer(index: int) -> str:
    return f"trial:{index}"
