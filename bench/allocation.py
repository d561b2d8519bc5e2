"""Measures what it costs an allocation strategy to send one job to one of 20 sites, each with 1,000
waiting jobs.

Sites have 256 processors and schedule with EASY; jobs have 1 to 64 processors and requests of whole
minutes. *Steady*: jobs arrive one after the other, and each is sent. *After ends*, for level 3:
before each decision a job ends early at every site, so that all 20 schedules are planned anew; that
is the worst case, to which no goal applies.

    python bench/allocation.py [--jobs 200]
"""

from __future__ import annotations

import argparse
import time
from random import Random
from statistics import median

from rich.console import Console
from rich.table import Table

from wfrun.engine.model import SiteSpec
from wfrun.engine.policies.placement.allocation import STRATEGIES, Strategy
from wfrun.engine.prediction.estimates import UserEstimate
from wfrun.engine.queues import QueuedJob
from wfrun.runners.simulate.grid.model import GridJob, Scheduler
from wfrun.runners.simulate.grid.state import GridState
from wfrun.runners.simulate.grid.view import GridView

SITES, SLOTS, WAITING = 20, 256, 1000
GOAL_S = {1: 50e-6, 2: 50e-6, 3: 5e-3}
"""Seconds of one decision, by level."""


class Grid:
    """Sites with full queues, and a strategy that sends further jobs to them."""

    def __init__(self, strategy: type[Strategy], more: int) -> None:
        random = Random(0)
        sites = [SiteSpec(f"site-{n}", SLOTS) for n in range(SITES)]
        count = SITES * (WAITING + SLOTS) + more
        jobs = [
            GridJob(0.0, 60.0, random.choice((1, 2, 4, 8, 16, 32, 64)), estimate_s=minutes * 60.0)
            for minutes in (random.randint(5, 600) for _ in range(count))
        ]
        scheduler = Scheduler(strategy, UserEstimate(), per_site=False, corrected=False)
        self.state = state = GridState(jobs, sites, scheduler, "easy")
        self.policy = strategy(GridView(state), {})
        self.running: list[list[int]] = [[] for _ in sites]
        self.job = 0
        for site in range(SITES):
            while state.lrms[site].queued < WAITING:
                self.send(self.next(), site)

    def next(self) -> int:
        job, self.job = self.job, self.job + 1
        self.state.submitted(job)
        return job

    def send(self, job: int, site: int) -> None:
        state, cores = self.state, self.state.cores[job]
        state.committed[site] += cores
        state.open_jobs[site] += 1
        length_s = state.expected_s(job, site)
        if state.is_asked:
            state.estimates[site].submit(job, cores, length_s, state.now_s)
        state.lrms[site].submit(QueuedJob(job, cores, length_s), state.now_s)
        self.start(site)

    def start(self, site: int) -> None:
        for job in self.state.lrms[site].schedule(self.state.now_s):
            assert isinstance(job, int)
            self.running[site].append(job)
            if self.state.is_asked:
                self.state.estimates[site].start(job, self.state.now_s)

    def end_early(self, site: int) -> None:
        state, job = self.state, self.running[site].pop()
        state.lrms[site].end(job, state.now_s)
        state.committed[site] -= state.cores[job]
        state.open_jobs[site] -= 1
        if state.is_asked:
            state.estimates[site].end(job, state.now_s)
        self.start(site)


def seconds(strategy: type[Strategy], count: int, *, ends: bool) -> float:
    """Median processor time of a decision."""
    grid = Grid(strategy, count)
    spent = []
    for _ in range(count):
        grid.state.now_s += 1.0
        if ends:
            for site in range(SITES):
                grid.end_early(site)
        job = grid.next()
        begun_s = time.process_time()
        chosen = grid.policy.place(job)
        spent.append(time.process_time() - begun_s)
        assert chosen is not None
        grid.send(job, chosen)
    return median(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs", type=int, default=200, help="jobs that are sent")
    options = parser.parse_args()
    table = Table(title=f"one job to one of {SITES} sites with {WAITING:,} waiting jobs each")
    table.add_column("strategy", no_wrap=True)
    for heading in ("level", "steady [µs]", "goal [µs]", "", "after ends [µs]"):
        table.add_column(heading, justify="right")
    for strategy in STRATEGIES:
        goal_s = GOAL_S[strategy.level]
        steady_s = seconds(strategy, options.jobs, ends=False)
        ends = ""
        if strategy.level == 3:
            ends = f"{seconds(strategy, max(5, options.jobs // 20), ends=True) * 1e6:,.0f}"
        table.add_row(
            strategy.symbol,
            str(strategy.level),
            f"{steady_s * 1e6:,.0f}",
            f"{goal_s * 1e6:,.0f}",
            "met" if steady_s <= goal_s else "not met",
            ends,
        )
    Console().print(table)


if __name__ == "__main__":
    main()
