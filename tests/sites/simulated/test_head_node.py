"""The head node of a simulated cluster."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import pytest

from wfrun.engine.errors import InvalidError
from wfrun.sites.simulated.head_node import HeadModel, SimulatedHeadNode


class Time:
    """A calendar that is run by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0

    def now(self) -> float:
        return self.now_s

    def schedule(self, at_s: float, call: Callable[[], None], rank: int = 1) -> None:
        self._serial += 1
        heapq.heappush(self._due, (at_s, self._serial, call))

    def run(self) -> None:
        while self._due:
            self.now_s, _, call = heapq.heappop(self._due)
            call()


def test_operations_are_served_one_after_another_and_make_the_load() -> None:
    time = Time()
    head = SimulatedHeadNode(time)
    ends: list[tuple[str, float]] = []
    for name, work_s in (("submission", 2.0), ("copy", 3.0), ("nothing", 0.0)):
        head.work(work_s, lambda name=name: ends.append((name, time.now_s)))  # type: ignore[misc]
    time.run()
    assert ends == [("nothing", 0.0), ("submission", 2.0), ("copy", 5.0)]
    assert head.loads == [(0.0, 2.0), (2.0, 1.0), (5.0, 0.0)]


def test_an_operation_may_add_the_next_one() -> None:
    time = Time()
    head = SimulatedHeadNode(time)
    ends: list[float] = []
    head.work(1.0, lambda: head.work(1.0, lambda: ends.append(time.now_s)))
    time.run()
    assert ends == [2.0]


def test_costs_are_checked() -> None:
    with pytest.raises(InvalidError, match="copy_s"):
        HeadModel(copy_s=-1.0)
