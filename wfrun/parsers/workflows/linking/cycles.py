"""Order, cycles and descendants in graphs of tasks.

Graphs are adjacency lists of integers: ``parents[i]`` are the predecessors of node ``i``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


def children_of(parents: Sequence[Sequence[int]]) -> list[list[int]]:
    """The children of each node."""
    children: list[list[int]] = [[] for _ in parents]
    for node, above in enumerate(parents):
        for parent in above:
            children[parent].append(node)
    return children


def topological_order(parents: Sequence[Sequence[int]]) -> list[int]:
    """The nodes, each after its parents (Kahn 1962), in a deterministic order.

    Nodes on cycles and their descendants are absent.
    """
    children = children_of(parents)
    waiting = [len(above) for above in parents]
    order = [node for node, count in enumerate(waiting) if count == 0]
    for node in order:
        for child in children[node]:
            waiting[child] -= 1
            if waiting[child] == 0:
                order.append(child)
    return order


def shortest_cycle(parents: Sequence[Sequence[int]]) -> list[int] | None:
    """The nodes of a shortest cycle, in the direction of its edges; None for an acyclic graph.

    Of several shortest cycles it is the one found first, in the order of the nodes.
    """
    if all(parent < node for node, above in enumerate(parents) for parent in above):
        return None  # Most documents name parents first, which excludes cycles at once.
    order = topological_order(parents)
    if len(order) == len(parents):
        return None
    children = children_of(parents)
    left = set(range(len(parents))).difference(order)
    best: list[int] | None = None
    for start in sorted(left):
        if start not in left:
            continue
        cycle = _cycle_through(start, children, left, len(best) if best else len(left) + 1)
        best = cycle or best
        if best and len(best) == 1:
            break
        _drop(start, children, parents, left)
    return best


def _cycle_through(
    start: int, children: Sequence[Sequence[int]], within: set[int], below: int
) -> list[int] | None:
    """Find a shortest cycle through ``start`` of fewer than ``below`` nodes, by breadth-first
    search."""
    came_from = {start: start}
    depth = {start: 1}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        if depth[node] >= below:
            return None
        for child in children[node]:
            if child == start:
                path = [node]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            if child in within and child not in came_from:
                came_from[child] = node
                depth[child] = depth[node] + 1
                queue.append(child)
    return None


def _drop(
    start: int,
    children: Sequence[Sequence[int]],
    parents: Sequence[Sequence[int]],
    within: set[int],
) -> None:
    """Remove a node, and then all nodes that cannot be on a cycle since they have no child or no
    parent left."""
    within.discard(start)
    queue = deque([*children[start], *parents[start]])
    while queue:
        node = queue.popleft()
        if node not in within:
            continue
        dead_end = not any(child in within for child in children[node])
        if dead_end or not any(parent in within for parent in parents[node]):
            within.discard(node)
            queue.extend(children[node])
            queue.extend(parents[node])


def descendants(start: int, children: Sequence[Sequence[int]]) -> set[int]:
    """All nodes reachable from ``start``, including ``start``."""
    seen = {start}
    queue = deque([start])
    while queue:
        for child in children[queue.popleft()]:
            if child not in seen:
                seen.add(child)
                queue.append(child)
    return seen
