"""The eligible tasks of a workflow that wait for a site, in the order in which they are placed."""

from __future__ import annotations

import heapq
from array import array

Entry = tuple[float, int, int]
"""(order, serial number, task): smaller goes first."""


class EligibleSet:
    """Kept by the sites that could take the tasks, as masks: tasks that wait for sites that are
    full or out of order then stand in nobody's way and cost nothing. There are few such masks."""

    __slots__ = ("_heaps", "_serials", "_where", "cores", "count")

    def __init__(self, tasks: int) -> None:
        self.count = 0
        self.cores: dict[int, int] = {}
        """That eligible tasks ask for, by mask."""
        self._heaps: dict[int, list[Entry]] = {}
        self._serials = array("q", bytes(8 * tasks))
        """Of the entry that stands for a task; 0: it is not eligible. Others are stale."""
        self._where: dict[int, int] = {}
        """Masks of tasks whose mask is not that of the first heap."""

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
        mask = self._where.pop(task, None)
        if mask is None:
            mask = next(iter(self._heaps))
        self._serials[task] = 0
        self.count -= 1
        self.cores[mask] -= cores

    def first(self, open_sites: int) -> tuple[int, int] | None:
        """The first task that one of these sites could take, with its own sites; None: there is
        none."""
        best: Entry | None = None
        best_mask = 0
        serials = self._serials
        for mask, heap in self._heaps.items():
            if not mask & open_sites:
                continue
            while heap and serials[heap[0][2]] != heap[0][1]:
                heapq.heappop(heap)
            if heap and (best is None or heap[0] < best):
                best, best_mask = heap[0], mask
        return None if best is None else (best[2], best_mask)

    def cores_for(self, sites: int) -> int:
        """That tasks ask for which one of these sites could take."""
        return sum(cores for mask, cores in self.cores.items() if mask & sites)

    def clear(self) -> None:
        """Take all out."""
        self.__init__(len(self._serials))  # type: ignore[misc]
