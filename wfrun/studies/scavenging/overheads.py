"""The costs of scavenging: delays of jobs (thesis section 4.3.3), and makespans with and without
launchers (section 4.3.1)."""

from __future__ import annotations

from math import floor
from random import Random
from statistics import fmean
from typing import NamedTuple

from wfrun.studies.scavenging import paper


class LocalDelays(NamedTuple):
    """Statistics of the additional delays of local jobs that scavenging causes, in seconds."""

    lowest_s: float
    """5th percentile."""
    highest_s: float
    """95th percentile."""
    within: float
    """Share of the delays that are within the range that the thesis states."""
    noticing_s: float
    """Mean time from the arrival of a job to the poll that notices it."""
    reclaiming_s: float
    """Mean time from the poll that notices a job to the end of the reclaiming of its nodes."""


def local_delays(poll_s: float, count: int, random: Random) -> LocalDelays:
    """Statistics of the delays of ``count`` jobs that arrive at random times. A job is noticed by
    the next poll of the batch system, which polls every ``poll_s`` seconds. Reclaiming its nodes
    then takes as long as for a grid job."""
    noticing = [random.uniform(0.0, poll_s) for _ in range(count)]
    reclaiming = [random.uniform(*paper.GRID_DELAYS_S) for _ in range(count)]
    both = sorted(a + b for a, b in zip(noticing, reclaiming, strict=True))
    low, high = paper.LOCAL_DELAYS_S
    return LocalDelays(
        both[count // 20], both[count - 1 - count // 20], fmean(low <= one <= high for one in both),
        fmean(noticing), fmean(reclaiming),
    )  # fmt: skip


def separate_makespan_s(tasks: int, *, in_step: bool, random: Random) -> float:
    """Makespan in seconds of tasks that are submitted one by one to idle nodes. When a task has
    left a node, the scheduler knows that the node is idle at the next multiple of the monitoring
    period (``in_step``), or after a random part of this period."""
    nodes = [0.0] * paper.LAUNCHER_NODES
    period_s = paper.MONITOR_S
    for number in range(tasks):
        place = min(range(len(nodes)), key=nodes.__getitem__)
        known_s = nodes[place]
        if number >= len(nodes):
            known_s = (
                (floor(known_s / period_s) + 1) * period_s
                if in_step
                else known_s + random.uniform(0.0, period_s)
            )
        nodes[place] = known_s + paper.START_S + paper.LAUNCHER_TASK_S
    return max(nodes)


def launcher_makespan_s(tasks: int) -> float:
    """Makespan in seconds with launchers. Each launcher starts once and runs one task after
    another."""
    return paper.START_S + ideal_makespan_s(tasks)


def ideal_makespan_s(tasks: int) -> float:
    """Makespan in seconds without any overhead."""
    return -(-tasks // paper.LAUNCHER_NODES) * paper.LAUNCHER_TASK_S
