"""A set of numbers of which the smallest is at hand."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

MAX_STALE = 16
"""Number of stale numbers that the heap may hold beside as many as it has true ones."""


class Arrivals:
    """Numbers of workflows, which are in the order of their arrival. Cost of all but iteration:
    O(log n), amortized."""

    __slots__ = ("_heap", "_numbers")

    def __init__(self) -> None:
        self._numbers: set[int] = set()
        self._heap: list[int] = []

    def add(self, number: int) -> None:
        """Put it in, unless it is there."""
        if number not in self._numbers:
            self._numbers.add(number)
            heapq.heappush(self._heap, number)

    def discard(self, number: int) -> None:
        """Take it out, if it is there."""
        self._numbers.discard(number)
        if len(self._heap) > 2 * len(self._numbers) + MAX_STALE:
            self._heap = sorted(self._numbers)

    def first(self) -> int:
        """The smallest; there is one."""
        while self._heap[0] not in self._numbers:
            heapq.heappop(self._heap)
        return self._heap[0]

    def pop(self) -> int:
        """Take out the smallest; there is one."""
        while True:
            number = heapq.heappop(self._heap)
            if number in self._numbers:
                self._numbers.remove(number)
                return number

    def __contains__(self, number: object) -> bool:
        return number in self._numbers

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._numbers))

    def __len__(self) -> int:
        return len(self._numbers)
