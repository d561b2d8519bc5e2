"""The eligible tasks of a workflow that wait for a site, in the order in which they are placed."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Sequence

Entry = tuple[float, int, int]
"""(order, serial number, task): smaller goes first."""


class EligibleSet:
    """Kept by the sites that could take the tasks, as masks: tasks that wait for sites that are
    full or out of order then stand in nobody's way and cost nothing. There are few such masks.

    The tasks of a bag are in it from the beginning without an entry of their own, as *fresh* ones.
    """

    __slots__ = ("_fresh", "_heaps", "_serials", "_where", "cores", "count")

    def __init__(self, tasks: int) -> None:
        self.count = 0
        self.cores: dict[int, int] = {}
        """That eligible tasks ask for, by mask."""
        self._heaps: dict[int, list[Entry]] = {}
        self._serials = array("q", bytes(8 * tasks))
        """Of the entry that stands for a task; 0: there is none. Others are stale."""
        self._where: dict[int, int] = {}
        """Masks of tasks whose mask is not that of the first heap."""
        self._fresh: Fresh | None = None

    def fill(self, fresh: Fresh) -> None:
        """Put in all tasks of a bag."""
        self._fresh = fresh
        self._heaps[fresh.mask] = []
        self.count = fresh.left
        self.cores[fresh.mask] = fresh.cores * fresh.left

    def add(self, entry: Entry, mask: int, cores: int) -> None:
        """A task that is not in it."""
        _, serial, task = entry
        heap = self._heaps.get(mask)
        if heap is None:
            heap = self._heaps[mask] = []
        heapq.heappush(heap, entry)
        self._serials[task] = serial
        if len(self._heaps) > 1:
            self._where[task] = mask
        self.count += 1
        self.cores[mask] = self.cores.get(mask, 0) + cores

    def remove(self, task: int, cores: int) -> None:
        """A task that is in it."""
        self.count -= 1
        if self._fresh is not None and self._serials[task] == 0:
            self._fresh.remove(task)
            self.cores[self._fresh.mask] -= cores
            return
        mask = self._where.pop(task, None)
        if mask is None:
            mask = next(iter(self._heaps))
        self._serials[task] = 0
        self.cores[mask] -= cores

    def first(self, open_sites: int) -> tuple[int, int] | None:
        """The first task that one of these sites could take, with its own sites; None: there is
        none."""
        best: Entry | None = None
        best_mask = 0
        for mask in self._heaps:
            if not mask & open_sites:
                continue
            entry = self.first_of(mask)
            if entry is not None and (best is None or entry < best):
                best, best_mask = entry, mask
        return None if best is None else (best[2], best_mask)

    def first_of(self, mask: int) -> Entry | None:
        """The entry of the first task with these sites; None: there is none."""
        heap, serials = self._heaps.get(mask, []), self._serials
        while heap and serials[heap[0][2]] != heap[0][1]:
            heapq.heappop(heap)
        fresh = self._fresh
        if fresh is None or fresh.mask != mask or not fresh.left:
            return heap[0] if heap else None
        entry = fresh.first()
        return heap[0] if heap and heap[0] < entry else entry

    @property
    def masks(self) -> Sequence[int]:
        """Of all tasks that are in it, and of some that were."""
        return list(self._heaps)

    def cores_for(self, sites: int) -> int:
        """That tasks ask for which one of these sites could take."""
        return sum(cores for mask, cores in self.cores.items() if mask & sites)

    def clear(self) -> None:
        """Take all out but fresh ones."""
        fresh = self._fresh
        self.__init__(len(self._serials))  # type: ignore[misc]
        if fresh is not None:
            self.fill(fresh)


class Fresh:
    """The tasks of a bag that have never been dispatched, in the order in which they are placed."""

    __slots__ = ("_gone", "_keys", "_order", "_position", "_serial", "cores", "left", "mask")

    def __init__(
        self, tasks: int, mask: int, cores: int, first_serial: int, keys: Sequence[float] | float
    ) -> None:
        """All ask for ``cores``. ``keys``: of each task, or of all; smaller goes first."""
        self.mask, self.cores, self.left = mask, cores, tasks
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
        return key, self._serial + position, task

    def remove(self, task: int) -> None:
        """One that is left."""
        if self.first()[2] == task:
            self._position += 1
        else:
            self._gone.add(task)
        self.left -= 1
