"""Measures simulated co-allocation in jobs per second, relative to a bare loop.

Simulates a day of jobs of 8, 16 and 32 nodes on four clusters of the DAS-3 under FCM, as the study
coallocation does. The limit is a loop of some forty lines for these sizes and this policy alone,
without requests, links or records, that takes turns with the driver in one process and has to give
the very same schedule. A second table has one repetition of the whole study.

    python bench/coallocation_grid.py [--rounds 3] [--no-study]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import deque
from heapq import heappop, heappush
from random import Random

from rich.console import Console
from rich.table import Table

from wfrun.runners.simulate.grid.coallocated import CoallocatedJob, simulate_coallocated
from wfrun.studies.coallocation.experiments import (
    FCM,
    MPI,
    PLOTS,
    CoallocationScale,
    cells,
    jobs_of,
    linear,
    run_cell,
)
from wfrun.studies.coallocation.paper import NODES
from wfrun.studies.coallocation.workloads import (
    WAVE,
    WITHOUT_DELFT,
    arrivals,
    factors,
    mean_rate,
    request_maker,
)

GOAL = 20_000
"""Jobs a second, of the repetition of the study."""
SIZES = PLOTS[MPI].sizes
SITES = [NODES[name] for name in WITHOUT_DELFT]
UTILIZATIONS = (0.4, 0.6, 0.8, 0.9)


def bare_fcm(
    jobs: list[tuple[float, int]], run_times_s: list[float], nodes: list[int]
) -> list[float]:
    """The start of each job; ``run_times_s`` by number of clusters."""
    idle = list(nodes)
    start_s = [0.0] * len(jobs)
    ends: list[tuple[float, int, list[tuple[int, int]]]] = []
    queues: dict[int, deque[int]] = {size: deque() for size in SIZES}
    total, arrived, count = sum(idle), 0, len(jobs)
    while arrived < count or ends:
        if ends and (arrived == count or ends[0][0] <= jobs[arrived][0]):
            now_s = ends[0][0]
            while ends and ends[0][0] == now_s:
                for site, taken in heappop(ends)[2]:
                    idle[site] += taken
                    total += taken
        else:
            now_s, size = jobs[arrived]
            queues[size].append(arrived)
            arrived += 1
        while True:
            fitting = [queue[0] for size, queue in queues.items() if queue and size <= total]
            if not fitting:
                break
            job = min(fitting)
            missing = jobs[job][1]
            queues[missing].popleft()
            total -= missing
            parts = []
            for site in sorted(range(len(idle)), key=idle.__getitem__, reverse=True):
                taken = min(missing, idle[site])
                parts.append((site, taken))
                idle[site] -= taken
                missing -= taken
                if not missing:
                    break
            start_s[job] = now_s
            heappush(ends, (now_s + run_times_s[len(parts)], job, parts))
    return start_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-study", action="store_true", help="without the second table")
    options = parser.parse_args()
    table = Table("net utilization", "jobs", "driver", "bare loop", "ratio")
    table.title = f"jobs/s under FCM; median of {options.rounds}"
    by_clusters = factors(WITHOUT_DELFT, linear(2), linear(3), "number")
    run_times_s = [0.0] + [WAVE.run_time_s(by_clusters[frozenset(range(n))]) for n in range(1, 5)]
    for utilization in UTILIZATIONS:
        rate = mean_rate(SIZES, sum(SITES), utilization, WAVE.single_s)
        jobs = arrivals(SIZES, rate, 86400.0, Random(0))
        request_of = request_maker(FCM)
        requested = [CoallocatedJob(at_s, request_of(size)) for at_s, size in jobs]
        times_s: tuple[list[float], list[float]] = [], []
        for _ in range(options.rounds):
            since_s = time.process_time()
            schedule = simulate_coallocated(
                requested, SITES, FCM, lambda job, placement: run_times_s[len(placement)]
            )
            times_s[0].append(time.process_time() - since_s)
            since_s = time.process_time()
            bare_s = bare_fcm(jobs, run_times_s, SITES)
            times_s[1].append(time.process_time() - since_s)
            assert bare_s == list(schedule.start_s), "the schedules differ"
        rates = [len(jobs) / statistics.median(each) for each in times_s]
        shown = [f"{each:,.0f}" for each in (len(jobs), *rates)]
        table.add_row(f"{100 * utilization:g}%", *shown, f"{rates[0] / rates[1]:.2f}")
    Console().print(table)
    return 0 if options.no_study else _study()


def _study() -> int:
    """The runs of one repetition, with their jobs and measures."""
    known = cells(CoallocationScale(1, 0, ()))
    count = sum(len(jobs_of(cell)) for cell in known)
    since_s = time.process_time()
    for cell in known:
        run_cell(cell)
    taken_s = time.process_time() - since_s
    table = Table("", "runs", "jobs", "processor seconds", "jobs/s", "goal")
    met = count / taken_s >= GOAL
    table.add_row(
        "a repetition of the study", str(len(known)), f"{count:,}", f"{taken_s:.1f}",
        f"{count / taken_s:,.0f}", f"{GOAL:,}, {'met' if met else 'not met'}",
    )  # fmt: skip
    Console().print(table)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
