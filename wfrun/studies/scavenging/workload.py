"""The jobs of regular grid users (thesis section 4.3.2), and the nodes that they leave idle.

Scavengers delay a grid job by seconds at most, so grid jobs do not depend on scavengers. Therefore
grid jobs are simulated first. The owners of scavenging tasks then share the nodes that grid jobs
leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from math import floor
from random import Random
from typing import NamedTuple

import msgspec

from wfrun.engine.jobs.scavenging.simulation import IdleChange
from wfrun.studies.scavenging import paper

WORST_FIT, BY_SIZE, LARGEST_FIRST, SMALLEST_FIRST = "wf", "by size", "largest", "smallest"
KEPT, PACED = "kept", "paced"


class Windows(msgspec.Struct, frozen=True):
    """The times in which a workload imposes its load: windows of ``length_s`` seconds that begin at
    ``first_s`` and every ``period_s`` seconds from then on."""

    first_s: float
    period_s: float
    length_s: float

    def within(self, end_s: float) -> list[tuple[float, float]]:
        """(start, end) of each window that starts before ``end_s``."""
        found = []
        begin_s = self.first_s
        while begin_s < end_s:
            found.append((begin_s, begin_s + self.length_s))
            begin_s += self.period_s
        return found


class GridLoad(msgspec.Struct, frozen=True):
    """The grid jobs of a workload, and the rule that chooses their sites."""

    windows: Windows
    run_s: float
    """Mean run time in seconds."""
    nodes: int = 1
    """Number of nodes of each job."""
    spread: str = WORST_FIT
    """Rule that chooses the site of a job. `WORST_FIT`: the site with the most idle nodes, as in
    KOALA; `BY_SIZE`: the site with the largest idle share of its nodes; `LARGEST_FIRST` and
    `SMALLEST_FIRST`: the largest or smallest site with room."""
    arrivals: str = KEPT
    """Rule by which jobs arrive. `KEPT`: all jobs start when the window begins; a job that ends
    within the window is replaced by another, and all jobs end with the window. `PACED`: jobs arrive
    at equal intervals that give the load on average, and run on after the window."""
    gap_s: float = 0.0
    """Seconds from the end of a job to the start of the job that takes its place."""
    random: bool = False
    """Whether run times are exponentially distributed; otherwise all are equal to `run_s`."""


class GridUserJob(NamedTuple):
    """A job of a grid user."""

    start_s: float
    end_s: float
    site: int
    nodes: int


def grid_jobs(
    nodes: Sequence[int], local: Sequence[int], load: GridLoad, end_s: float, random: Random
) -> list[GridUserJob]:
    """The grid jobs that start before ``end_s``, in the order of their starts. ``nodes`` has the
    number of nodes of each site, and ``local`` the number of those that local users hold all the
    time. A job for which no site has room is left out."""
    return _Grid(nodes, local, load, random).run(end_s)


class _Grid:
    def __init__(
        self, nodes: Sequence[int], local: Sequence[int], load: GridLoad, random: Random
    ) -> None:
        self.nodes, self.load, self.random = nodes, load, random
        self.idle = [all_ - held for all_, held in zip(nodes, local, strict=True)]
        self.most = round(paper.LOAD * sum(nodes)) // load.nodes
        """Maximum number of jobs at the same time."""
        self.running: list[tuple[float, int, int]] = []
        """(end, serial, site)."""
        self.jobs: list[GridUserJob] = []

    def run(self, end_s: float) -> list[GridUserJob]:
        for begin_s, window_end_s in self.load.windows.within(end_s):
            if self.load.arrivals == PACED:
                self._pace(begin_s, window_end_s)
            else:
                self._keep(begin_s, window_end_s)
        return [job for job in self.jobs if job.start_s < end_s]

    def _keep(self, begin_s: float, window_end_s: float) -> None:
        self._end(begin_s)
        at_s = begin_s
        while at_s < window_end_s:
            while len(self.running) < self.most and self._start(at_s, window_end_s):
                pass
            at_s = self.running[0][0] + self.load.gap_s
            self._end(at_s)

    def _pace(self, begin_s: float, window_end_s: float) -> None:
        """Start jobs at equal intervals. The first starts half an interval after the window
        begins."""
        count = round(self.most * (window_end_s - begin_s) / self.load.run_s)
        gap_s = (window_end_s - begin_s) / count
        for number in range(count):
            at_s = begin_s + (number + 0.5) * gap_s
            self._end(at_s)
            self._start(at_s, window_end_s)

    def _end(self, until_s: float) -> None:
        while self.running and self.running[0][0] <= until_s:
            _, _, site = heappop(self.running)
            self.idle[site] += self.load.nodes

    def _start(self, at_s: float, window_end_s: float) -> bool:
        """Start a job if a site has room for it. Return whether one had."""
        site = self._site()
        if site is None:
            return False
        load = self.load
        end_s = at_s + (self.random.expovariate(1 / load.run_s) if load.random else load.run_s)
        if load.arrivals == KEPT:
            end_s = min(end_s, window_end_s)
        self.idle[site] -= load.nodes
        heappush(self.running, (end_s, len(self.jobs), site))
        self.jobs.append(GridUserJob(at_s, end_s, site, load.nodes))
        return True

    def _site(self) -> int | None:
        idle, nodes = self.idle, self.nodes
        fit = [n for n in range(len(idle)) if idle[n] >= self.load.nodes]
        if not fit:
            return None
        if self.load.spread == WORST_FIT:
            return max(fit, key=lambda n: idle[n])
        if self.load.spread == BY_SIZE:
            return max(fit, key=lambda n: idle[n] / nodes[n])
        return (max if self.load.spread == LARGEST_FIRST else min)(fit, key=lambda n: nodes[n])


def left_idle(
    nodes: Sequence[int], local: Sequence[int], jobs: Sequence[GridUserJob], poll_s: float
) -> list[IdleChange]:
    """The numbers of nodes that scavengers may hold at each site, over time. A starting job first
    takes nodes that are not offered to scavengers. Nodes that a job releases are offered at the
    next multiple of ``poll_s``, or at once if ``poll_s`` is 0."""
    idle = [all_ - held for all_, held in zip(nodes, local, strict=True)]
    offered = list(idle)
    changes = [IdleChange(0.0, tuple(offered))]
    events: list[tuple[float, int, int]] = []
    for job in jobs:
        events += [(job.end_s, job.site, job.nodes), (job.start_s, job.site, -job.nodes)]
    if poll_s:
        polls = {(floor(job.end_s / poll_s) + 1) * poll_s for job in jobs}
        events += [(at_s, -1, 0) for at_s in polls]
    at: dict[float, list[tuple[int, int]]] = {}
    for at_s, site, count in sorted(events):
        at.setdefault(at_s, []).append((site, count))
    for at_s, some in at.items():
        is_poll = not poll_s or any(site < 0 for site, _ in some)
        if is_poll and poll_s:
            offered = list(idle)
        for site, count in some:
            if site >= 0:
                idle[site] += count
        offered = list(idle) if not poll_s else list(map(min, offered, idle))
        if changes[-1].idle != tuple(offered):
            changes.append(IdleChange(at_s, tuple(offered)))
    return changes
