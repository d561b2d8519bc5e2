"""Withdrawals: attempts that wait at one site are taken back when another site could start them
sooner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, NamedTuple

from wfrun.engine.capabilities.binding import Binding
from wfrun.engine.capabilities.launchers.launchers import Launchers
from wfrun.engine.capabilities.launchers.pool import LauncherPool
from wfrun.engine.core.actions import SetTimer
from wfrun.engine.core.capability import EVERY_HOOK, Capability, Decisions, Run
from wfrun.engine.core.state import Attempt, Phase, SiteState, TaskStatus
from wfrun.engine.events import (
    AttemptStarted,
    AttemptsWithdrawn,
    Event,
    RunResumed,
    RunStarted,
    TimerFired,
    WorkflowAdded,
)
from wfrun.engine.exchange import Outcome
from wfrun.engine.tasks.pace import Pace
from wfrun.engine.tasks.prefetch import MIN_WAIT_RATIO

_TIMER = "withdrawals"

MIN_RUNTIME_RATIO = 4
"""Minimum ratio of the mean run time of tasks to the time that a move takes, at sites with
launchers. Below this ratio, a waiting task would start at its site before it could start
elsewhere."""

MAX_ANSWER_S = 1.0
"""Assumed maximum time in seconds in which a site answers a withdrawal: a command on its head node,
which does not wait for the queue."""

MAX_EXAMINED = 256
"""Maximum number of waiting attempts examined at a site. The latest are examined first, since they
would wait longest."""


class _Surplus(NamedTuple):
    """Attempts at a site that other sites could start sooner."""

    cores: int
    others: int
    """The sites with idle slots that could start them, as a mask."""


_NO_SURPLUS = _Surplus(0, 0)


class Withdrawals(Capability):
    """Withdraws attempts that have not started, in runs whose sites bind late, when no eligible
    task is left: eligible tasks can use idle slots without being moved.

    An attempt is moved if it is expected to wait at least `MIN_WAIT_RATIO` times as long as a move
    takes. At a site without launchers, the expected wait follows from the cores that queue before
    the attempt and the pace of the site. A queue stalls if no attempt has started or ended there
    for `MIN_WAIT_RATIO` times the latency of the site; it is then expected to stall for as long
    again. A stalled site gets no tasks while other sites have room, until an attempt starts or ends
    there. The time that its withdrawn attempts have waited is observed as its latency, so that
    attempts move between stalled sites more and more rarely.

    Until a site answers a withdrawal, the cores of the attempt count as gone at that site and as
    taken from the idle slots elsewhere. So the same idle slots are never the reason for two
    withdrawals.

    Cost: constant; of a decision, the square of the number of sites and ``MAX_EXAMINED``.
    """

    dormant = EVERY_HOOK

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        launchers = self.state.find(Launchers)
        self._pools: Mapping[int, LauncherPool] = {} if launchers is None else launchers.pools
        self._paces = self.state.get(Binding).paces
        count = len(self.state.sites)
        self._waiting: list[dict[str, Attempt]] = [{} for _ in range(count)]
        """Attempts that have been submitted and have not started, by site and key."""
        self._leaving_cores = [0] * count
        """By site: cores of attempts whose withdrawal the site has not answered yet."""
        self._moved_s = [-inf] * count
        """By site: time from which a stall is measured. It is the latest start or end of an attempt
        there, or the time when an attempt began to wait although none waited before."""
        self._stalled = 0
        """Sites from which attempts were withdrawn because their queue stalls; a mask."""
        self._wake_up_s = inf
        """Time of the next decision that no event causes; infinite: none. The log does not record
        it: each engine sets its own timer."""
        self._due = False

    def stalls(self, site: int) -> bool:
        """Whether attempts were withdrawn from a site because its queue stalls, and no attempt has
        started or ended there since."""
        return bool(self._stalled >> site & 1)

    @classmethod
    def is_wanted(cls, run: Run, begun: RunStarted) -> bool:
        """Always: any run may get a bag, which binds late."""
        return True

    def events(self) -> Mapping[type, Callable[[Any], None]]:
        return {
            WorkflowAdded: self._wake,
            RunResumed: self._wake,
            TimerFired: self._timer_fired,
        }

    def _wake(self, event: Event) -> None:
        """Activate all hooks once sites bind late: after a bag was added, or after a change of the
        run. Without late binding, tasks wait where the policy wants them."""
        if not self.dormant or not self.state.is_bounded:
            return
        self.run.hooks.wake(self)
        for attempt in self.state.attempts.values():
            if attempt.started_s is None and attempt.phase is not Phase.STAGING:
                if attempt.withdrawn:
                    self._leaving_cores[attempt.site] += attempt.cores
                else:
                    self._wait(attempt)

    def _timer_fired(self, event: TimerFired) -> None:
        if event.timer == _TIMER:
            self._wake_up_s = inf
            self._due = self.run.decision_due = True

    def on_resumed(self, dismissed: bool) -> None:
        """Measure stalls from now on: nothing was observed while there was no engine, and the
        timers of the previous engine ended with it."""
        self._moved_s = [self.state.now_s] * len(self._moved_s)
        self._wake_up_s = inf
        self._due = self.run.decision_due = True

    def on_ready(self, attempt: Attempt) -> None:
        self._wait(attempt)

    def on_queued(self, attempt: Attempt) -> None:
        if not (attempt.withdrawn or attempt.superseded):
            self._wait(attempt)
            if attempt.site in self._pools:
                self._due = self.run.decision_due = True

    def _wait(self, attempt: Attempt) -> None:
        waiting = self._waiting[attempt.site]
        if not waiting:
            self._moved_s[attempt.site] = self.state.now_s
            self._due = self.run.decision_due = True
        waiting[attempt.key] = attempt

    def on_withdrawn(self, attempt: Attempt) -> None:
        site = attempt.site
        self._waiting[site].pop(attempt.key, None)
        self._leaving_cores[site] += attempt.cores
        if site in self._pools:
            return
        now_s, pace = self.state.now_s, self._paces[site]
        if now_s - self._moved_s[site] > MIN_WAIT_RATIO * pace.latency_s:
            self._stalled |= 1 << site
        if self._stalled >> site & 1:
            pace.on_waited(now_s - attempt.placed_s)

    def on_started(self, attempt: Attempt, event: AttemptStarted) -> None:
        """Note that the attempt no longer waits. If it was being withdrawn, the withdrawal came too
        late."""
        self._settle(attempt)
        self._move(attempt.site)

    def on_ended(self, attempt: Attempt, outcome: Outcome, core_s: float | None) -> None:
        if core_s is not None:
            self._move(attempt.site)

    def _move(self, site: int) -> None:
        """Note that an attempt has started or ended at a site."""
        self._moved_s[site] = self.state.now_s
        if self._stalled >> site & 1:
            self._stalled &= ~(1 << site)
            self.run.placement_possible = True

    def on_left(self, attempt: Attempt) -> None:
        if attempt.started_s is None:
            self._settle(attempt)

    def on_absent(self, attempt: Attempt) -> None:
        """Note that the attempt does not wait at present. It will be queued again."""
        if attempt.started_s is None:
            self._settle(attempt)

    def _settle(self, attempt: Attempt) -> None:
        if self._waiting[attempt.site].pop(attempt.key, None) is None and attempt.withdrawn:
            self._leaving_cores[attempt.site] -= attempt.cores

    def on_site_changed(self, site: int) -> None:
        if any(self._waiting):
            self._due = self.run.decision_due = True

    def limit_candidates(self, w: object, task: int, cores: int, mask: int) -> int:
        """Leave out stalled sites if there are other sites. While no attempt is open, no site is
        left out, since the policy may want only a stalled one."""
        return (mask & ~self._stalled if self.state.attempts else mask) or mask

    def end_replay(self) -> None:
        """Decide nothing: the decisions that follow from the log are in the log."""
        self._due = False

    # Decisions

    def decide(self, decisions: Decisions, possible: bool) -> None:
        if not self._due:
            return
        self._due = False
        state = self.state
        if state.counts[TaskStatus.ELIGIBLE] or not any(self._waiting):
            return
        idle = [
            0 if self._stalled >> index & 1 else _idle_cores(site)
            for index, site in enumerate(state.sites)
        ]
        room = sum(idle) - sum(self._leaving_cores)
        for index, waiting in enumerate(self._waiting):
            if room <= 0:
                return
            if not waiting:
                continue
            surplus = self._surplus(index, idle)
            if surplus.cores <= 0:
                continue
            # Idle slots of the site itself are no reason: its own waiting attempts get them.
            there = sum(cores for i, cores in enumerate(idle) if surplus.others >> i & 1)
            chosen = self._choose(index, surplus, min(surplus.cores, there, room - idle[index]))
            if chosen:
                room -= sum(attempt.cores for attempt in chosen)
                keys = tuple(attempt.key for attempt in chosen)
                decisions.take(AttemptsWithdrawn(state.now_s, index, keys))

    def _surplus(self, index: int, idle: list[int]) -> _Surplus:
        """The attempts that wait at a site and could start sooner at sites with idle slots.
        ``idle``: by site, number of idle cores."""
        site, pool = self.state.sites[index], self._pools.get(index)
        runs = max(site.slots_now, 0 if pool is None else pool.busy_cores)
        behind = site.committed_cores - self._leaving_cores[index] - runs
        if pool is None:
            return self._surplus_of_queue(index, behind, idle)
        if behind <= 0 or not _is_worth_it(pool):
            return _NO_SURPLUS
        return _Surplus(behind, sum(1 << i for i, cores in enumerate(idle) if cores and i != index))

    def _surplus_of_queue(self, index: int, behind: int, idle: list[int]) -> _Surplus:
        """`_surplus` for a site without launchers. ``behind``: cores of attempts that wait there
        for others to end."""
        site, pace = self.state.sites[index], self._paces[index]
        if not site.holds_prefetch:
            return _NO_SURPLUS
        moved_s, latency_s = self._moved_s[index], pace.latency_s
        stalls_s = self.state.now_s - moved_s
        if behind <= 0 and stalls_s <= MIN_WAIT_RATIO * latency_s:
            self._decide_again_at(moved_s + MIN_WAIT_RATIO * latency_s)
            return _NO_SURPLUS
        rate = pace.cores_per_s(site.slots_now)
        most, others, next_s = 0, 0, inf
        for other, idle_cores in enumerate(idle):
            if not idle_cores or other == index:
                continue
            moving_s = self._moving_s(pace, other)
            stall_s = MIN_WAIT_RATIO * max(moving_s, latency_s)
            if stalls_s > stall_s:
                cores = sum(attempt.cores for attempt in self._waiting[index].values())
            else:
                soon = inf if rate is None else rate * MIN_WAIT_RATIO * moving_s
                cores = int(behind - soon) if soon < behind else 0
                next_s = min(next_s, stall_s)
            if cores > 0:
                most, others = max(most, cores), others | 1 << other
        if not others:
            self._decide_again_at(moved_s + next_s)
        return _Surplus(most, others)

    def _moving_s(self, pace: Pace, other: int) -> float:
        """Time from the withdrawal of an attempt at a site of this pace to its start at site
        ``other``."""
        answer_s = min(pace.latency_s, MAX_ANSWER_S)
        pool = self._pools.get(other)
        if pool is not None:
            return answer_s + pool.latency_s + pool.staging_s
        return answer_s + self._paces[other].latency_s

    def _decide_again_at(self, at_s: float) -> None:
        """Set the timer to decide again 1 ms after ``at_s``, unless it is set to an earlier
        time."""
        at_s += 1e-3
        if self.state.now_s < at_s < self._wake_up_s:
            self._wake_up_s = at_s
            self.run.outbox.append(SetTimer(_TIMER, at_s))

    def _choose(self, index: int, surplus: _Surplus, room: int) -> list[Attempt]:
        """Choose the latest waiting attempts at a site that other sites could start, with at most
        ``room`` cores in all."""
        chosen = []
        for looked, attempt in enumerate(reversed(self._waiting[index].values())):
            if room <= 0 or looked >= MAX_EXAMINED:
                break
            if attempt.superseded or attempt.cores > room or self._is_new(attempt):
                continue
            w = self.state.workflows[attempt.workflow]
            idle = self.state.openings_for(attempt.cores).idle & surplus.others
            if idle and self.run.candidates(w, attempt.task, attempt.cores) & idle:
                chosen.append(attempt)
                room -= attempt.cores
        return chosen

    def _is_new(self, attempt: Attempt) -> bool:
        """Whether an attempt is being submitted in the present step."""
        return attempt.phase is Phase.SUBMITTING and attempt.ready_s == self.state.now_s


def _is_worth_it(pool: LauncherPool) -> bool:
    """Whether attempts at a site with launchers would wait long enough to be moved."""
    if not pool.live_slots:
        return True
    moving_s = pool.latency_s + pool.staging_s
    return pool.task_s is not None and pool.task_s > MIN_RUNTIME_RATIO * moving_s


def _idle_cores(site: SiteState) -> int:
    return max(0, site.slots_now - site.committed_cores) if site.is_healthy else 0
