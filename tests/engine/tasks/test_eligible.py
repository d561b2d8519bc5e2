"""Eligible tasks by class."""

from __future__ import annotations

from random import Random

from wfrun.engine.tasks.eligible import EligibleSet, FreshTasks, MandatoryFirst, Orders, TaskClass

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


def in_order(tasks: EligibleSet) -> list[int]:
    """Remove all tasks, the first one first."""
    found = []
    while (entry := tasks.first_of(NARROW)) is not None:
        tasks.remove(entry[2], NARROW)
        found.append(entry[2])
    return found


def test_fresh_tasks_are_dropped_as_if_one_by_one() -> None:
    for seed in range(300):
        random = Random(seed)
        count, first = random.randint(1, 12), random.randint(0, 13)
        keys: Orders | float = (0.0, MandatoryFirst(2), [random.random() for _ in range(count)])[
            seed % 3
        ]
        bulk, single = EligibleSet(count), EligibleSet(count)
        left = set(range(count))
        for tasks in bulk, single:
            tasks.fill(FreshTasks(count, NARROW, 1, keys))
        for _ in range(random.randint(0, count)):
            entry = bulk.first_of(NARROW)
            assert entry is not None
            task = random.choice([entry[2], random.choice(sorted(left))])
            returns = task == entry[2] and random.random() < 0.3
            for tasks in bulk, single:
                if returns:
                    tasks.set_aside(entry)
                    tasks.put_back(entry)
                else:
                    tasks.remove(task, NARROW)
            if not returns:
                left.discard(task)
        dropped = bulk.drop_fresh(first)
        assert set(dropped) <= {task for task in left if task >= first}, seed
        for task in dropped:
            single.remove(task, NARROW)
        assert (bulk.count, bulk.counts) == (single.count, single.counts), seed
        if random.random() < 0.3:
            for tasks in bulk, single:
                tasks.clear()
        assert in_order(bulk) == in_order(single), seed
        assert not bulk.count
