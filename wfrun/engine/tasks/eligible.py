"""The eligible tasks of one workflow, in the order of their placement."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

MAX_STALE = 16
"""Maximum number by which the stale entries of a heap exceed its valid entries."""


class TaskClass(NamedTuple):
    """Eligible tasks with the same sites and number of cores: a site with room for one of them has
    room for any other."""

    mask: int
    """Mask of the sites that may run the tasks."""
    cores: int
    """Cores of each task."""


class MandatoryFirst:
    """The order of placement in a bag with optional tasks: mandatory tasks come first. Needs no
    memory for each task."""

    __slots__ = ("_mandatory",)

    def __init__(self, mandatory: int) -> None:
        self._mandatory = mandatory

    def __getitem__(self, task: int) -> float:
        return 0.0 if task < self._mandatory else inf


Orders = Sequence[float] | MandatoryFirst
"""The order of each task of a workflow; the smallest is placed first."""

Entry = tuple[float, int, int, TaskClass]
"""(order, serial number, task, task class). The smallest entry is placed first; serial numbers are
unique."""


class EligibleSet:
    """The eligible tasks of a workflow, by class.

    Placement visits classes, not tasks, so tasks that wait for a full or paused site neither delay
    other tasks nor cost time. There are few classes: one for each number of cores, and some for
    tasks that avoid sites where they have failed.

    The tasks of a bag are in the set from the start. Tasks that were never dispatched are *fresh*:
    they need no entry, which saves memory.
    """

    __slots__ = ("_fresh", "_heaps", "_moved", "_returned", "_serials", "_was_fresh", "count",
                 "counts")  # fmt: skip

    def __init__(self, tasks: int) -> None:
        self.count = 0
        self.counts: dict[TaskClass, int] = {}
        """Number of tasks by class; classes without tasks are absent."""
        self._heaps: dict[TaskClass, list[Entry]] = {}
        """Entries by class. Entries of removed tasks are stale, and are skipped later."""
        self._serials = array("q", bytes(8 * tasks))
        """Per task: the serial number of its valid entry; 0 for a task that is absent or fresh."""
        self._moved: dict[int, TaskClass] = {}
        """The class of each task that was moved: its entries of other classes, which have the same
        serial number, are stale."""
        self._fresh: FreshTasks | None = None
        self._was_fresh: set[int] = set()
        """Tasks that are set aside, and were never dispatched."""
        self._returned: set[int] = set()
        """Tasks that were put back and have never been dispatched. Of the tasks never dispatched,
        only these have an entry."""

    def fill(self, fresh: FreshTasks) -> None:
        """Add all tasks of a bag."""
        self._fresh = fresh
        if fresh.left:
            self.count += fresh.left
            self.counts[fresh.task_class] = self.counts.get(fresh.task_class, 0) + fresh.left

    def add(self, entry: Entry) -> None:
        """Add a task, which must not be in the set."""
        kind = entry[3]
        heap = self._heaps.get(kind)
        if heap is None:
            heap = self._heaps[kind] = []
        heapq.heappush(heap, entry)
        self._serials[entry[2]] = entry[1]
        self.count += 1
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def remove(self, task: int, kind: TaskClass) -> None:
        """Remove a task, which must be in the set. ``kind`` is the class that it was added with."""
        serial = self._serials[task]
        self._serials[task] = 0
        if self._moved:
            self._moved.pop(task, None)
        if self._returned:
            self._returned.discard(task)
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
        if not heap:
            return
        if not left:
            del self._heaps[kind]
        elif heap[0][1] == serial:
            heapq.heappop(heap)
        elif len(heap) > 2 * left + MAX_STALE:
            # Stale entries would accumulate while no site of this class has room.
            heap[:] = filter(self._is_valid, heap)
            heapq.heapify(heap)

    def drop_fresh(self, first: int) -> range:
        """Remove the fresh tasks from number ``first`` on, but only those above all tasks that were
        removed before their turn. Returns the removed numbers. The range is empty if tasks are not
        placed in the order of their numbers. Cost: the tasks that were removed before their
        turn."""
        fresh = self._fresh
        if fresh is None or not fresh.left or not (dropped := fresh.drop(first)):
            return range(first, first)
        kind = fresh.task_class
        self.count -= len(dropped)
        self.counts[kind] -= len(dropped)
        if not self.counts[kind]:
            del self.counts[kind]
            self._heaps.pop(kind, None)
        return dropped

    def set_aside(self, entry: Entry) -> None:
        """Remove a task until ``put_back``: the present decision has planned it."""
        task = entry[2]
        if task in self._returned or not self._serials[task]:
            self._was_fresh.add(task)
        self.remove(task, entry[3])

    def put_back(self, entry: Entry) -> None:
        """Return a task that was set aside to the set. A task that was never dispatched still
        counts as never dispatched."""
        task = entry[2]
        self.add(entry)
        if task in self._was_fresh:
            self._was_fresh.discard(task)
            self._returned.add(task)

    def move(self, entry: Entry, before: TaskClass) -> None:
        """Move a task from the class ``before`` to the class of ``entry``, under the same serial
        number."""
        self.remove(entry[2], before)
        self.add(entry)
        self._moved[entry[2]] = entry[3]

    def _is_valid(self, entry: Entry) -> bool:
        _, serial, task, kind = entry
        if self._moved and self._moved.get(task, kind) != kind:
            return False
        return self._serials[task] == serial

    def fresh_serial(self, task: int) -> int:
        """Serial number of a task of a bag that was never dispatched."""
        if task in self._returned:
            return self._serials[task]
        assert self._fresh is not None, "a task without an entry is a fresh one"
        return self._fresh.serial_of(task)

    def first_of(self, kind: TaskClass) -> Entry | None:
        """The first entry of a class; None if the class has no task."""
        if kind not in self.counts:
            return None
        heap = self._heaps.get(kind)
        if heap:
            serials = self._serials
            while heap and (
                serials[heap[0][2]] != heap[0][1] or (self._moved and not self._is_valid(heap[0]))
            ):
                heapq.heappop(heap)
        fresh = self._fresh
        if fresh is None or not fresh.left or fresh.task_class != kind:
            return heap[0] if heap else None
        entry = fresh.first()
        return heap[0] if heap and heap[0] < entry else entry

    def clear(self) -> None:
        """Remove all tasks, except the tasks of a bag that were never dispatched."""
        fresh = self._fresh
        if fresh is not None and self._returned:
            fresh = fresh.renewed(len(self._serials), fresh.task_class, fresh.keys, self._returned)
        self.__init__(len(self._serials))  # type: ignore[misc]
        if fresh is not None:
            self.fill(fresh)

    def renew_fresh(self, kind: TaskClass, keys: Orders | float) -> None:
        """Remove all tasks, except the tasks of a bag that were never dispatched. Give the kept
        tasks another class and order."""
        if self._fresh is not None:
            self._fresh = self._fresh.renewed(len(self._serials), kind, keys, self._returned)
            self._returned.clear()
        self.clear()

    def __len__(self) -> int:
        """Number of stored entries, stale ones included; fresh tasks have none."""
        return sum(map(len, self._heaps.values()))


class FreshTasks:
    """The tasks of a bag that have never been dispatched, in the order of their placement."""

    __slots__ = ("_end", "_gone", "_order", "_position", "_serial", "keys", "left", "task_class")

    def __init__(
        self, tasks: int, kind: TaskClass, first_serial: int, keys: Orders | float
    ) -> None:
        """``keys``: the order of each task, or one value for all; the smallest is placed first. All
        tasks are of the class ``kind``."""
        self.task_class, self.left = kind, tasks
        self._serial = first_serial
        self.keys = keys
        self._order: array[int] | None = None
        """Task numbers in the order of placement; None: ascending."""
        if isinstance(keys, Sequence):
            self._order = array("I", sorted(range(tasks), key=keys.__getitem__))
        self._position, self._end = 0, tasks
        """First position and end of the range of the order in which tasks are left. Tasks in
        ``_gone`` are not left."""
        self._gone: set[int] = set()
        """Tasks that were removed before their turn, as in the replay of a log of another version,
        which had another order."""

    def renewed(
        self,
        tasks: int,
        kind: TaskClass,
        keys: Orders | float,
        returned: Iterable[int] = (),
    ) -> FreshTasks:
        """Return the tasks that are left and those in ``returned``, with another class and order.
        ``tasks``: number of all tasks of the bag."""
        is_left = bytearray(tasks)
        for position in range(self._position, self._end):
            is_left[position if self._order is None else self._order[position]] = True
        for task in self._gone:
            is_left[task] = False
        for task in returned:
            is_left[task] = True
        renewed = FreshTasks(tasks, kind, self._serial, keys)
        for position in range(tasks):
            task = position if renewed._order is None else renewed._order[position]
            if not is_left[task]:
                renewed.remove(task)
        return renewed

    def first(self) -> Entry:
        """The first entry. At least one task is left."""
        position = self._position
        task = position if self._order is None else self._order[position]
        while self._gone and task in self._gone:
            self._gone.discard(task)
            position += 1
            task = position if self._order is None else self._order[position]
        self._position = position
        keys = self.keys
        key = keys if isinstance(keys, (float, int)) else keys[task]
        return key, self._serial + position, task, self.task_class

    def serial_of(self, task: int) -> int:
        """Return the serial number of a task. Cost: constant for the first task."""
        first = self.first()
        if first[2] == task:
            return first[1]
        return self._serial + (task if self._order is None else self._order.index(task))

    def drop(self, first: int) -> range:
        """Implements `EligibleSet.drop_fresh` for these tasks."""
        if self._order is not None:
            return range(first, first)
        dropped = range(max(first, self._position, max(self._gone, default=-1) + 1), self._end)
        if dropped:
            self._end = dropped.start
            self.left -= len(dropped)
        return dropped

    def remove(self, task: int) -> None:
        """Remove a task, which must not have been removed."""
        if self.first()[2] == task:
            self._position += 1
        else:
            self._gone.add(task)
        self.left -= 1
