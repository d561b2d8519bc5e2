"""Malleable and rigid jobs on a virtual clock.

With n processors of speed 1 a job does the share 1/T(n) of its work in each second; T(n) is its run
time with n processors (thesis Figure 3.3 has T for two programs). The job ends when all its work is
done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from wfrun.engine.jobs.malleable.manager import Manager, Resized, SizeBounds
from wfrun.engine.jobs.malleable.policies import SizedJob
from wfrun.engine.jobs.malleable.shapes import Shape, given_back, taken

ARRIVED, ENDED, POLLED = range(3)


class ScaledJob(NamedTuple):
    """A job of a simulation."""

    arrival_s: float
    bounds: SizeBounds
    run_time_s: Callable[[int], float]
    """Run time in seconds by the number of processors, on processors of speed 1."""
    shape: Shape = "any"


@dataclass(frozen=True)
class Rules:
    """The malleability policies of a simulation, with their parameters."""

    policy: str = "fpsma"
    precedence: str = "pra"
    threshold: int = 0
    """Processors of each site that growth leaves to local users."""
    poll_s: float | None = None
    """Interval between passes, in seconds; None: a pass at each arrival and end."""
    resize_s: float = 0.0
    """Time in seconds during which a job does no work after each change of its size."""
    returned_first: bool = False
    settles: bool = False
    """Whether a pass is repeated until it changes nothing, so that jobs grow as soon as they are
    placed. Without polls, a job would otherwise stay at its minimum until the next arrival or
    end."""


@dataclass
class Life:
    """The outcome of a job. Times are since the start of the simulation."""

    start_s: float = 0.0
    end_s: float = 0.0
    sizes: list[tuple[float, int]] = field(default_factory=list)
    """(time, size from then on) for each change of the size."""

    @property
    def largest(self) -> int:
        return max(size for _, size in self.sizes)

    @property
    def mean_size(self) -> float:
        """Mean number of processors over its execution; its last size if it has no run time."""
        if self.end_s == self.start_s:
            return self.sizes[-1][1]
        return self.processor_s / (self.end_s - self.start_s)

    @property
    def processor_s(self) -> float:
        ends = [at_s for at_s, _ in self.sizes[1:]] + [self.end_s]
        return sum(size * (end - at_s) for (at_s, size), end in zip(self.sizes, ends, strict=True))


@dataclass
class MalleableOutcome:
    """The outcome of a simulation."""

    lives: list[Life]
    """The outcome of each job, in the order of the input."""
    changes: list[tuple[float, Resized]]
    """Every placement, growth and shrink with its time."""


def simulate(
    jobs: Sequence[ScaledJob],
    processors: Sequence[int],
    rules: Rules,
    speed_ratios: Sequence[float] | None = None,
) -> MalleableOutcome:
    """Simulate jobs on sites. ``processors``: number of processors by site; ``speed_ratios``: speed
    of the processors by site (None: 1 everywhere). Raises ValueError for a job that fits no site.

    All events of one time are applied before the pass at that time. Cost of a pass: linear in the
    number of running and waiting jobs. Cost of an event: logarithmic.
    """
    return _Simulation(jobs, processors, rules, speed_ratios or [1.0] * len(processors)).run()


@dataclass
class _Progress:
    """Progress of a running job."""

    left: float = 1.0
    """Share of the work that is not done."""
    from_s: float = 0.0
    """Time from which the job works with its current size."""
    version: int = 0
    """Number of size changes. A completion that was computed before the latest change is void."""


class _Simulation:
    def __init__(
        self,
        jobs: Sequence[ScaledJob],
        processors: Sequence[int],
        rules: Rules,
        speed_ratios: Sequence[float],
    ) -> None:
        for job in jobs:
            if job.bounds.least > max(processors):
                raise ValueError(f"a job of {job.bounds.least} processors fits no site")
        self.jobs = jobs
        self.rules = rules
        self.speed_ratios = speed_ratios
        self.manager = Manager(
            processors, rules.policy, rules.precedence, self._reply, rules.threshold,
            rules.returned_first,
        )  # fmt: skip
        self.lives = [Life() for _ in jobs]
        self.progress = [_Progress() for _ in jobs]
        self.changes: list[tuple[float, Resized]] = []
        self.heap: list[tuple[float, int, int, int]] = []
        self.left = len(jobs)

    def _reply(self, number: int, size: int, change: int) -> int:
        job = self.jobs[number]
        sized = SizedJob(size, *job.bounds)
        if change > 0:
            return size + taken(job.shape, sized, change)
        return size - given_back(job.shape, sized, -change)

    def run(self) -> MalleableOutcome:
        for number, job in enumerate(self.jobs):
            heappush(self.heap, (job.arrival_s, ARRIVED, number, 0))
        if self.rules.poll_s is not None and self.jobs:
            heappush(self.heap, (min(job.arrival_s for job in self.jobs), POLLED, 0, 0))
        while self.left:
            now_s = self.heap[0][0]
            happened, polled = False, False
            while self.heap and self.heap[0][0] == now_s:
                _, kind, number, version = heappop(self.heap)
                if kind == POLLED:
                    polled = True
                elif kind == ARRIVED:
                    self.manager.submit(number, self.jobs[number].bounds)
                    happened = True
                elif version == self.progress[number].version:
                    self._end(number, now_s)
                    happened = True
            if polled and self.rules.poll_s is not None:
                heappush(self.heap, (now_s + self.rules.poll_s, POLLED, 0, 0))
            if polled or (happened and self.rules.poll_s is None):
                self._pass(now_s)
        return MalleableOutcome(self.lives, self.changes)

    def _end(self, number: int, now_s: float) -> None:
        self.manager.end(number)
        self.lives[number].end_s = now_s
        self.left -= 1

    def _pass(self, now_s: float) -> None:
        while changes := self.manager.run_pass():
            for change in changes:
                self.changes.append((now_s, change))
                self._resized(change, now_s)
            if not self.rules.settles:
                break

    def _resized(self, change: Resized, now_s: float) -> None:
        job, life = self.jobs[change.job], self.lives[change.job]
        progress = self.progress[change.job]
        speed_ratio = self.speed_ratios[change.site]
        starts_s = now_s
        if change.before:
            worked_s = max(0.0, now_s - progress.from_s) * speed_ratio
            progress.left = max(0.0, progress.left - worked_s / job.run_time_s(change.before))
            starts_s = max(progress.from_s, now_s + self.rules.resize_s)
        else:
            life.start_s = now_s
        life.sizes.append((now_s, change.after))
        progress.from_s = starts_s
        progress.version += 1
        end_s = starts_s + progress.left * job.run_time_s(change.after) / speed_ratio
        heappush(self.heap, (end_s, ENDED, change.job, progress.version))
