"""Small graph algorithms on int-indexed adjacency lists."""

from __future__ import annotations

from collections.abc import Sequence


def topological_order(
    parents: Sequence[Sequence[int]], children: Sequence[Sequence[int]]
) -> list[int]:
    """Every task after all of its parents, the lowest index first among those that are ready at
    the same step (Kahn 1962). Tasks on or behind a cycle are left out."""
    waiting = [len(p) for p in parents]
    order = [task for task, count in enumerate(waiting) if count == 0]
    for task in order:  # grows while it is walked
        for child in children[task]:
            waiting[child] -= 1
            if waiting[child] == 0:
                order.append(child)
    return order
