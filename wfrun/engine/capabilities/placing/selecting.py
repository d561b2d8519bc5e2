"""Placing tasks as selection policies choose them: runs with one or more resource managers (thesis
section 5.1)."""

from __future__ import annotations

from wfrun.engine.capabilities.placements import Placements
from wfrun.engine.capabilities.placing.reservations import Reservations
from wfrun.engine.capabilities.placing.resource_manager import NextTask, ResourceManager
from wfrun.engine.capability import Capability, Decisions, Run
from wfrun.engine.events import (
    DECISIONS,
    AttemptPlaced,
    CoresReserved,
    Event,
    ReservationDeclined,
    RunStarted,
)
from wfrun.engine.policies.selection import selection_class
from wfrun.engine.state import Attempt, TaskStatus, WorkflowState


class Selecting(Capability):
    """Works off the eligible sets of all resource managers, each with its own queue.

    The eligible sets are not in the log. A log that is replayed is followed: the sets become what
    they were when its decisions were taken.

    Cost of an event: what it lets be placed, the number of resource managers and of classes of
    tasks; and what the selection policy costs.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._placements = self.state.get(Placements)
        self._reservations = self.state.get(Reservations)
        policy = selection_class(self.state.settings.selection)
        self.managers = [
            ResourceManager(self.state, number, policy, self._reservations)
            for number in range(len(self.state.queues))
        ]
        self._changed: set[int] = set()
        """Bags whose tasks may have become eligible."""
        self._turn = len(self.managers)
        """Of a log that is followed: the resource manager that may place next after the latest
        fact; their number: none may."""

    @classmethod
    def is_wanted(cls, run: Run, begun: RunStarted) -> bool:
        return bool(run.state.queues)

    def on_eligible(self, w: WorkflowState) -> None:
        self._changed.add(w.index)

    def on_left(self, attempt: Attempt) -> None:
        if self.state.settings.throttle is not None:
            w = self.state.workflows[attempt.workflow]
            self.managers[w.queue].unthrottle(w)

    def on_placed(self, attempt: Attempt) -> None:
        w = self.state.workflows[attempt.workflow]
        manager = self.managers[w.queue]
        manager.last_owner = w.workflow.owner
        if not attempt.is_replica:
            manager.placed(w)

    def decide(self, decisions: Decisions, possible: bool) -> None:
        if not possible and not any(manager.held.why for manager in self.managers):
            return
        self._tell()
        for manager in self.managers:
            self._ask_again(manager)
            while (found := self._next(manager)) is not None:
                self._place(manager, found, decisions)
            if manager.held.why:
                self.run.decision_due = True  # They are asked again after the next event.

    def _tell(self) -> None:
        """Tell the resource managers of bags whose tasks have become eligible."""
        workflows = self.state.workflows
        for index in sorted(self._changed):
            self.managers[workflows[index].queue].bag_changed(workflows[index])
        self._changed.clear()

    def _ask_again(self, manager: ResourceManager) -> None:
        if manager.held.why:
            manager.again(manager.held.next_in_turn())

    def _next(self, manager: ResourceManager) -> NextTask | None:
        """The next task that may be placed, with throttled bags put aside."""
        throttle = self.state.settings.throttle
        while True:
            while manager.held.why and (freed := manager.held.freed()) is not None:
                manager.again([freed])
            found = manager.next()
            if found is None or throttle is None or found.bag.dispatched < throttle:
                return found
            manager.throttle(found.bag)

    def _place(self, manager: ResourceManager, found: NextTask, decisions: Decisions) -> None:
        w, entry = found.bag, found.entry
        if (event := self._reservation(manager, found)) is not None:
            decisions.take(event)
            return
        site = self._placements.by_workflow[w.index].place(entry[2])
        if site is None:
            candidates = self.run.candidates(w, entry[2], entry[3].cores)
            manager.held.add(w.index, entry[3])
            if (declined := self._reservations.declined(w)) is not None:
                decisions.take(declined)
            for call in self.run.hooks.declined:
                call(w, entry[2], candidates)
            return
        decisions.place(w, entry[2], site, found.sites)

    def _reservation(self, manager: ResourceManager, found: NextTask) -> Event | None:
        """Keep room for the first task that fits nowhere, if this one would take it."""
        passed = manager.passed_over(found)
        if passed is None:
            return None
        w, entry = passed
        site = self._reservations.wanted(w, entry[2], entry[3], found.sites)
        return None if site is None else CoresReserved(self.state.now_s, w.index, entry[2], site)

    # A log that is followed

    def before_replay(self, event: Event) -> None:
        """Bring the eligible sets to where they were when this was decided, or happened."""
        if isinstance(event, AttemptPlaced):
            w = self.state.workflows[event.workflow]
            if w.status[event.task] != TaskStatus.DISPATCHED:
                self._follow(w)
            else:
                self.end_replay()  # Replicas come after all that waits.
        elif not isinstance(event, (CoresReserved, ReservationDeclined)):
            self.end_replay()

    def end_replay(self) -> None:
        while self._turn < len(self.managers):
            self._exhaust()

    def after_replay(self, event: Event) -> None:
        if isinstance(event, DECISIONS) or not self.state.is_placing:
            return
        if self.run.placement_possible or any(manager.held.why for manager in self.managers):
            self._tell()
            self._turn = 0
            self._ask_again(self.managers[0])

    def _follow(self, w: WorkflowState) -> None:
        """The log says that a task of this bag is placed next."""
        while self._turn < w.queue:
            self._exhaust()
        manager = self.managers[w.queue]
        while (found := self._next(manager)) is not None and found.bag is not w:
            manager.held.add(found.bag.index, found.entry[3])

    def _exhaust(self) -> None:
        """Nothing more was placed of this one's queue after the latest fact."""
        manager = self.managers[self._turn]
        while (found := self._next(manager)) is not None:
            manager.held.add(found.bag.index, found.entry[3])
        self._turn += 1
        if self._turn < len(self.managers):
            self._ask_again(self.managers[self._turn])
