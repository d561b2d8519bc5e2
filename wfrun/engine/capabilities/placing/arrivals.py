"""A set of workflows with fast access to the one that arrived first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

MAX_STALE = 16
"""Maximum number by which stale entries of the heap may exceed valid entries. Beyond it the heap is
rebuilt, so that its size stays proportional to the set and rebuilds remain rare."""


class Arrivals:
    """A set of workflow numbers, of which the smallest arrived first. Every operation except
    iteration takes O(log n) amortized time."""

    __slots__ = ("_heap", "numbers")

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        self._heap: list[int] = []

    def add(self, number: int) -> None:
        """Add a number, unless it is in the set."""
        if number not in self.numbers:
            self.numbers.add(number)
            heapq.heappush(self._heap, number)

    def discard(self, number: int) -> None:
        """Remove a number, if it is in the set."""
        self.numbers.discard(number)
        if len(self._heap) > 2 * len(self.numbers) + MAX_STALE:
            self._heap = sorted(self.numbers)

    def first(self) -> int:
        """The smallest number. The set must not be empty."""
        while self._heap[0] not in self.numbers:
            heapq.heappop(self._heap)
        return self._heap[0]

    def pop(self) -> int | None:
        """Remove and return the smallest number; None if the set is empty."""
        while self.numbers:
            number = heapq.heappop(self._heap)
            if number in self.numbers:
                self.numbers.remove(number)
                return number
        return None

    def __contains__(self, number: object) -> bool:
        return number in self.numbers

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.numbers))

    def __len__(self) -> int:
        return len(self.numbers)
