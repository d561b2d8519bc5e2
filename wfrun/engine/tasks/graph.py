"""Small graph algorithms on int-indexed adjacency lists."""

from __future__ import annotations

from collections.abc import Sequence


def topological_order(
    parents: Sequence[Sequence[int]], children: Sequence[Sequence[int]]
) -> list[int]:
    """The tasks in an order in which each comes after all of its parents (Kahn 1962); tasks that
    become ready at the same step are in ascending order. Tasks on a cycle or behind one are left
    out."""
    waiting = [len(p) for p in parents]
    order = [task for task, count in enumerate(waiting) if count == 0]
    for task in order:  # The list grows during the iteration.
        for child in children[task]:
            waiting[child] -= 1
            if waiting[child] == 0:
                order.append(child)
    return order
