"""The pure core: an event in, decisions and actions out.

Decisions are events too (AttemptPlaced, RunEnded): they are written to the log beside what caused
them, so that replaying the log needs no policy to decide the same again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from wfrun.engine.actions import Action, EndRun
from wfrun.engine.allocation import Allocation
from wfrun.engine.apply import apply
from wfrun.engine.errors import InvalidError
from wfrun.engine.events import (
    AttemptPlaced,
    AttemptsWithdrawn,
    Event,
    LaunchersAsked,
    LaunchersStopped,
    RunEnded,
)
from wfrun.engine.model import Workflow
from wfrun.engine.resource_manager import ResourceManager, ResourceManagers
from wfrun.engine.state import SUPERSEDED, RunState, TaskStatus, WorkflowState

DECISIONS = (AttemptPlaced, AttemptsWithdrawn, LaunchersAsked, LaunchersStopped, RunEnded)
"""Events that are the core's own."""


class Core:
    """One run. ``documents`` holds its workflows by the digests that WorkflowAdded names."""

    def __init__(self, documents: Mapping[str, Workflow]) -> None:
        self.state = RunState(documents)
        self._allocation = Allocation()
        self._held: set[int] = set()
        """Workflows whose policy left an eligible task unplaced."""
        self._managers: ResourceManagers | None = None
        """Of a run with a selection policy."""
        self._is_followed = False

    def replay(self, events: Iterable[Event]) -> None:
        """Bring the state to the end of a log, deciding nothing. A RunResumed event, stepped
        next, makes the core ask what became of everything that was under way."""
        for event in events:
            if self._managers is not None:
                self._follow(self._managers, event)
            apply(self.state, event)
            self.state.outbox.clear()
            if self.state.queues:
                if self._managers is None:
                    self._managers = ResourceManagers(self.state)
                if isinstance(event, AttemptPlaced) and self._is_followed:
                    w = self.state.workflows[event.workflow]
                    self._managers.all[w.queue].placed(w)
                elif not isinstance(event, DECISIONS):
                    self._managers.begin()
        if self._managers is not None:
            self._managers.end()
        self.state.dirty.clear()

    def _follow(self, managers: ResourceManagers, event: Event) -> None:
        """Bring the eligible sets to where they were when this was decided, or happened."""
        self._is_followed = False
        if isinstance(event, AttemptPlaced):
            w = self.state.workflows[event.workflow]
            if w.status[event.task] != TaskStatus.DISPATCHED:
                managers.follow(w)
                self._is_followed = True
                return
        managers.end()

    def step(self, event: Event) -> tuple[list[Event], list[Action]]:
        """Take in one event; returns what was decided, to be logged after it, and what is to be
        done, once both are durable.

        Raises InvalidError when a policy decides what it must not, or a task fits no site.
        """
        state = self.state
        apply(state, event)
        decided: list[Event] = []
        if state.is_placing:
            chance, state.chance = state.chance, False
            if state.queues:
                if chance:
                    self._select(decided)
            else:
                state.dirty |= self._held
                self._held.clear()
                while state.dirty:
                    self._place_eligible(state.workflows[min(state.dirty)], decided)
            if state.replicas is not None and chance:
                self._replicate(decided)
            if state.allocation_due:
                decided += self._allocation.decide(state)
        self._end_if_settled(decided)
        actions, state.outbox = state.outbox, []
        return decided, actions

    def _place_eligible(self, w: WorkflowState, decided: list[Event]) -> None:
        """Place eligible tasks in order, as far as the throttle allows."""
        state = self.state
        throttle = state.settings.throttle
        eligible = w.eligible
        while eligible.count and (throttle is None or w.dispatched < throttle):
            first = eligible.first(state.open_sites)
            if first is None:
                break
            task, mask = first
            site = w.placement.place(task)
            if site is None:
                self._held.add(w.index)  # asked again after the next event
                self._allocation.decline(w.index, w.candidates(task, state))
                break
            self._place(w, task, site, mask, decided)
        state.dirty.discard(w.index)

    def _place(
        self, w: WorkflowState, task: int, site: object, mask: int, decided: list[Event]
    ) -> None:
        """Decide for a site, one of ``mask``."""
        state = self.state
        if type(site) is not int or site < 0 or not mask & state.open_sites & 1 << site:
            raise InvalidError(
                f"policy {state.settings.policy!r} placed task "
                f"{w.workflow.tasks[task].id!r} at site {site!r}, which is not one of its "
                "candidates",
                hint="a policy returns one of view.candidates(task), or None",
            )
        key = f"{state.run_id}.{w.index}.{task}.{w.attempts_of[task] + 1}"
        placed = AttemptPlaced(state.now_s, key, w.index, task, site)
        apply(state, placed)
        decided.append(placed)

    def _select(self, decided: list[Event]) -> None:
        """Place the tasks that the selection policy has come next, as far as there is room."""
        state = self.state
        if self._managers is None:
            self._managers = ResourceManagers(state)
        if state.dirty:
            self._managers.tell()
        for manager in self._managers.all:
            if manager.sites & state.open_sites:
                self._place_selected(manager, decided)

    def _place_selected(self, manager: ResourceManager, decided: list[Event]) -> None:
        state = self.state
        throttle = state.settings.throttle
        while open_sites := state.open_sites & manager.sites:
            head = manager.head(open_sites)
            if head is None:
                break
            w, task, mask = head
            if throttle is not None and w.dispatched >= throttle:
                manager.put_aside(w)
                continue
            site = w.placement.place(task)
            if site is None:
                self._allocation.decline(w.index, w.candidates(task, state))
                manager.put_aside(w)
                continue
            self._place(w, task, site, mask, decided)
            manager.placed(w)
        manager.take_back()

    def _replicate(self, decided: list[Event]) -> None:
        """Give sites that are still idle replicas of what runs."""
        state, replicas = self.state, self.state.replicas
        assert replicas is not None
        while state.idle_sites and replicas.running:
            chosen = replicas.choose(state.idle_sites, self._replica_site)
            if chosen is None:
                return
            (workflow, task), site = chosen
            w = state.workflows[workflow]
            self._place(w, task, site, w.candidates(task, state), decided)

    def _replica_site(self, key: tuple[int, int]) -> int | None:
        state = self.state
        w, task = state.workflows[key[0]], key[1]
        throttle = state.settings.throttle
        assert state.replicas is not None
        if not w.candidates(task, state) or w.status[task] != TaskStatus.DISPATCHED:
            return None
        if throttle is not None and w.dispatched >= throttle:
            return None
        if not state.replicas.allows(w.asked(task).cores):
            return None
        return w.placement.place(task)

    def _waits_for_launchers(self) -> bool:
        """Whether there are launchers that could still get the work that is left. Of a site that
        is not well nothing is expected: as long as it may become well again, a timer runs."""
        state = self.state
        if not any(w.open for w in state.workflows):
            return False
        sites = [state.sites[index] for index in state.pools]
        return any(site.is_well and site.pool and site.pool.launchers for site in sites)

    def _attempts_matter(self) -> bool:
        """Whether there are open attempts, apart from those that others were done before and that
        can't be cancelled in time."""
        state = self.state
        if not state.attempts:
            return False
        replicas = state.replicas
        superseded = replicas is not None and len(state.attempts) == replicas.superseded
        return not superseded or SUPERSEDED in state.timers

    def _end_if_settled(self, decided: list[Event]) -> None:
        """Decide that the run is over, when nothing is under way and nothing can start."""
        state = self.state
        if state.ended is not None or not state.is_complete or self._attempts_matter():
            return
        if state.copies:
            return
        withdrawn = state.draining or state.stopping
        if state.pools and not withdrawn and self._waits_for_launchers():
            return
        if state.timers and not withdrawn and any(w.open for w in state.workflows):
            return
        reason = None
        outcome: Literal["done", "failed", "cancelled"]
        if state.draining:
            outcome = "cancelled"
        elif state.failed or state.uncollected:
            outcome = "failed"
        elif state.done < state.tasks:
            outcome = "failed"
            paused = [f"{s.spec.name}: {s.pause_reason}" for s in state.sites if s.pause_reason]
            if paused:
                reason = "no site is left that could run the rest: " + "; ".join(paused)
            else:
                reason = f"policy {state.settings.policy!r} places none of the eligible tasks"
        else:
            outcome = "done"
        ended = RunEnded(state.now_s, outcome, reason)
        apply(state, ended)
        decided.append(ended)
        state.outbox.append(EndRun(outcome))
