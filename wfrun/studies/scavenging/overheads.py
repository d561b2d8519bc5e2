"""The costs of scavenging: delays of jobs (thesis section 4.3.3), and makespans with and without
launchers (section 4.3.1)."""

from __future__ import annotations

from math import floor
from random import Random
from statistics import fmean
from typing import NamedTuple

from wfrun.studies.scavenging import paper


class LocalDelays(NamedTuple):
    """Additional delays of local jobs, in seconds."""

    lowest_s: float
    """5th percentile."""
    highest_s: float
    """95th percentile."""
    within: float
    """Share of the delays within the range that the thesis states."""
    noticing_s: float
    """Mean time until a poll notices the job."""
    reclaiming_s: float
    """Mean time from the poll until the nodes are reclaimed."""


def local_delays(poll_s: float, count: int, random: Random) -> LocalDelays:
    """Delays of jobs that arrive at random times. The next poll of the batch system notices a job;
    from then on its nodes are reclaimed as for a grid job."""
    noticing = [random.uniform(0.0, poll_s) for _ in range(count)]
    reclaiming = [random.uniform(*paper.GRID_DELAYS_S) for _ in range(count)]
    both = sorted(a + b for a, b in zip(noticing, reclaiming, strict=True))
    low, high = paper.LOCAL_DELAYS_S
    return LocalDelays(
        both[count // 20], both[count - 1 - count // 20], fmean(low <= one <= high for one in both),
        fmean(noticing), fmean(reclaiming),
    )  # fmt: skip


def separate_makespan_s(tasks: int, *, in_step: bool, random: Random) -> float:
    """Makespan of tasks that are submitted one by one to idle nodes. A node that a task leaves is
    known to be idle at the next multiple of the monitoring period (``in_step``), or after a random
    time of up to this period, which is drawn for each task."""
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
    """Makespan with launchers, each of which starts once and runs one task after another."""
    return paper.START_S + ideal_makespan_s(tasks)


def ideal_makespan_s(tasks: int) -> float:
    """Makespan without any overhead."""
    return -(-tasks // paper.LAUNCHER_NODES) * paper.LAUNCHER_TASK_S
