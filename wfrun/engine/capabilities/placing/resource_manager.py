"""A resource manager: its queue of bags, and the eligible set that a selection policy forms from
this queue (thesis sections 5.1.2 and 5.1.3)."""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from random import Random
from typing import NamedTuple

from wfrun.engine.capabilities.optional import Optionals
from wfrun.engine.capabilities.placing.arrivals import MAX_STALE, Arrivals
from wfrun.engine.capabilities.placing.auto_throttle import AutoThrottle
from wfrun.engine.capabilities.placing.held import HeldWorkflows
from wfrun.engine.capabilities.placing.reservations import Reservations
from wfrun.engine.capabilities.usage import Usages
from wfrun.engine.core.state import RunState, WorkflowState
from wfrun.engine.policies.policy_error import PolicyError, answer_error
from wfrun.engine.protocols import Selection
from wfrun.engine.tasks.eligible import Entry, TaskClass


class NextTask(NamedTuple):
    """The next task to place."""

    bag: WorkflowState
    entry: Entry
    sites: int
    """The sites with room for the task, as a mask."""


class _Top(NamedTuple):
    """The first task of a class of a bag, in the order of placement."""

    rank: int
    """Negative if the user has raised the priority of the bag, otherwise 0."""
    order: float
    serial: int
    bag: int


