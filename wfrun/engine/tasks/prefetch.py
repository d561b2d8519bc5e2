"""Number of tasks that a site holds in advance, so that its slots do not wait for the engine."""

from __future__ import annotations

from math import ceil

MAX_RUNTIME_RATIO = 50
"""Maximum ratio of run time to latency at which tasks are prefetched. Above it, waiting for the
next task costs a slot less than 2%, and a task that waits at one site may start sooner at
another."""

MIN_WAIT_RATIO = 2
"""Minimum ratio of the expected wait of an attempt to the time of moving it, for a move to another
site. Both times vary, and an attempt that is moved in vain loses its place in the queue."""

MAX_PREFETCH_PER_SLOT = 2000
"""Maximum number of prefetched tasks per slot: enough for one second of the shortest tasks that
occur."""


def prefetch_per_slot(latency_s: float, task_s: float | None) -> int:
    """Return the number of tasks to hold per slot in addition to the task that runs in it.

    ``latency_s``: time from the end of a task to the arrival of the next task; ``task_s``: mean run
    time of tasks (None: unknown). The result is twice the number of tasks that a slot can run
    during the latency, since neither time is constant. It is 0 if ``task_s`` is unknown or exceeds
    `MAX_RUNTIME_RATIO` times the latency.
    """
    if task_s is None or task_s > MAX_RUNTIME_RATIO * latency_s:
        return 0
    if task_s <= 0:
        return MAX_PREFETCH_PER_SLOT
    return min(MAX_PREFETCH_PER_SLOT, ceil(2 * latency_s / task_s))
