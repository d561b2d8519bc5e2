"""How long tasks hold their cores, from the starts at a full site."""

from __future__ import annotations

from math import inf

import pytest

from wfrun.runners.run.history.occupancy import Capacity, Stay, holds_s

TWO = [Capacity(-inf, 2)]


def found(*stays: Stay, capacity: list[Capacity] = TWO, start_s: float = 1.0) -> list[float]:
    return [*holds_s(stays, capacity, start_s)]


def test_starts_on_cores_that_a_task_has_left() -> None:
    first = (Stay(0, 1, 5, 1), Stay(0, 1, 6, 1))
    assert found(*first) == []
    assert found(*first, Stay(0, 7, 9, 1), Stay(2, 9, 10, 1)) == [2, 3]


def test_a_task_of_several_cores_waits_for_the_last_of_them() -> None:
    assert found(Stay(0, 1, 5, 1), Stay(0, 1, 6, 1), Stay(0, 8, 9, 2)) == [2]
    assert found(Stay(0, 1, 5, 1), Stay(0, 8, 9, 2), Stay(0, 11, 12, 1)) == [3, 2]


def test_a_task_that_waited_for_something_else() -> None:
    first = (Stay(0, 1, 5, 1), Stay(0, 1, 6, 1))
    assert found(*first, Stay(20, 22, 23, 1)) == []  # its cores were free when it came
    assert found(*first, Stay(4.5, 5.5, 23, 1)) == []  # no start is sooner than after 1 s
    assert found(*first, Stay(4.5, 5.6, 23, 1)) == [pytest.approx(0.6)]


def test_the_cores_of_launchers_come_and_go() -> None:
    capacity = [Capacity(10, 1), Capacity(20, -1), Capacity(30, 1)]
    stays = (Stay(0, 11, 12, 1), Stay(0, 13, 19, 1), Stay(0, 31, 33, 1), Stay(0, 33.5, 40, 1))
    assert found(*stays, capacity=capacity) == [1, 0.5]


def test_more_tasks_than_cores_show_nothing() -> None:
    """Others use the site by the same account, or the catalog has fewer slots than it."""
    assert found(Stay(0, 1, 5, 4), Stay(0, 3, 6, 9)) == []