class ResourceManager:
    """One resource manager. Its queue has the bags from their submission until all their tasks are
    dispatched. Implements `wfrun.engine.protocols.Queue` for the selection policy."""

    def __init__(
        self, state: RunState, number: int, policy: type[Selection], reservations: Reservations
    ) -> None:
        self._state = state
        self._reservations = reservations
        self._usages = state.get(Usages)
        self._auto = state.find(AutoThrottle)
        self.sites = state.queues[number]
        """The sites of the resource manager, as a mask."""
        self.last_owner = ""
        """The owner of the last task that the resource manager placed; empty before the first."""
        self.waiting = Arrivals()
        self._owners: dict[str, Arrivals] = {}
        self._positions: dict[str, int] = {}
        """By owner: its position in the order of the owners' first bags."""
        self._names: list[str] = []
        self._active: list[int] = []
        """Positions of the owners with waiting bags, ascending."""
        self._selected: dict[int, int | None] = {}
        """The eligible set: by selected bag, the number of its tasks that are left to place; None:
        all."""
        self._heaps: dict[TaskClass, list[_Top]] = {}
        """By class: a heap of the first tasks of selected bags. Some entries are stale."""
        self._planned: set[int] = set()
        """Bags of which the present decision has planned tasks at busy sites."""
        self._throttled: set[int] = set()
        """Selected bags of which the throttle allows no further dispatched task."""
        self.held = HeldWorkflows(state)
        """Selected bags whose policy left a task unplaced."""
        self._name = policy.name
        self._policy = policy(self)

    # For the selection policy

    @property
    def owners(self) -> Mapping[str, Arrivals]:
        return self._owners

    def next_owner(self) -> str:
        last = self._positions.get(self.last_owner, -1)
        place = bisect_right(self._active, last)
        return self._names[self._active[place % len(self._active)]]

    def priority(self, owner: str) -> int:
        workflows = self._state.workflows
        return max(workflows[bag].workflow.priority for bag in self._owners[owner])

    def usage_s(self, owner: str) -> float:
        usage = self._usages.by_owner.get(owner)
        return 0.0 if usage is None else usage.until(self._state.now_s)

    def expected_s(self, owner: str) -> float:
        optionals, workflows = self._state.get(Optionals), self._state.workflows
        expected_s = sum(optionals.expected_core_s(workflows[bag]) for bag in self._owners[owner])
        usage = self._usages.by_owner.get(owner)
        if usage is None:
            return expected_s
        return max(usage.until(self._state.now_s), usage.earlier_s + usage.past_s + expected_s)

    def dispatched(self, owner: str) -> int:
        return sum(self._state.workflows[bag].dispatched for bag in self._owners[owner])

    def mandatory(self, bag: int) -> int:
        return self._state.get(Optionals).mandatory_left(self._state.workflows[bag])

    def draw(self, owners: Sequence[str]) -> str:
        if len(owners) == 1:
            return owners[0]
        state = self._state
        drawn = f"{state.settings.seed} {state.run_id} {state.now_s} {self.last_owner}"
        return Random(drawn).choice(owners)

    # For the core

    def bag_changed(self, w: WorkflowState) -> None:
        """Note that tasks of this bag may have become eligible."""
        if not w.eligible.count:
            return
        if w.index in self._selected:
            self.held.discard(w.index)  # The new task may be first in order.
            self._push(w)
        elif w.index not in self.waiting:
            self._wait(w)
            if self._policy.arrived(w.index) or w.index in self._state.raised:
                self._add_selected(w.index, None)

    def raised(self, w: WorkflowState) -> None:
        """Note that the user has raised the priority of a bag: all its tasks are selected."""
        if w.index in self._selected:
            self._selected[w.index] = None
            self._push(w)
        elif w.index in self.waiting:
            self._add_selected(w.index, None)

    def unthrottle(self, w: WorkflowState) -> None:
        """Note that a task of this bag is no longer dispatched."""
        if w.index in self._throttled:
            self._throttled.discard(w.index)
            self._push(w)

    def next(self) -> NextTask | None:
        """The next task to place; None if nothing can be placed. Renews the eligible set when none
        of its tasks can be dispatched although a site has room. Raises PolicyError for an invalid
        answer of the selection policy.

        Planned tasks belong to the schedule of the eligible set: while there are any, the set is
        not renewed.
        """
        while True:
            found = self._first()
            if found is not None or self._planned or not self.waiting or not self._has_room():
                return found
            self._select()

    def _has_room(self) -> bool:
        """Whether a site of the resource manager has room for tasks of some width."""
        sites = self.sites if self._auto is None else self.sites & self._auto.soon
        return any(openings.open & sites for openings in self._state.openings.values())

    def _select(self) -> None:
        """Renew the eligible set with bags that the policy selects. Each call removes at least one
        bag from the waiting bags, so that repeated calls come to an end. Raises PolicyError for an
        invalid answer."""
        waiting = len(self.waiting)
        answers = self._policy.select()
        if not isinstance(answers, Iterable):
            raise self._refuse(f"selected {answers!r}")
        chosen = list(islice(answers, waiting + 1))
        if not chosen:
            raise self._refuse(f"selected nothing, although {waiting} bags wait")
        for answer in chosen:
            bag, most = self._check(answer)
            self._add_selected(bag, most)

    def _check(self, answer: object) -> tuple[int, int | None]:
        match answer:
            case (int(bag), (None | int()) as most) if bag in self.waiting:
                if most is None or most > 0:
                    return bag, most
                raise self._refuse(f"selected {most} tasks of bag {bag}")
            case (int(bag), (None | int())):
                raise self._refuse(f"selected bag {bag}, which does not wait")
        raise self._refuse(f"selected {answer!r}")

    def _refuse(self, what: str) -> PolicyError:
        return answer_error(
            f"selection policy {self._name!r} {what}",
            type(self._policy).select,
            "It selects one or more of the bags in queue.waiting, each once, as pairs (bag, "
            "number of tasks or None)",
        )

    def placed(self, w: WorkflowState) -> None:
        """Note that a task of this bag was placed. In logs of older versions the bag may not have
        been selected."""
        bag = w.index
        if bag not in self._selected:
            self._add_selected(bag, None)
            return
        left = self._selected[bag]
        if left is not None:
            self._selected[bag] = left = left - 1
        if not w.eligible.count and bag not in self._planned:
            self._remove_selected(bag)
        elif left == 0:
            self._remove_selected(bag)
            self._wait(w)
        else:
            self._push(w)

    def planned(self, w: WorkflowState) -> None:
        """Note that a task of this bag is planned at a busy site: it is not eligible until the end
        of the decision."""
        self._planned.add(w.index)
        self._push(w)

    def end_plan(self) -> None:
        """Note that the tasks that were planned are eligible again."""
        planned, self._planned = self._planned, set()
        self.consider_again(sorted(planned))

    def throttle(self, w: WorkflowState) -> None:
        """Note that the throttle allows no further dispatched task of this bag."""
        self._throttled.add(w.index)

    def consider_again(self, bags: Iterable[int]) -> None:
        """Consider bags again whose policy had left a task unplaced, or whose tasks were
        planned."""
        for bag in bags:
            if bag in self._selected:
                self._push(self._state.workflows[bag])

    def _wait(self, w: WorkflowState) -> None:
        """Add a bag to the waiting bags, from which the selection policy selects."""
        owner = w.workflow.owner
        turn = self._positions.get(owner)
        if turn is None:
            turn = self._positions[owner] = len(self._names)
            self._names.append(owner)
        bags = self._owners.get(owner)
        if bags is None:
            bags = self._owners[owner] = Arrivals()
            insort(self._active, turn)
        bags.add(w.index)
        self.waiting.add(w.index)

    def _add_selected(self, bag: int, most: int | None) -> None:
        """Add a bag to the eligible set: ``most`` of its tasks, or all."""
        w = self._state.workflows[bag]
        owner = w.workflow.owner
        self.waiting.discard(bag)
        bags = self._owners.get(owner)
        if bags is not None:
            bags.discard(bag)
            if not bags:
                del self._owners[owner]
                self._active.remove(self._positions[owner])
        if w.eligible.count:
            self._selected[bag] = most
            self._push(w)

    def _remove_selected(self, bag: int) -> None:
        """Remove a bag from the eligible set."""
        del self._selected[bag]
        self._throttled.discard(bag)
        self.held.discard(bag)

    def _push(self, w: WorkflowState) -> None:
        """Add the first tasks of a selected bag to the heaps."""
        for kind in w.eligible.counts:
            entry = w.eligible.first_of(kind)
            assert entry is not None, "the class has tasks"
            heap = self._heaps.get(kind)
            if heap is None:
                heap = self._heaps[kind] = []
            top = _Top(self._state.raised.get(w.index, 0), entry[0], entry[1], w.index)
            if not heap or heap[0] != top:
                heapq.heappush(heap, top)
            if len(heap) > 2 * len(self._selected) + MAX_STALE:
                # Stale entries would accumulate while no site of this class has room.
                heap[:] = sorted({top for top in heap if self._is_valid(kind, top)})

    def _is_valid(self, kind: TaskClass, top: _Top) -> bool:
        """Whether an entry is valid: its task is the first of its class in its bag, and the bag is
        selected and neither throttled nor held."""
        rank, order, serial, bag = top
        if (
            rank != self._state.raised.get(bag, 0)
            or bag not in self._selected
            or bag in self._throttled
            or bag in self.held.reasons
        ):
            return False
        entry = self._state.workflows[bag].eligible.first_of(kind)
        return entry is not None and entry[0] == order and entry[1] == serial

    def _top(self, kind: TaskClass, heap: list[_Top]) -> bool:
        """Remove stale entries from the top of a heap. Returns whether an entry is left."""
        while heap and not self._is_valid(kind, heap[0]):
            heapq.heappop(heap)
        return bool(heap)

    def _first(self) -> NextTask | None:
        """The first task of the eligible set that a site has room for."""
        best: _Top | None = None
        best_kind: TaskClass | None = None
        best_sites = 0
        openings_for, reservations = self._state.openings_for, self._reservations
        auto = self._auto
        for kind, heap in self._heaps.items():
            sites = kind.mask & openings_for(kind.cores).open
            if auto is not None and not sites & auto.soon:
                continue
            if not sites or not self._top(kind, heap) or (best is not None and best < heap[0]):
                continue
            if reservations.at:
                sites = reservations.limit(kind.cores, sites)
                if not sites:
                    continue
            best, best_kind, best_sites = heap[0], kind, sites
        if best is None or best_kind is None:
            return None
        w = self._state.workflows[best.bag]
        entry = w.eligible.first_of(best_kind)
        assert entry is not None, "the heap was brought up to date"
        return NextTask(w, entry, best_sites)

    def passed_over(self, found: NextTask) -> tuple[WorkflowState, Entry] | None:
        """The first of the tasks that are wider than ``found`` and that no site has room for; None
        if there is none before ``found``."""
        entry = found.entry
        bag = found.bag.index
        best = _Top(self._state.raised.get(bag, 0), entry[0], entry[1], bag)
        best_kind: TaskClass | None = None
        for kind, heap in self._heaps.items():
            if (
                kind.cores <= entry[3].cores
                or kind.mask & self._state.openings_for(kind.cores).open
            ):
                continue
            if self._top(kind, heap) and heap[0] < best:
                best, best_kind = heap[0], kind
        if best_kind is None:
            return None
        w = self._state.workflows[best.bag]
        first = w.eligible.first_of(best_kind)
        assert first is not None, "the heap was brought up to date"
        return w, first
