"""Eligible tasks by class."""

from __future__ import annotations

from wfrun.engine.tasks.eligible import EligibleSet, TaskClass

NARROW, WIDE = TaskClass(1, 2), TaskClass(3, 2)


def test_a_task_that_moves_to_another_class_and_back() -> None:
    """Its entry in the class that it left is not taken for a task there."""
    tasks = EligibleSet(3)
    for task, kind in enumerate((NARROW, WIDE, NARROW)):
        tasks.add((float(3 - task), task + 1, task, kind))
    tasks.move((1.0, 3, 2, WIDE), NARROW)
    tasks.move((1.0, 3, 2, NARROW), WIDE)
    tasks.move((1.0, 3, 2, WIDE), NARROW)
    assert tasks.first_of(NARROW) == (3.0, 1, 0, NARROW)
    assert tasks.first_of(WIDE) == (1.0, 3, 2, WIDE)
    tasks.remove(2, WIDE)
    assert tasks.first_of(WIDE) == (2.0, 2, 1, WIDE)
    assert tasks.count == 2
