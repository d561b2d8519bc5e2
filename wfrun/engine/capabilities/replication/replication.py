"""Replicas: further attempts of running tasks, at idle sites.

Stragglers: tasks that run for much longer than others of their class.

Replicas of stragglers are the backup tasks of J. Dean and S. Ghemawat (MapReduce, OSDI 2004,
section 3.6). Here a task is a straggler if it has run for ``straggler_factor`` times a quantile of
the run times of its class.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice

from wfrun.engine.capabilities.placements import Placements
from wfrun.engine.capabilities.replication.turns import (
    MAX_EXAMINED,
    ReplicableTask,
    TaskKey,
    Turns,
)
from wfrun.engine.core.capability import Capability, Decisions, Run
from wfrun.engine.core.state import Attempt, TaskStatus, WorkflowState
from wfrun.engine.events import AttemptStarted, RunStarted
from wfrun.engine.exchange import Outcome

MIN_CHECK_INTERVAL_S = 0.1
"""Minimum interval between two checks for stragglers of a bag, in seconds."""


class Replication(Capability):
    """Places replicas on cores that no waiting task needs: replicas of running tasks in turn
    (``idle``), or only of stragglers (``stragglers``).

    Waiting tasks come first: their attempts are always useful, a replica only if it ends before the
    other attempts of its task.

    If all sites with open attempts of a task report that they take no work, the task gets a replica
    beyond the maximum. Otherwise it would wait until one of these sites recovers.

    Cost: constant; of a decision, `turns.MAX_EXAMINED` running tasks; of a check for stragglers,
    the running tasks of one bag, at most once in `MIN_CHECK_INTERVAL_S`; of a site that reports
    that it takes no work, all running tasks.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._placements = self.state.get(Placements)
        settings = self.state.settings
        slots = sum(site.spec.slots for site in self.state.sites)
        self.max_cores = settings.replica_share * slots
        """Maximum number of cores of replicas."""
        self.cores = 0
        """Number of cores that replicas hold."""
        self.placed_total = 0
        self.won = 0
        """Number of replicas that succeeded first, and so completed their task."""
        self.superseded_core_s = 0.0
        """Core seconds of superseded attempts."""
        self._max_replicas = self.state.max_replicas
        self._stragglers = settings.replication == "stragglers"
        self._turns = Turns(self._max_replicas)
        self._dispatched: dict[int, dict[int, ReplicableTask]] = {}
        """Dispatched tasks by workflow; kept only if stragglers are replicated."""
        self._straggling: dict[TaskKey, None] = {}
        self._stranded: dict[TaskKey, None] = {}
        """Tasks with the maximum number of replicas whose attempts are all at sites that take no
        work."""
        self._distributions: dict[tuple[str, str], RuntimeDistribution] = {}
        """Run times by owner and application."""

    def take_over(self, before: Replication) -> None:
        self.placed_total, self.won = before.placed_total, before.won
        self.superseded_core_s = before.superseded_core_s
        self._distributions = before._distributions

    @classmethod
    def is_wanted(cls, run: Run, begun: RunStarted) -> bool:
        return run.state.max_replicas > 0

    def timers(self) -> Mapping[str, Callable[..., None]]:
        return {"straggler": self._check_stragglers}

    # What runs

    def on_placed(self, attempt: Attempt) -> None:
        key = attempt.workflow, attempt.task
        running = self._turns.get(key)
        if running is None:
            running = self._turns.add(key)
            if self._stragglers:
                self._dispatched.setdefault(attempt.workflow, {})[attempt.task] = running
        running.attempts.append(attempt)
        if attempt.is_replica:
            running.replicas += 1
            self.placed_total += 1
            self.cores += attempt.cores
            self._straggling.pop(key, None)
            self._stranded.pop(key, None)
        if not self._stragglers:
            self._turns.queue(key, running.replicas)

    def on_started(self, attempt: Attempt, event: AttemptStarted) -> None:
        self._check_unless_planned(self.state.workflows[attempt.workflow])

    def on_left(self, attempt: Attempt) -> None:
        if not attempt.superseded:
            self._drop(attempt)

    def on_superseded(self, attempt: Attempt) -> None:
        self._drop(attempt)

    def _drop(self, attempt: Attempt) -> None:
        key = attempt.workflow, attempt.task
        running = self._turns.get(key)
        assert running is not None, "it was placed"
        running.attempts.remove(attempt)
        if attempt.is_replica:
            self.cores -= attempt.cores
        if not running.attempts:
            self._turns.discard(key)
            self._straggling.pop(key, None)
            self._stranded.pop(key, None)
            if self._stragglers:
                del self._dispatched[attempt.workflow][attempt.task]

    def on_ended(self, attempt: Attempt, outcome: Outcome, core_s: float | None) -> None:
        if not attempt.superseded:
            return
        # The record of a cancelled attempt has no times.
        if core_s is None and attempt.started_s is not None:
            core_s = attempt.cores * (self.state.now_s - attempt.started_s)
        self.superseded_core_s += core_s or 0.0

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        self.won += attempt.is_replica
        if not self._stragglers or outcome.started_s is None or outcome.ended_s is None:
            return
        w = self.state.workflows[attempt.workflow]
        speed_ratio = self.state.sites[attempt.site].spec.speed_ratio
        kind = self._task_class(w, attempt.task)
        distribution = self._distributions.get(kind)
        if distribution is None:
            distribution = self._distributions[kind] = RuntimeDistribution()
        distribution.observe(max(0.0, outcome.ended_s - outcome.started_s) * speed_ratio)
        self._check_unless_planned(w)

    def on_health_changed(self, site: int) -> None:
        if self.state.sites[site].reported is None:
            return
        for key, running in self._turns.running():
            if running.replicas >= self._max_replicas and self._is_stranded(running):
                self._stranded[key] = None
                self.run.placement_possible = True

    def _is_stranded(self, running: ReplicableTask) -> bool:
        """Whether the sites of all attempts of the task report that they take no work."""
        sites = self.state.sites
        return all(sites[attempt.site].reported is not None for attempt in running.attempts)

    # Stragglers

    def _task_class(self, w: WorkflowState, task: int) -> tuple[str, str]:
        return w.workflow.owner, w.workflow.tasks[task].name

    def _check_unless_planned(self, w: WorkflowState) -> None:
        """Check a bag for stragglers, unless it has eligible tasks or a timer for a check."""
        if not self._stragglers or w.eligible.count or not w.dispatched:
            return
        if f"straggler:{w.index}" not in self.state.timers:
            self._check_stragglers(w.index)

    def _check_stragglers(self, workflow: int) -> None:
        """Note the stragglers of a bag, and set a timer for the next check, when another task may
        have become a straggler."""
        state, settings = self.state, self.state.settings
        w = state.workflows[workflow]
        next_s: float | None = None
        for task, running in self._dispatched.get(workflow, {}).items():
            key = workflow, task
            if key in self._straggling or running.replicas >= self._max_replicas:
                continue
            distribution = self._distributions.get(self._task_class(w, task))
            if distribution is None:
                continue
            typical_s = distribution.quantile_s(settings.straggler_quantile)
            if typical_s is None:
                continue
            for attempt in running.attempts:
                if attempt.started_s is None:
                    continue
                speed_ratio = state.sites[attempt.site].spec.speed_ratio
                due_s = attempt.started_s + settings.straggler_factor * typical_s / speed_ratio
                if due_s <= state.now_s:
                    self._straggling[key] = None
                    self.run.placement_possible = True
                    break
                next_s = due_s if next_s is None else min(next_s, due_s)
        if next_s is not None:
            at_s = max(next_s, state.now_s + MIN_CHECK_INTERVAL_S)
            self.run.set_timer(f"straggler:{workflow}", at_s)

    # Decisions

    def limit_candidates(self, w: WorkflowState, task: int, cores: int, mask: int) -> int:
        """Limit a replica to sites with idle slots. Sites without an open attempt of the task are
        preferred: a cause that makes one attempt slow at a site may make the next one slow there,
        too."""
        if w.status[task] != TaskStatus.DISPATCHED:
            return mask
        running = self._turns.get((w.index, task))
        taken = 0 if running is None else running.sites
        idle = mask & self.state.openings_for(cores).idle
        return idle & ~taken or idle

    def decide(self, decisions: Decisions, possible: bool) -> None:
        """Place replicas at sites that are still idle."""
        if not possible:
            return
        while self._has_idle_sites() and (chosen := self._choose()) is not None:
            (workflow, task), site = chosen
            w = self.state.workflows[workflow]
            cores = w.workflow.tasks[task].resources.cores
            decisions.place(w, task, site, self.run.candidates(w, task, cores))

    def _has_idle_sites(self) -> bool:
        """Whether some site has idle slots for tasks of some width."""
        return any(openings.idle for openings in self.state.openings.values())

    def _choose(self) -> tuple[TaskKey, int] | None:
        """The next task to replicate and its site; None if there is none. Tasks whose sites all
        take no work come first, then stragglers, then running tasks in turn."""
        for key in list(islice(self._stranded, MAX_EXAMINED)):
            running = self._turns.get(key)
            if running is None or not self._is_stranded(running):
                del self._stranded[key]
            elif (site := self._site_of(key)) is not None:
                return key, site
        for key in list(islice(self._straggling, MAX_EXAMINED)):
            running = self._turns.get(key)
            if running is None or running.replicas >= self._max_replicas:
                del self._straggling[key]
            elif (site := self._site_of(key)) is not None:
                return key, site
        return self._turns.choose(self._site_of)

    def _site_of(self, key: TaskKey) -> int | None:
        """The site that the placement policy chooses for a replica; None if no replica is
        allowed."""
        w, task = self.state.workflows[key[0]], key[1]
        throttle = self.state.throttle
        if throttle is not None and w.dispatched >= throttle:
            return None
        if w.waiting[task]:  # A lost input of it is being written again.
            return None
        cores = w.workflow.tasks[task].resources.cores
        if self.cores + cores > self.max_cores or not self.run.candidates(w, task, cores):
            return None
        return self._placements.by_workflow[w.index].place(task)


MIN_OBSERVATIONS = 5
"""Minimum number of observed run times of a class for a quantile. A quantile of fewer is too
uncertain."""

MAX_KEPT = 500
"""Maximum number of run times kept per class; the latest are kept. The cost of an observation grows
with this number, and quantiles must follow changes."""


class RuntimeDistribution:
    """The latest run times of one class of tasks, in seconds on the reference processor."""

    __slots__ = ("_latest", "_sorted")

    def __init__(self) -> None:
        self._latest: deque[float] = deque()
        self._sorted: list[float] = []

    def observe(self, runtime_s: float) -> None:
        """Add the run time of a task that has ended."""
        insort(self._sorted, runtime_s)
        self._latest.append(runtime_s)
        if len(self._latest) > MAX_KEPT:
            self._sorted.remove(self._latest.popleft())

    def quantile_s(self, share: float) -> float | None:
        """The smallest observed run time such that more than this share of the observed run times
        do not exceed it; the largest one for a share of 1. None after fewer than
        `MIN_OBSERVATIONS`."""
        count = len(self._sorted)
        return (
            None if count < MIN_OBSERVATIONS else self._sorted[min(count - 1, int(share * count))]
        )
