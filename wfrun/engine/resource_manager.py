"""A resource manager: its queue of bags, and the eligible set that a selection policy makes of it
(thesis sections 5.1.2 and 5.1.3). What is known here is for the next decisions alone; after a crash
a new one begins with a new eligible set."""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from wfrun.engine.protocols import Selection
from wfrun.engine.selection import selection_class
from wfrun.engine.state import RunState, WorkflowState


class Arrivals:
    """Numbers of bags, of which the smallest is at hand."""

    def __init__(self) -> None:
        self._bags: set[int] = set()
        self._heap: list[int] = []

    def add(self, bag: int) -> None:
        if bag not in self._bags:
            self._bags.add(bag)
            heapq.heappush(self._heap, bag)

    def discard(self, bag: int) -> None:
        self._bags.discard(bag)
        if not self._bags:
            self._heap.clear()

    def first(self) -> int:
        while self._heap[0] not in self._bags:
            heapq.heappop(self._heap)
        return self._heap[0]

    def __contains__(self, bag: int) -> bool:
        return bag in self._bags

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._bags))

    def __len__(self) -> int:
        return len(self._bags)


class Head(NamedTuple):
    """The task that comes next."""

    bag: WorkflowState
    task: int
    mask: int
    """The sites that could take it."""


class ResourceManager:
    """The bags that were submitted to it, until all their tasks are dispatched."""

    def __init__(self, state: RunState, number: int, policy: type[Selection]) -> None:
        self._state = state
        self._number = number
        self.sites = state.queues[number]
        """As a mask."""
        self.waiting = Arrivals()
        self._owners: dict[str, Arrivals] = {}
        self._turns: dict[str, int] = {}
        """Of each owner, in the order of their first bags."""
        self._names: list[str] = []
        self._active: list[int] = []
        """The turns of those of whom a bag waits, ascending."""
        self._chosen: dict[int, int | None] = {}
        """The eligible set: how many tasks of a bag are left in it; None: all."""
        self._heaps: dict[int, list[tuple[float, int, int]]] = {}
        """By mask: (order, serial number, bag) of the first tasks of chosen bags."""
        self._aside: list[int] = []
        """Bags of which no more can be dispatched now."""
        self._policy = policy(self)

    # What a selection policy sees

    @property
    def owners(self) -> Mapping[str, Arrivals]:
        return self._owners

    def next_owner(self) -> str:
        last = self._turns.get(self._state.last_owners[self._number], -1)
        place = bisect_right(self._active, last)
        return self._names[self._active[place % len(self._active)]]

    def priority(self, owner: str) -> int:
        workflows = self._state.workflows
        return max(workflows[bag].workflow.priority for bag in self._owners[owner])

    def usage_s(self, owner: str) -> float:
        usage = self._state.usage.get(owner)
        return 0.0 if usage is None else usage.until(self._state.now_s)

    # What the core does with it

    def news(self, w: WorkflowState) -> None:
        """Tasks of this bag may have become eligible."""
        if not w.eligible.count:
            return
        if w.index in self._chosen:
            self._push(w)
        elif w.index not in self.waiting:
            self._wait(w)
            if self._policy.arrived(w.index):
                self._choose(w.index, None)

    def head(self, open_sites: int) -> Head | None:
        """The task that one of these sites gets next; None: none of them can take any."""
        while True:
            head = self._first(open_sites)
            if head is not None or not self.waiting:
                return head
            for bag, most in list(self._policy.select()):
                self._choose(bag, most)

    def placed(self, w: WorkflowState) -> None:
        """A task of this bag, the head, was. (By the log of another version it may be of a bag that
        waits.)"""
        bag = w.index
        if bag not in self._chosen:
            self._choose(bag, None)
            return
        left = self._chosen[bag]
        if left is not None:
            self._chosen[bag] = left = left - 1
        if not w.eligible.count:
            del self._chosen[bag]
        elif left == 0:
            del self._chosen[bag]
            self._wait(w)
        else:
            self._push(w)

    def put_aside(self, w: WorkflowState) -> None:
        """No more of this bag can be placed now."""
        self._aside.append(w.index)
        for heap in self._heaps.values():
            if heap and heap[0][2] == w.index:
                heapq.heappop(heap)

    def take_back(self) -> None:
        """What was put aside is considered again."""
        for bag in self._aside:
            if bag in self._chosen:
                self._push(self._state.workflows[bag])
        self._aside.clear()

    def _wait(self, w: WorkflowState) -> None:
        owner = w.workflow.owner
        turn = self._turns.get(owner)
        if turn is None:
            turn = self._turns[owner] = len(self._names)
            self._names.append(owner)
        bags = self._owners.get(owner)
        if bags is None:
            bags = self._owners[owner] = Arrivals()
            insort(self._active, turn)
        bags.add(w.index)
        self.waiting.add(w.index)

    def _choose(self, bag: int, most: int | None) -> None:
        w = self._state.workflows[bag]
        owner = w.workflow.owner
        self.waiting.discard(bag)
        bags = self._owners.get(owner, Arrivals())
        bags.discard(bag)
        if not bags and owner in self._owners:
            del self._owners[owner]
            self._active.remove(self._turns[owner])
        if w.eligible.count:
            self._chosen[bag] = most
            self._push(w)

    def _push(self, w: WorkflowState) -> None:
        for mask in w.eligible.masks:
            entry = w.eligible.first_of(mask)
            if entry is not None:
                heap = self._heaps.setdefault(mask, [])
                heapq.heappush(heap, (entry[0], entry[1], w.index))

    def _first(self, open_sites: int) -> Head | None:
        best: tuple[float, int, int] | None = None
        best_mask = 0
        for mask, heap in self._heaps.items():
            if not mask & open_sites:
                continue
            self._refresh(mask, heap)
            if heap and (best is None or heap[0] < best):
                best, best_mask = heap[0], mask
        if best is None:
            return None
        w = self._state.workflows[best[2]]
        entry = w.eligible.first_of(best_mask)
        assert entry is not None, "the heap was brought up to date"
        return Head(w, entry[2], best_mask)

    def _refresh(self, mask: int, heap: list[tuple[float, int, int]]) -> None:
        """Until what is on top is true."""
        workflows = self._state.workflows
        while heap:
            order, serial, bag = heap[0]
            entry = workflows[bag].eligible.first_of(mask) if bag in self._chosen else None
            if entry is not None and entry[0] == order and entry[1] == serial:
                return
            heapq.heappop(heap)


