"""Simulation of owners with endless sweeps who share the idle processors of sites."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from wfrun.engine.jobs.scavenging.policies import (
    Partition,
    Preemption,
    all_sites,
    nothing,
    per_site,
    preempted,
)

Division = Callable[[Sequence[int], Partition, Sequence[int], bool], Partition]
"""Callback that divides idle processors as `all_sites` does; the last argument is its ``again``."""

ENDLESS = 1 << 30
"""Number of processors that an owner with an endless sweep wants: more than there are."""


class IdleChange(NamedTuple):
    """The processors that others leave idle from a time on."""

    at_s: float
    idle: tuple[int, ...]
    """Number of idle processors by site."""


@dataclass
class Scavenged:
    """The results of one owner."""

    done: int = 0
    """Number of tasks that have ended."""
    preemptions: int = 0
    """Number of tasks whose processor was reclaimed; each runs again from its beginning."""
    processor_s: float = 0.0
    held: list[tuple[float, int]] = field(default_factory=list)
    """(time, number of processors held from then on), ascending in time."""


def simulate(
    changes: Sequence[IdleChange],
    joined_s: Sequence[float],
    policy: str | Division,
    run_time_s: Callable[[int], float],
    end_s: float,
    *,
    start_s: float = 0.0,
    preemption: Preemption = preempted,
) -> list[Scavenged]:
    """Let owners with endless sweeps share the processors that others leave idle, until ``end_s``.

    ``changes``: ascending in time, the first at time 0; ``policy``: one of `POLICIES`, or a
    division; ``joined_s``: when each owner comes, 0 or later; ``run_time_s`` draws the run time of
    an owner's next task, in seconds; ``start_s``: time from the grant of a processor to its first
    task; ``preemption`` chooses the launchers that give back processors.

    A launcher runs one task after another on one processor. A task that ends exactly at the time of
    a change, of an owner's arrival or of ``end_s`` is done, and not preempted.
    """
    return _Sharing(changes, joined_s, policy, run_time_s, end_s, start_s, preemption).run()


@dataclass
class _Runner:
    """A launcher on one processor, and its task."""

    owner: int
    site: int
    run_s: float = 0.0
    pulled_s: float = 0.0
    gone: bool = False


class _Sharing:
    def __init__(
        self,
        changes: Sequence[IdleChange],
        joined_s: Sequence[float],
        policy: str | Division,
        run_time_s: Callable[[int], float],
        end_s: float,
        start_s: float,
        preemption: Preemption,
    ) -> None:
        self.changes, self.policy, self.end_s, self.start_s = changes, policy, end_s, start_s
        self.draw, self.preemption = run_time_s, preemption
        self.joined_s = joined_s
        owners, sites = len(joined_s), len(changes[0].idle)
        self.partition = nothing(owners, sites)
        self.running: list[list[list[_Runner]]] = [
            [[] for _ in range(sites)] for _ in range(owners)
        ]
        self.returned: list[deque[float]] = [deque() for _ in range(owners)]
        """Run times of preempted tasks, which run again before other tasks."""
        self.results = [Scavenged() for _ in range(owners)]
        self.ends: list[tuple[float, int, _Runner]] = []
        self.serial = 0

    def run(self) -> list[Scavenged]:
        moments = sorted({*self.joined_s, *(change.at_s for change in self.changes)})
        idle = self.changes[0].idle
        coming = list(self.changes)
        for at_s in moments:
            if at_s >= self.end_s:
                break
            while coming and coming[0].at_s <= at_s:
                idle = coming.pop(0).idle
            self._finish(at_s)
            self._divide(idle, at_s)
        self._finish(self.end_s)
        for result in self.results:
            points = pairwise([*result.held, (self.end_s, 0)])
            result.processor_s = sum(count * (after - at_s) for (at_s, count), (after, _) in points)
        return self.results

    def _divide(self, idle: Sequence[int], now_s: float) -> None:
        wanted = [ENDLESS if joined_s <= now_s else 0 for joined_s in self.joined_s]
        joins = now_s in self.joined_s
        if callable(self.policy):
            found = self.policy(idle, self.partition, wanted, joins)
        elif self.policy == "all":
            found = all_sites(idle, self.partition, wanted, again=joins)
        else:
            found = per_site(idle, self.partition, wanted)
        self._take(found, now_s)
        self.partition = found

    def _take(self, found: Partition, now_s: float) -> None:
        """Preempt launchers where an owner is to hold fewer processors than now, and start
        launchers where it is to hold more."""
        for owner, row in enumerate(found.held):
            for site, count in enumerate(row):
                runners = self.running[owner][site]
                pulled_s = [runner.pulled_s for runner in runners]
                for number in self.preemption(pulled_s, max(0, len(runners) - count)):
                    runners[number].gone = True
                    self.returned[owner].append(runners[number].run_s)
                    self.results[owner].preemptions += 1
                runners[:] = [runner for runner in runners if not runner.gone]
                while len(runners) < count:
                    runners.append(_Runner(owner, site))
                    self._pull(runners[-1], now_s + self.start_s)
            self.results[owner].held.append((now_s, sum(row)))

    def _pull(self, runner: _Runner, at_s: float) -> None:
        """Let a launcher run the next task of its owner."""
        returned = self.returned[runner.owner]
        runner.run_s = returned.popleft() if returned else self.draw(runner.owner)
        runner.pulled_s = at_s
        self.serial += 1
        heappush(self.ends, (at_s + runner.run_s, self.serial, runner))

    def _finish(self, until_s: float) -> None:
        """End the tasks whose end is at ``until_s`` or before, and start the next ones."""
        while self.ends and self.ends[0][0] <= until_s:
            at_s, _, runner = heappop(self.ends)
            if not runner.gone:
                self.results[runner.owner].done += 1
                self._pull(runner, at_s)
