"""Bags with optional tasks: their deadlines, and the optional attempts that are killed to free
cores for mandatory tasks.

Source: DIET-ethic, sections 3.2 and 4.1. The first tasks of such a bag are mandatory, the others
optional. The bag ends when its deadline has passed and its last mandatory task is done; optional
tasks that have not ended by then are not needed. The selection policy orders the owners of optional
tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from math import inf
from typing import Any

from wfrun.engine import events as ev
from wfrun.engine.core.actions import CancelAttempts
from wfrun.engine.core.capability import EVERY_HOOK, Capability, Decisions, Run
from wfrun.engine.core.state import Attempt, Phase, WorkflowState
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import OptionalTasks
from wfrun.engine.policies.selection import selection_class
from wfrun.engine.tasks.attempts import open_attempts, supersede, undispatch
from wfrun.engine.tasks.eligible import MandatoryFirst
from wfrun.engine.tasks.status import (
    DELAYED,
    DISPATCHED,
    DONE,
    ELIGIBLE,
    UNNEEDED,
    WAITING,
    set_all,
    set_status,
    settle,
)

_TIMER = "deadline"
_DAY_S = 86400.0
_OPEN = (WAITING, ELIGIBLE, DISPATCHED, DELAYED)


class OptionalBag:
    """Sizes, progress and usage of a bag with optional tasks."""

    __slots__ = ("allocated_core_s", "closed_s", "ended", "killed", "mandatory", "mandatory_s",
                 "most")  # fmt: skip

    def __init__(self, asked: OptionalTasks, tasks: int) -> None:
        self.mandatory = min(asked.min, tasks)
        """Number of mandatory tasks."""
        self.most = tasks if asked.max is None else min(asked.max, tasks)
        """Maximum number of tasks that are run."""
        self.mandatory_s: float | None = None
        """Time when the last mandatory task was done; None: not yet."""
        self.closed_s: float | None = None
        """Time when the bag ended and its remaining optional tasks were given up; None: not yet."""
        self.allocated_core_s = 0.0
        """Core seconds of ended attempts, killed ones included."""
        self.ended = 0
        """Number of ended attempts that used a known, positive time."""
        self.killed = 0
        """Number of attempts that were killed for mandatory tasks."""


class Optionals(Capability):
    """Orders the tasks of bags with optional tasks, and ends these bags. Kills optional attempts to
    free cores for mandatory tasks that no site has room for.

    Cost: constant; of the end of a bag, its tasks; of a decision while optional attempts are open,
    the workflows with mandatory tasks that wait, and the open attempts if it kills any.
    """

    dormant = EVERY_HOOK - {"on_workflow_added"}

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.bags: dict[int, OptionalBag] = {}
        """The bags with optional tasks, by workflow."""
        self._open: list[dict[str, Attempt]] = [{} for _ in self.state.sites]
        """Open attempts of optional tasks that are not being killed, by site."""
        self._dying_cores = [0] * len(self.state.sites)
        """By site: cores of optional attempts that are being killed."""
        name = self.state.settings.selection
        self._kills = bool(name) and getattr(selection_class(name), "kills_optional", False)
        """Whether the selection policy lets optional attempts be killed. Other policies might give
        the freed cores to optional tasks again."""
        self._asking: set[int] = set()
        """Workflows that may have eligible mandatory tasks."""
        self._ended: tuple[float, int] | None = None
        """Cache: the sums of ``allocated_core_s`` and ``ended`` over all bags; None: not computed
        yet."""

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        """Always: any run may get a bag with optional tasks. Until it gets one, a single hook is
        called."""
        return True

    def take_over(self, before: Optionals) -> None:
        self.bags = before.bags

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return {ev.AttemptsKilled: self._attempts_killed}

    def timers(self) -> Mapping[str, Callable[..., None]]:
        return {_TIMER: self._deadline_came}

    # Bags

    def on_workflow_added(self, w: WorkflowState) -> None:
        bag = w.workflow.bag
        if bag is None or bag.optional is None:
            return
        if self.dormant:
            self.run.hooks.wake(self)
            self._asking.update(range(len(self.state.workflows)))
        tasks, asked = len(w.status), bag.optional
        found = self.bags[w.index] = OptionalBag(asked, tasks)
        w.order = MandatoryFirst(found.mandatory)
        if w.deadline_s is None and asked.within_s is not None:
            w.deadline_s = w.added_s + asked.within_s
        elif w.deadline_s is None and asked.until_s is not None:
            # In virtual time the days begin at 0.
            w.deadline_s = w.added_s + ((asked.until_s - w.added_s) % _DAY_S or _DAY_S)
        if w.deadline_s is not None and w.ended_s is None:
            self.run.set_timer(f"{_TIMER}:{w.index}", w.deadline_s)

    def is_mandatory(self, workflow: int, task: int) -> bool:
        """Whether a task is mandatory; tasks of workflows without optional tasks always are."""
        bag = self.bags.get(workflow)
        return bag is None or task < bag.mandatory

    def mandatory_left(self, w: WorkflowState) -> int:
        """Number of eligible mandatory tasks of a workflow."""
        bag = self.bags.get(w.index)
        return w.eligible.count if bag is None else w.status.count(ELIGIBLE, 0, bag.mandatory)

    def expected_core_s(self, w: WorkflowState) -> float:
        """Expected total core seconds of the dispatched tasks of a workflow: their number times the
        mean core seconds of an ended attempt of the workflow. If none has ended, the mean is over
        all bags with optional tasks; the result is 0 if they have no ended attempts either."""
        bag = self.bags.get(w.index)
        if bag is not None and bag.ended:
            return w.dispatched * bag.allocated_core_s / bag.ended
        if self._ended is None:
            bags = self.bags.values()
            self._ended = sum(b.allocated_core_s for b in bags), sum(b.ended for b in bags)
        core_s, ended = self._ended
        return w.dispatched * core_s / ended if ended else 0.0

    def on_eligible(self, w: WorkflowState) -> None:
        self._asking.add(w.index)
        bag = self.bags.get(w.index)
        if bag is not None:
            self._close_if_due(w, bag)
            if bag.closed_s is not None or bag.most < len(w.status):
                # Those beyond the maximum, or tasks that are repeated after the end of the bag.
                self._drop(w, bag.most if bag.closed_s is None else bag.mandatory)

    def on_resumed(self, dismissed: bool) -> None:
        """Give up optional tasks that failed and are eligible again although their bag has
        ended."""
        for index, bag in self.bags.items():
            if bag.closed_s is not None:
                self._drop(self.state.workflows[index], bag.mandatory)

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        bag = self.bags.get(attempt.workflow)
        if bag is None or attempt.task >= bag.mandatory:
            return
        w = self.state.workflows[attempt.workflow]
        if w.status.count(DONE, 0, bag.mandatory) + 1 == bag.mandatory:
            bag.mandatory_s = bag.mandatory_s or self.state.now_s
            self._close_if_due(w, bag, besides=attempt.task)

    def on_failed(self, attempt: Attempt, outcome: Outcome) -> None:
        """After the deadline, set a timer to check the end of the bag again: only after this event
        is it known whether the task is retried."""
        w = self.state.workflows[attempt.workflow]
        if w.deadline_s is not None and w.deadline_s <= self.state.now_s:
            self.run.set_timer(f"{_TIMER}:{w.index}", self.state.now_s)

    def _deadline_came(self, workflow: int) -> None:
        w = self.state.workflows[workflow]
        self._close_if_due(w, self.bags[workflow])
        settle(self.state, w, self.state.now_s)

    def _close_if_due(self, w: WorkflowState, bag: OptionalBag, besides: int = -1) -> None:
        """End a bag whose deadline has passed if no mandatory task is left. ``besides``: a task
        that is done although its status does not say so yet; -1: none."""
        if bag.closed_s is not None or w.deadline_s is None or self.state.now_s < w.deadline_s:
            return
        left = sum(w.status.count(status, 0, bag.mandatory) for status in _OPEN)
        if left - (0 <= besides < bag.mandatory):
            return
        bag.closed_s = self.state.now_s
        self.state.timers.pop(f"{_TIMER}:{w.index}", None)
        self._drop(w, bag.mandatory)

    def _drop(self, w: WorkflowState, first: int) -> None:
        """Give up the tasks from number ``first`` on that have not ended: mark them as not needed,
        and supersede their open attempts."""
        fresh = w.eligible.drop_fresh(first)
        set_all(self.state, w, fresh, ELIGIBLE, UNNEEDED)
        for task in chain(range(first, fresh.start), range(fresh.stop, len(w.status))):
            status = w.status[task]
            if status not in _OPEN:
                continue
            attempts = list(open_attempts(self.state, w, task)) if status == DISPATCHED else []
            if status == ELIGIBLE:
                w.eligible.remove(task, w.task_class(task))
            elif status == DELAYED:
                self.state.timers.pop(f"retry:{w.index}:{task}", None)
            set_status(self.state, w, task, UNNEEDED)
            w.siblings.pop(task, None)
            for attempt in attempts:
                supersede(self.run, attempt)

    # Attempts

    def on_placed(self, attempt: Attempt) -> None:
        if not self.is_mandatory(attempt.workflow, attempt.task):
            self._open[attempt.site][attempt.key] = attempt

    def on_left(self, attempt: Attempt) -> None:
        if self._open[attempt.site].pop(attempt.key, None) is None and attempt.killed:
            self._dying_cores[attempt.site] -= attempt.cores

    def on_superseded(self, attempt: Attempt) -> None:
        self._open[attempt.site].pop(attempt.key, None)

    def on_ended(self, attempt: Attempt, outcome: Outcome, core_s: float | None) -> None:
        bag = self.bags.get(attempt.workflow)
        if bag is None:
            return
        if core_s is None and attempt.started_s is not None:
            core_s = attempt.cores * (self.state.now_s - attempt.started_s)
        if core_s:
            bag.allocated_core_s += core_s
            bag.ended += 1
            self._ended = None

    def _attempts_killed(self, event: ev.AttemptsKilled) -> None:
        keys = []
        for key in event.keys:
            attempt = self.state.attempts.get(key)
            if attempt is None or attempt.killed or attempt.superseded:
                continue
            self.bags[attempt.workflow].killed += 1
            if attempt.phase is Phase.STAGING:
                undispatch(self.run, attempt)
                self.run.placement_possible = self.run.has_new_room = True
                continue
            attempt.killed = True
            self._open[event.site].pop(key, None)
            self._dying_cores[event.site] += attempt.cores
            keys.append(key)
        if keys:
            self.run.outbox.append(CancelAttempts(event.site, tuple(keys)))

    # Decisions

    def decide(self, decisions: Decisions, possible: bool) -> None:
        """Kill optional attempts for mandatory tasks that no site has room for, and for mandatory
        attempts that were prefetched behind optional ones."""
        if not possible or not self._kills or not any(self._open):
            return
        sites = self.state.sites
        free = [s.slots_now - s.committed_cores for s in sites]
        victims: list[list[Attempt]] = [[] for _ in sites]
        for index, dying in enumerate(self._dying_cores):
            free[index] += dying
            if free[index] < 0 and self._open[index]:
                self._make_room_in_queue(index, free, victims[index])
        for workflow in sorted(self._asking):
            self._make_room(self.state.workflows[workflow], free, victims)
        for index, chosen in enumerate(victims):
            if chosen:
                keys = tuple(attempt.key for attempt in chosen)
                decisions.take(ev.AttemptsKilled(self.state.now_s, index, keys))

    def _make_room_in_queue(self, index: int, free: list[int], chosen: list[Attempt]) -> None:
        """Choose optional attempts at a site to kill for mandatory attempts that wait behind them.
        Optional attempts that were placed after the last waiting mandatory attempt are spared."""
        site = self.state.sites[index]
        ahead = queued = cores = 0
        before: list[Attempt] = []
        found: list[Attempt] = []
        for attempt in site.attempts.values():
            if attempt.superseded or attempt.killed:
                continue
            cores += attempt.cores
            if not self.is_mandatory(attempt.workflow, attempt.task):
                before.append(attempt)
            elif attempt.started_s is None:
                queued += attempt.cores
                ahead = cores
                found += before
                before.clear()
        _choose(found, min(ahead - site.slots_now, queued), index, free, chosen)

    def _make_room(self, w: WorkflowState, free: list[int], victims: list[list[Attempt]]) -> None:
        """Choose optional attempts to kill for the eligible mandatory tasks of a workflow. Adds
        them to ``victims``, by site, and updates ``free``, the free cores by site."""
        left = self.mandatory_left(w)
        if not left:
            self._asking.discard(w.index)
            return
        for kind in w.eligible.counts:
            first = w.eligible.first_of(kind)
            if first is None or not self.is_mandatory(w.index, first[2]):
                continue
            if kind.mask & self.state.openings_for(kind.cores).open:
                continue  # It waits for its policy or its throttle.
            for _ in range(min(left, w.eligible.counts[kind])):
                there = [i for i in range(len(free)) if kind.mask >> i & 1]
                site = max(there, key=lambda i: self._room(i, free, victims), default=None)
                if site is None or self._room(site, free, victims) < kind.cores:
                    break
                found = [a for a in self._open[site].values() if a not in victims[site]]
                _choose(found, kind.cores - free[site], site, free, victims[site])
                free[site] -= kind.cores

    def _room(self, index: int, free: list[int], victims: list[list[Attempt]]) -> int:
        """Number of cores of a site that would be free after all its optional attempts were killed.
        ``free`` includes the cores of ``victims``."""
        if not self.state.sites[index].is_healthy:
            return 0
        cores = sum(attempt.cores for attempt in self._open[index].values())
        return free[index] + cores - sum(attempt.cores for attempt in victims[index])


def _choose(
    found: list[Attempt], cores: int, index: int, free: list[int], chosen: list[Attempt]
) -> None:
    """Move attempts with at least ``cores`` cores in all from ``found`` to ``chosen``, and add
    their cores to ``free[index]``. Attempts that have not started are chosen first, then the
    attempts that started last, which lose the least work."""
    found.sort(key=lambda a: inf if a.started_s is None else a.started_s)
    while found and cores > 0:
        attempt = found.pop()
        chosen.append(attempt)
        cores -= attempt.cores
        free[index] += attempt.cores