class ResourceManagers:
    """All of a run, each with its own queue.

    A log that is replayed is followed: the eligible sets become what they were when its decisions
    were taken.
    """

    def __init__(self, state: RunState) -> None:
        policy = selection_class(state.settings.selection)
        self._state = state
        self.all = [ResourceManager(state, n, policy) for n in range(len(state.queues))]
        self._turn = len(self.all)
        """Of a log that is followed: who placed last after the latest fact; all: nobody will."""

    def tell(self) -> None:
        """Of bags whose tasks have become eligible."""
        dirty, workflows = self._state.dirty, self._state.workflows
        for index in sorted(dirty) if len(dirty) > 1 else dirty:
            self.all[workflows[index].queue].news(workflows[index])
        dirty.clear()

    def begin(self) -> None:
        """A fact of the log was applied; decisions may follow."""
        state = self._state
        if state.is_placing and state.chance:
            state.chance = False
            self.tell()
            self._turn = 0

    def follow(self, w: WorkflowState) -> None:
        """The log says that a task of this bag is placed next."""
        while self._turn < w.queue:
            self._exhaust()
        manager = self.all[w.queue]
        while (head := manager.head(self._open(manager))) is not None and head.bag is not w:
            manager.put_aside(head.bag)

    def end(self) -> None:
        """No further placement follows from the latest fact."""
        while self._turn < len(self.all):
            self._exhaust()

    def _open(self, manager: ResourceManager) -> int:
        return self._state.open_sites & manager.sites

    def _exhaust(self) -> None:
        """Nothing more was placed of this one's queue."""
        manager = self.all[self._turn]
        while self._open(manager) and (head := manager.head(self._open(manager))) is not None:
            manager.put_aside(head.bag)
        manager.take_back()
        self._turn += 1
