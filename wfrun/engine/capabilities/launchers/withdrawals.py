"""Withdrawals: attempts that wait at one site are taken back when another one has idle slots."""

from __future__ import annotations

from wfrun.engine.capabilities.launchers.launchers import Launchers
from wfrun.engine.capabilities.launchers.pool import LauncherPool
from wfrun.engine.capability import Capability, Decisions, Run
from wfrun.engine.events import AttemptStarted, AttemptsWithdrawn, RunStarted
from wfrun.engine.state import Attempt, SiteState, TaskStatus

MIN_RUNTIME_RATIO = 4
"""Minimum ratio of the run time of tasks to the time of moving one. Below it, a waiting task would
start at its site before it could start elsewhere."""

MAX_EXAMINED = 256
"""Maximum number of waiting attempts examined at a site, the latest first, since they would wait
longest. Those that fit no idle site are skipped."""


class Withdrawals(Capability):
    """Withdraws attempts that have not started, in runs with launchers, when no eligible task is
    left: eligible tasks can use idle slots without being moved.

    A withdrawal that the site has not answered yet is counted: its cores as taken where slots are
    idle, and as gone at its site. So the same idle slots are never the reason for two withdrawals.

    Cost: constant; of a decision, the number of sites and ``MAX_EXAMINED``.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._pools = self.state.get(Launchers).pools
        self._waiting: list[dict[str, Attempt]] = [{} for _ in self.state.sites]
        """Attempts that the site has and that have not started, by site and key."""
        self._leaving_cores = [0] * len(self.state.sites)
        """Cores of withdrawn attempts that the site has not answered for, by site."""
        self._due = False

    @classmethod
    def is_wanted(cls, run: Run, begun: RunStarted) -> bool:
        return Launchers.is_wanted(run, begun)

    def on_queued(self, attempt: Attempt) -> None:
        if not (attempt.withdrawn or attempt.superseded):
            self._waiting[attempt.site][attempt.key] = attempt
            self._due = self.run.decision_due = True

    def on_withdrawn(self, attempt: Attempt) -> None:
        self._waiting[attempt.site].pop(attempt.key, None)
        self._leaving_cores[attempt.site] += attempt.cores

    def on_started(self, attempt: Attempt, event: AttemptStarted) -> None:
        """A withdrawal came too late."""
        self._settle(attempt)

    def on_left(self, attempt: Attempt) -> None:
        if attempt.started_s is None:
            self._settle(attempt)

    def on_absent(self, attempt: Attempt) -> None:
        """The attempt will be queued again."""
        if attempt.started_s is None:
            self._settle(attempt)

    def _settle(self, attempt: Attempt) -> None:
        if self._waiting[attempt.site].pop(attempt.key, None) is None and attempt.withdrawn:
            self._leaving_cores[attempt.site] -= attempt.cores

    def on_site_changed(self, site: int) -> None:
        self._due = self.run.decision_due = True

    def end_replay(self) -> None:
        """The decisions that follow from the log are in the log."""
        self._due = False

    def decide(self, decisions: Decisions, possible: bool) -> None:
        if not self._due:
            return
        self._due = False
        state = self.state
        if state.counts[TaskStatus.ELIGIBLE]:
            return
        idle = {
            index: cores for index, site in enumerate(state.sites) if (cores := _idle_cores(site))
        }
        room = sum(idle.values()) - sum(self._leaving_cores)
        if room <= 0:
            return
        for index, site in enumerate(state.sites):
            surplus = self._surplus(index, site)
            if surplus <= 0 or room <= 0 or not self._is_worth_it(index, site):
                continue
            # Idle slots of the site itself are no reason: its own waiting attempts get them.
            others = sum(1 << other for other in idle if other != index)
            chosen = self._choose(index, others, min(surplus, room - idle.get(index, 0)))
            if chosen:
                room -= sum(attempt.cores for attempt in chosen)
                keys = tuple(attempt.key for attempt in chosen)
                decisions.take(AttemptsWithdrawn(state.now_s, index, keys))

    def _surplus(self, index: int, site: SiteState) -> int:
        """Cores of attempts at a site beyond what can run there."""
        pool = self._pools.get(index)
        runs = max(site.slots_now, 0 if pool is None else pool.busy_cores)
        return site.committed_cores - self._leaving_cores[index] - runs

    def _is_worth_it(self, index: int, site: SiteState) -> bool:
        """Whether attempts at a site would wait long enough. A site without launchers is judged by
        the run times seen at sites with launchers."""
        pool = self._pools.get(index)
        if not (site.slots_now if pool is None else pool.live_slots):
            return True
        pools: list[LauncherPool] = list(self._pools.values()) if pool is None else [pool]
        return any(
            p.task_s is not None and p.task_s > MIN_RUNTIME_RATIO * (p.latency_s + p.staging_s)
            for p in pools
        )

    def _choose(self, index: int, others: int, room: int) -> list[Attempt]:
        """The latest attempts at a site, as many as others have cores for."""
        chosen = []
        for looked, attempt in enumerate(reversed(self._waiting[index].values())):
            if room <= 0 or looked >= MAX_EXAMINED:
                break
            if attempt.superseded or attempt.cores > room:
                continue
            w = self.state.workflows[attempt.workflow]
            idle = self.state.openings_for(attempt.cores).idle & others
            if idle and self.run.candidates(w, attempt.task, attempt.cores) & idle:
                chosen.append(attempt)
                room -= attempt.cores
        return chosen


def _idle_cores(site: SiteState) -> int:
    return max(0, site.slots_now - site.committed_cores) if site.is_healthy else 0
