"""How many tasks a launcher holds in advance, so that its slots never wait for the engine."""

from __future__ import annotations

from math import ceil

MAX_RUNTIME_RATIO = 50
"""A task that runs for longer than so many times the latency is not worth stocking: the wait for
the next one costs a slot less than 2%."""

MAX_PREFETCH_PER_SLOT = 2000
"""Per slot: a second and more of the shortest tasks that there are."""


def prefetch_per_slot(latency_s: float, task_s: float | None) -> int:
    """How many tasks to hold for each slot beside the one that runs in it.

    ``latency_s`` is the time from a task's end until the next one could be there, ``task_s`` what
    tasks took on average; None: not known yet. Twice of what a slot can run meanwhile, since
    neither is constant; 0 for long tasks, which another launcher may be free for sooner.
    """
    if task_s is None or task_s > MAX_RUNTIME_RATIO * latency_s:
        return 0
    if task_s <= 0:
        return MAX_PREFETCH_PER_SLOT
    return min(MAX_PREFETCH_PER_SLOT, ceil(2 * latency_s / task_s))
