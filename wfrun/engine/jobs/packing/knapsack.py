"""The knapsack of both algorithms, exact, by integer dynamic programming."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add


def knapsack(costs: Sequence[int], values: Sequence[float], capacity: int) -> list[int]:
    """The numbers of the items of largest total value whose costs sum to at most ``capacity``,
    ascending. Costs are at least 1; items without value are left out. Cost: items × capacity."""
    row = [0.0] * (capacity + 1)
    rows = [row]
    for cost, value in zip(costs, values, strict=True):
        if value > 0 and cost <= capacity:
            taken = map(add, row, [value] * (capacity + 1 - cost))
            row = row[:cost] + list(map(max, row[cost:], taken))
        rows.append(row)
    found, left = [], capacity
    for item in range(len(costs) - 1, -1, -1):
        if rows[item + 1] is not rows[item] and rows[item + 1][left] > rows[item][left]:
            found.append(item)
            left -= costs[item]
    return found[::-1]
