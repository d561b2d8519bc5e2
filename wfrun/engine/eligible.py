"""The eligible tasks of a workflow that wait for a site, in the order in which they are placed."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Sequence
from typing import NamedTuple

MAX_STALE = 16
"""Maximum number of stale entries in a heap, beside as many as it has true ones."""


class TaskClass(NamedTuple):
    """Eligible tasks that can be placed wherever one of them can."""

    mask: int
    """The sites that may get them."""
    cores: int
    """Cores that each of them asks for."""


Entry = tuple[float, int, int, TaskClass]
"""(order, serial number, task, its class): smaller goes first. Serial numbers are unique."""


class EligibleSet:
    """Keeps tasks by class, so that tasks that wait for sites that are full or out of order stand
    in nobody's way and cost nothing. There are few classes at a time: of each width of tasks, one
    for all sites and some for sites where tasks have failed.

    The tasks of a bag are in it from the beginning without an entry of their own, as *fresh* ones.
    """

    __slots__ = ("_fresh", "_heaps", "_serials", "count", "counts")

    def __init__(self, tasks: int) -> None:
        self.count = 0
        self.counts: dict[TaskClass, int] = {}
        """Number of tasks of each class; no class without any."""
        self._heaps: dict[TaskClass, list[Entry]] = {}
        """Entries of tasks, some of which are stale: their task was taken out."""
        self._serials = array("q", bytes(8 * tasks))
        """Per task: the serial number of its true entry; 0: it is not in it, or fresh."""
        self._fresh: FreshTasks | None = None

    def fill(self, fresh: FreshTasks) -> None:
        """Put in all tasks of a bag."""
        self._fresh = fresh
        if fresh.left:
            self.count += fresh.left
            self.counts[fresh.kind] = self.counts.get(fresh.kind, 0) + fresh.left

    def add(self, entry: Entry) -> None:
        """Put in a task that is not in it."""
        kind = entry[3]
        heap = self._heaps.get(kind)
        if heap is None:
            heap = self._heaps[kind] = []
        heapq.heappush(heap, entry)
        self._serials[entry[2]] = entry[1]
        self.count += 1
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def remove(self, task: int, kind: TaskClass) -> None:
        """Take out a task that is in it, of the class that it was put in with."""
        serial = self._serials[task]
        self._serials[task] = 0
        if not serial:
            assert self._fresh is not None, "a task without an entry is a fresh one"
            self._fresh.remove(task)
        self.count -= 1
        left = self.counts[kind] - 1
        if left:
            self.counts[kind] = left
        else:
            del self.counts[kind]
        heap = self._heaps.get(kind)
        if heap is None:
            return
        if not left:
            del self._heaps[kind]
        elif heap and heap[0][1] == serial:
            heapq.heappop(heap)
        elif len(heap) > 2 * left + MAX_STALE:
            # Otherwise they would collect while the sites of this class are closed.
            serials = self._serials
            heap[:] = [entry for entry in heap if serials[entry[2]] == entry[1]]
            heapq.heapify(heap)

    def first_of(self, kind: TaskClass) -> Entry | None:
        """The entry of the first task of a class; None: there is none."""
        if kind not in self.counts:
            return None
        heap = self._heaps.get(kind)
        if heap:
            serials = self._serials
            while heap and serials[heap[0][2]] != heap[0][1]:
                heapq.heappop(heap)
        fresh = self._fresh
        if fresh is None or not fresh.left or fresh.kind != kind:
            return heap[0] if heap else None
        entry = fresh.first()
        return heap[0] if heap and heap[0] < entry else entry

    def clear(self) -> None:
        """Take all out but fresh ones."""
        fresh = self._fresh
        self.__init__(len(self._serials))  # type: ignore[misc]
        if fresh is not None:
            self.fill(fresh)

    def __len__(self) -> int:
        """Number of entries held for tasks that are not fresh, stale ones included."""
        return sum(map(len, self._heaps.values()))


class FreshTasks:
    """The tasks of a bag that have never been dispatched, in the order in which they are placed."""

    __slots__ = ("_gone", "_keys", "_order", "_position", "_serial", "kind", "left")

    def __init__(
        self, tasks: int, kind: TaskClass, first_serial: int, keys: Sequence[float] | float
    ) -> None:
        """All are of one class. ``keys``: of each task, or of all; smaller goes first."""
        self.kind, self.left = kind, tasks
        self._serial = first_serial
        self._keys = keys
        self._order: array[int] | None = None
        if not isinstance(keys, (float, int)):
            self._order = array("I", sorted(range(tasks), key=keys.__getitem__))
        self._position = 0
        self._gone: set[int] = set()
        """Taken before their turn: the order was another when that was decided."""

    def first(self) -> Entry:
        """The entry of the first that is left; there is one."""
        position = self._position
        task = position if self._order is None else self._order[position]
        while self._gone and task in self._gone:
            self._gone.discard(task)
            position += 1
            task = position if self._order is None else self._order[position]
        self._position = position
        keys = self._keys
        key = keys if isinstance(keys, (float, int)) else keys[task]
        return key, self._serial + position, task, self.kind

    def remove(self, task: int) -> None:
        """Take out one that is left."""
        if self.first()[2] == task:
            self._position += 1
        else:
            self._gone.add(task)
        self.left -= 1
