"""Placement with a selection policy, for one or more resource managers (thesis section 5.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wfrun.engine.capabilities.placements import Placements
from wfrun.engine.capabilities.placing.auto_throttle import MAX_PLANNED, AutoThrottle
from wfrun.engine.capabilities.placing.reservations import Reservations
from wfrun.engine.capabilities.placing.resource_manager import NextTask, ResourceManager
from wfrun.engine.capabilities.storing.storage import Storage
from wfrun.engine.core.capability import Decisions, Part, Run
from wfrun.engine.core.state import Attempt, TaskStatus, WorkflowState
from wfrun.engine.events import (
    DECISIONS,
    AttemptPlaced,
    AvoidanceEnded,
    CoresReserved,
    Event,
    PriorityRaised,
    ReservationDeclined,
    RunStarted,
    StorageAwaited,
)
from wfrun.engine.policies.selection import selection_class
from wfrun.engine.tasks.eligible import Entry


class Selecting(Part):
    """Places the tasks in the eligible sets of all resource managers.

    The eligible sets are not in the log, because they depend on answers of policies. A replay
    restores them: it follows the decisions of the log.

    Cost of an event: the placements that it allows, the resource managers and the task classes, and
    the time of the selection policy.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._placements = self.state.get(Placements)
        self._reservations = self.state.get(Reservations)
        self._auto = self.state.find(AutoThrottle)
        self._storage = self.state.find(Storage)
        policy = selection_class(self.state.settings.selection)
        self.managers = [
            ResourceManager(self.state, number, policy, self._reservations)
            for number in range(len(self.state.queues))
        ]
        self._passed: list[tuple[WorkflowState, Entry]] = []
        """In a replay: the tasks that the present resource manager may have planned at busy
        sites."""
        if self.state.throttle is None:
            self.dormant = frozenset({"on_left"})
        self._changed: set[int] = set()
        """Bags that may have new eligible tasks."""
        self._turn = len(self.managers)
        """In a replay: number of the resource manager whose placements may come next in the log.
        Resource managers decide in their order after each fact. If this number is their count, all
        of them have decided, and the next placement follows only after another fact."""

    @classmethod
    def is_wanted(cls, run: Run, begun: RunStarted) -> bool:
        return bool(run.state.queues)

    def events(self) -> Mapping[type[Event], Callable[[Any], None]]:
        return {StorageAwaited: self._storage_awaited, PriorityRaised: self._raised}

    def _raised(self, event: PriorityRaised) -> None:
        w = self.state.workflows[event.workflow]
        if event.task is None:
            self.managers[w.queue].raised(w)

    def _storage_awaited(self, event: StorageAwaited) -> None:
        w = self.state.workflows[event.workflow]
        self.managers[w.queue].bag_changed(w)

    def is_held(self, w: WorkflowState) -> bool:
        """Whether the policy of a workflow left a task unplaced, and was not asked again since."""
        return w.index in self.managers[w.queue].held.reasons

    def on_eligible(self, w: WorkflowState) -> None:
        self._changed.add(w.index)

    def on_left(self, attempt: Attempt) -> None:
        w = self.state.workflows[attempt.workflow]
        self.managers[w.queue].unthrottle(w)

    def on_placed(self, attempt: Attempt) -> None:
        w = self.state.workflows[attempt.workflow]
        manager = self.managers[w.queue]
        manager.last_owner = w.workflow.owner
        if not attempt.is_replica:
            manager.placed(w)

    def decide(self, decisions: Decisions, possible: bool) -> None:
        if not possible and not any(manager.held.reasons for manager in self.managers):
            return
        self._note_changed_bags()
        for manager in self.managers:
            self._ask_again(manager)
            if self._auto is not None:
                self._auto.begin()
            while (found := self._next(manager)) is not None:
                if not self._place(manager, found, decisions):
                    break
            if self._auto is not None:
                self._auto.end_plan(all_asked=False)
                manager.end_plan()
            if manager.held.reasons:
                self.run.decision_due = True  # Their policies are asked after the next event.

    def _note_changed_bags(self) -> None:
        """Notify the resource managers of their changed bags."""
        workflows = self.state.workflows
        for index in sorted(self._changed):
            self.managers[workflows[index].queue].bag_changed(workflows[index])
        self._changed.clear()

    def _ask_again(self, manager: ResourceManager) -> None:
        """Let the policies of held bags be asked again, a few of them after each event."""
        if manager.held.reasons:
            manager.consider_again(manager.held.release_in_turn())

    def _next(self, manager: ResourceManager) -> NextTask | None:
        """The next task to place; None if there is none. Leaves out bags that have reached their
        throttle, and considers held bags again if a further site has room for them now."""
        throttle = self.state.throttle
        while True:
            while manager.held.reasons and (freed := manager.held.release_first()) is not None:
                manager.consider_again([freed])
            found = manager.next()
            if found is None or throttle is None or found.bag.dispatched < throttle:
                return found
            manager.throttle(found.bag)

    def _place(self, manager: ResourceManager, found: NextTask, decisions: Decisions) -> bool:
        """Ask the placement policy of the task's bag for a site, and place or plan the task there.
        A bag whose policy declines is held. Returns whether the decision may go on.

        If the placement would take cores that a wider task waits for, these cores are reserved
        instead, and the task is not placed yet. If the storage of its sites has no room, the task
        is made to wait for room instead.
        """
        w, entry = found.bag, found.entry
        if (event := self._reservation(manager, found)) is not None:
            decisions.take(event)
            return True
        mask = found.sites
        if self._storage is not None:
            mask = self._storage.with_room(w, entry[2], mask)
            if mask != found.sites and not mask & (-1 if self._auto is None else self._auto.soon):
                decisions.take(self._storage.awaited(w, entry[2], found.sites & ~mask))
                return True
        site = self._placements.by_workflow[w.index].place(entry[2])
        if site is None:
            candidates = self.run.candidates(w, entry[2], entry[3].cores)
            manager.held.add(w.index, entry[3])
            if (declined := self._reservations.declined(w)) is not None:
                decisions.take(declined)
            for call in self.run.hooks.declined:
                call(w, entry[2], candidates)
        elif self._auto is not None and not self._auto.placing >> site & 1:
            if not self._auto.plan(self._auto.planned(w, entry, site), decisions):
                return False
            manager.planned(w)
        else:
            decisions.place(w, entry[2], site, mask)
        return True

    def _reservation(self, manager: ResourceManager, found: NextTask) -> Event | None:
        """The decision to reserve cores for an earlier, wider task that no site has room for, if
        placing ``found`` would take cores that the earlier task waits for; otherwise None."""
        passed = manager.passed_over(found)
        if passed is None:
            return None
        w, entry = passed
        site = self._reservations.wanted(w, entry[2], entry[3], found.sites)
        return None if site is None else CoresReserved(self.state.now_s, w.index, entry[2], site)

    # Replay

    def before_replay(self, event: Event) -> None:
        """Bring the eligible sets to their state before this event."""
        if isinstance(event, StorageAwaited):
            self._follow(self.state.workflows[event.workflow], event.task)
        elif isinstance(event, AttemptPlaced):
            w = self.state.workflows[event.workflow]
            if w.status[event.task] != TaskStatus.DISPATCHED:
                self._follow(w, event.task)
            else:
                self.end_replay()  # Replicas are placed after all waiting tasks.
        elif not isinstance(event, (CoresReserved, ReservationDeclined)):
            self.end_replay()

    def end_replay(self) -> None:
        while self._turn < len(self.managers):
            self._exhaust()

    def after_replay(self, event: Event) -> None:
        if not self.state.is_placing or (
            isinstance(event, DECISIONS) and not isinstance(event, AvoidanceEnded)
        ):
            return
        if self.run.placement_possible or any(manager.held.reasons for manager in self.managers):
            self._note_changed_bags()
            self._turn = 0
            self._ask_again(self.managers[0])

    def _follow(self, w: WorkflowState, task: int) -> None:
        """Pass over the tasks that come before ``task``, the next task that the log places. In a
        run that plans tasks, the passed tasks were planned. Otherwise their policies left them
        unplaced, so their bags are held."""
        while self._turn < w.queue:
            self._exhaust()
        manager = self.managers[w.queue]
        if self._auto is not None and self._auto.plans:
            self._follow_plan(manager, w, task)
            return
        while (found := self._next(manager)) is not None and found.bag is not w:
            manager.held.add(found.bag.index, found.entry[3])

    def _follow_plan(self, manager: ResourceManager, w: WorkflowState, task: int) -> None:
        for number, (bag, entry) in enumerate(self._passed):
            if bag is w and entry[2] == task:
                del self._passed[number]  # It was planned, and then dispatched all the same.
                w.eligible.put_back(entry)
                return
        while len(self._passed) < MAX_PLANNED and (found := self._next(manager)) is not None:
            if found.bag is w and found.entry[2] == task:
                return
            found.bag.eligible.set_aside(found.entry)
            self._passed.append((found.bag, found.entry))
            manager.planned(found.bag)

    def _exhaust(self) -> None:
        """Pass over the remaining tasks of the present resource manager, and go on to the next one.
        Called when the log has no further placement of this resource manager before the next fact:
        the tasks with room were planned or left unplaced."""
        manager = self.managers[self._turn]
        if self._auto is not None and self._auto.plans:
            self._next(manager)  # The eligible set is renewed if nothing was planned.
            for w, entry in self._passed:
                w.eligible.put_back(entry)
            self._passed.clear()
            manager.end_plan()
        else:
            while (found := self._next(manager)) is not None:
                manager.held.add(found.bag.index, found.entry[3])
        self._turn += 1
        if self._turn < len(self.managers):
            self._ask_again(self.managers[self._turn])
