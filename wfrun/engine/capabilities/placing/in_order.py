"""Placement without a selection policy: workflows in the order of their arrival (decentralized
brokers, thesis section 6.1.2)."""

from __future__ import annotations

from wfrun.engine.capabilities.placements import Placements
from wfrun.engine.capabilities.placing.arrivals import Arrivals
from wfrun.engine.capabilities.placing.auto_throttle import AutoThrottle
from wfrun.engine.capabilities.placing.held import HeldWorkflows
from wfrun.engine.capabilities.placing.reservations import Reservations
from wfrun.engine.capabilities.storing.storage import Storage
from wfrun.engine.core.capability import Decisions, Part, Run
from wfrun.engine.core.state import Attempt, WorkflowState
from wfrun.engine.events import CoresReserved, RunStarted
from wfrun.engine.tasks.eligible import Entry, TaskClass


class InOrder(Part):
    """Asks the policy of each workflow to place its eligible tasks, in their order, as far as the
    throttle and the room at the sites allow.

    Workflows whose tasks wait for room are indexed by the classes of these tasks, so that the first
    of them is found without a search when a site gets room. Cost of an event: the placements that
    it allows, and the number of classes.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._placements = self.state.get(Placements)
        self._reservations = self.state.get(Reservations)
        self._auto = self.state.find(AutoThrottle)
        self._storage = self.state.find(Storage)
        self._ready = Arrivals()
        """Workflows that may have a task to place now."""
        self._waiting: dict[TaskClass, Arrivals] = {}
        """Workflows with tasks that no site had room for, by class. Some entries are stale."""
        self._held = HeldWorkflows(self.state)
        if self.state.throttle is None:
            self.dormant = frozenset({"on_left"})

    @classmethod
    def is_wanted(cls, run: Run, begun: RunStarted) -> bool:
        """Not wanted with a selection policy, nor with scavenging owners, whose launchers pull
        tasks."""
        return not (run.state.queues or begun.settings.scavenge)

    def is_held(self, w: WorkflowState) -> bool:
        """Whether the policy of a workflow left a task unplaced, and was not asked again since."""
        return w.index in self._held.reasons

    def on_eligible(self, w: WorkflowState) -> None:
        self._ready.add(w.index)
        if self._held.reasons:  # The new task may be first in order.
            self._held.discard(w.index)

    def on_left(self, attempt: Attempt) -> None:
        self._ready.add(attempt.workflow)
        if self._auto is not None:
            self._auto.declined = 0  # Its tasks were not asked about while it was throttled.

    def decide(self, decisions: Decisions, possible: bool) -> None:
        held = self._held
        if held.reasons:
            for workflow in held.release_in_turn():
                self._ready.add(workflow)
        elif not possible:
            return
        auto = self._auto
        if auto is not None:
            auto.begin()
        while (index := self._next()) is not None:
            w = self.state.workflows[index]
            if index not in held.reasons:
                self._place(w, decisions)
        if auto is not None:
            for w, kind in auto.end_plan(all_asked=not held.reasons):
                self._wait(w, kind)
        if held.reasons:
            self.run.decision_due = True  # Their policies are asked after the next event.

    def _next(self) -> int | None:
        """Remove and return the earliest workflow that may have a task to place; None if there is
        none. Workflows whose priority the user has raised come first."""
        if self.state.raised and (index := self._next_raised()) is not None:
            return index
        if not (self._waiting or self._held.reasons):
            return self._ready.pop()
        best: Arrivals | None = self._ready if self._ready.numbers else None
        best_kind: TaskClass | None = None
        if self._waiting:
            openings_for, auto = self.state.openings_for, self._auto
            offered = -1 if auto is None else auto.soon & ~auto.declined
            for kind, arrivals in self._waiting.items():
                mask = kind.mask & openings_for(kind.cores).open & offered
                if not mask or (best is not None and best.first() <= arrivals.first()):
                    continue
                if self._reservations.at and not self._reservations.limit(kind.cores, mask):
                    continue
                best, best_kind = arrivals, kind
        index = None if best is None else best.pop()
        if best_kind is not None and best is not None and not best.numbers:
            del self._waiting[best_kind]
        if self._held.reasons:
            freed = self._held.release_first()
            if freed is not None:
                if index is None:
                    return freed
                self._ready.add(max(index, freed))
                index = min(index, freed)
        return index

    def _next_raised(self) -> int | None:
        """Remove and return the first raised workflow that may have a task to place; None if there
        is none. Cost: the raised workflows times the classes."""
        openings_for, auto = self.state.openings_for, self._auto
        offered = -1 if auto is None else auto.soon & ~auto.declined
        for index in sorted(self.state.raised, key=self.state.raised.__getitem__):
            if index in self._ready:
                self._ready.discard(index)
                return index
            for kind, arrivals in self._waiting.items():
                mask = kind.mask & openings_for(kind.cores).open & offered
                if index in arrivals and mask and self._reservations.limit(kind.cores, mask):
                    arrivals.discard(index)
                    if not arrivals:
                        del self._waiting[kind]
                    return index
        return None

    def _place(self, w: WorkflowState, decisions: Decisions) -> None:
        """Place eligible tasks of a workflow in order, as far as the throttle allows."""
        throttle = self.state.throttle
        placement, auto = self._placements.by_workflow[w.index], self._auto
        eligible = w.eligible
        while eligible.count:
            if throttle is not None and w.dispatched >= throttle:
                return  # Added again when one of its attempts leaves.
            first = self._first(w)
            if first is None:
                break
            entry, mask = first
            task, kind = entry[2], entry[3]
            if self.state.is_bounded and self._reserve(w, entry, mask, decisions):
                continue
            if self._storage is not None:
                room = self._storage.with_room(w, task, mask)
                if room != mask and not room & (-1 if auto is None else auto.soon & ~auto.declined):
                    decisions.take(self._storage.awaited(w, task, mask & ~room))
                    continue
                mask = room
            recalled = None if auto is None else auto.recall(w, entry, mask)
            site = placement.place(task) if recalled is None else recalled.found.site
            if site is None:
                candidates = self.run.candidates(w, task, kind.cores)
                self._held.add(w.index, kind)
                if (declined := self._reservations.declined(w)) is not None:
                    decisions.take(declined)
                for call in self.run.hooks.declined:
                    call(w, task, candidates)
                return
            if auto is not None and recalled is None:
                auto.answered(site)
            if auto is not None and not auto.placing >> site & 1:
                if not auto.plan(recalled or auto.planned(w, entry, site), decisions):
                    break
            else:
                decisions.place(w, task, site, mask)
        for kind in eligible.counts:
            self._wait(w, kind)

    def _wait(self, w: WorkflowState, kind: TaskClass) -> None:
        """Note that tasks of this class of a workflow wait for room."""
        arrivals = self._waiting.get(kind)
        if arrivals is None:
            arrivals = self._waiting[kind] = Arrivals()
        arrivals.add(w.index)

    def _first(self, w: WorkflowState) -> tuple[Entry, int] | None:
        """The first task of a workflow for which a site has room, with a mask of all sites that
        have room for it. None if there is no such task."""
        eligible, openings, reservations = w.eligible, self.state.openings, self._reservations
        auto = self._auto
        offered = -1 if auto is None else auto.soon & ~auto.declined
        best: Entry | None = None
        best_mask = 0
        for kind in eligible.counts:
            there = openings.get(kind.cores) or self.state.openings_for(kind.cores)
            mask = kind.mask & there.open
            if not mask & offered:
                continue
            entry = eligible.first_of(kind)
            if entry is None or (best is not None and best < entry):
                continue
            if reservations.at:
                mask = reservations.limit(kind.cores, mask)
                if not mask:
                    continue
            best, best_mask = entry, mask
        return None if best is None else (best, best_mask)

    def _reserve(self, w: WorkflowState, entry: Entry, mask: int, decisions: Decisions) -> bool:
        """Reserve cores for a wider task that would be delayed if ``entry`` were placed at a site
        in ``mask``. The wider task is the first task that no site has room for; it comes before
        ``entry``. Returns whether a reservation was made."""
        # Only wider tasks can be starved: where one of this width has room, others of it have too.
        earliest = self._rank(w), entry, w
        for kind in w.eligible.counts:
            if kind.cores > entry[3].cores:
                earliest = min(earliest, self._waits(w, kind) or earliest)
        for kind in [kind for kind in self._waiting if kind.cores > entry[3].cores]:
            other = self._first_waiting(kind)
            if other is None:
                del self._waiting[kind]
            elif self._rank(other) < self._rank(w):
                earliest = min(earliest, self._waits(other, kind) or earliest)
        if earliest[1] is entry:
            return False
        waiting = earliest[2]
        task, kind = earliest[1][2], earliest[1][3]
        site = self._reservations.wanted(waiting, task, kind, mask)
        if site is None:
            return False
        decisions.take(CoresReserved(self.state.now_s, waiting.index, task, site))
        return True

    def _first_waiting(self, kind: TaskClass) -> WorkflowState | None:
        """The first workflow with tasks of a class that wait for room; None if there is none.
        Workflows that wait for their throttle or their policy are dropped from the index. They are
        added again when a placement is allowed."""
        arrivals, throttle = self._waiting[kind], self.state.throttle
        while arrivals:
            raised = [index for index in self.state.raised if index in arrivals]
            index = min(raised, key=self.state.raised.__getitem__) if raised else arrivals.first()
            w = self.state.workflows[index]
            is_throttled = throttle is not None and w.dispatched >= throttle
            if kind in w.eligible.counts and w.index not in self._held.reasons and not is_throttled:
                return w
            arrivals.discard(index)
        return None

    def _rank(self, w: WorkflowState) -> int:
        """Rank of a workflow in the order of placements, the smallest first."""
        return self.state.raised.get(w.index, w.index)

    def _waits(self, w: WorkflowState, kind: TaskClass) -> tuple[int, Entry, WorkflowState] | None:
        """The first task of a class of a workflow, as (rank, entry, workflow); None if a site has
        room for it."""
        if kind.mask & self.state.openings_for(kind.cores).open:
            return None
        first = w.eligible.first_of(kind)
        assert first is not None, "the class has tasks"
        return self._rank(w), first, w

    # Replay

    def end_replay(self) -> None:
        """Hold each workflow with a task that has room at a site and is not placed in the log: the
        policy of the workflow left the task unplaced. In a run that plans tasks, such a task may
        have been planned instead. There no workflow is held, and policies are asked when a
        placement is possible."""
        if self._auto is not None and self._auto.plans:
            return
        held, throttle = self._held, self.state.throttle
        for asked in list(held.reasons):
            held.discard(asked)
            self._ready.add(asked)
        while (index := self._next()) is not None:
            w = self.state.workflows[index]
            if throttle is not None and w.dispatched >= throttle:
                continue
            first = self._first(w)
            if first is not None:
                held.add(index, first[0][3])
                continue
            for kind in w.eligible.counts:
                self._wait(w, kind)
        if held.reasons:
            self.run.decision_due = True
