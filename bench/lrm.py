"""Measures the queue models in jobs per second, relative to a bare EASY loop.

Simulates a workload log (or a generated one, where there is none) on one cluster with each model.
The limit is an EASY loop of some sixty lines, without a protocol, checks or records, that takes
turns with each model in one process; EASY has to give the very same schedule. Jobs are killed at
their request. Memory is the peak of a fresh process, the log included. A second table shows what
an operation costs while many jobs wait.

    python bench/lrm.py [--log LOG.swf.gz] [--rounds 3] [--queue 10000]
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import statistics
import subprocess
import sys
import time
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from wfrun.parsers.logs import RUNNABLE_RULES, drop_jobs, read_swf, settle_overruns
from wfrun.sites.simulated.queues import (
    LRMS,
    QueuedJob,
    SimulatedJob,
    make_lrm,
    simulate_batch,
    simulated_jobs,
)

CORPUS = Path(os.environ.get("WFRUN_CORPUS", Path(__file__).parents[2] / "shared" / "data"))
BLUE = CORPUS / "swf" / "SDSC-BLUE-2000-4.2-cln.swf.gz"

GOALS = {"easy": 20_000, "conservative": 2_000}
"""Jobs a second."""
EASY_RATIO_GOAL = 0.25
MEMORY_GOAL_BYTES = 400e6


def bare_easy(jobs: Sequence[SimulatedJob], processors: int) -> list[float]:
    """The start of each job under EASY backfilling. The jobs are sorted by submission."""
    rows = [(job.submit_s, job.runtime_s, job.cores, job.requested_s) for job in jobs]
    never_s = float("inf")
    start_s = [never_s] * len(rows)
    ends: list[tuple[float, int]] = []
    expected: list[tuple[float, int]] = []
    queue: list[int] = []
    free = processors
    arrived = 0

    def start(i: int, now_s: float) -> None:
        nonlocal free
        _, runtime_s, cores, requested_s = rows[i]
        free -= cores
        start_s[i] = now_s
        heapq.heappush(ends, (now_s + runtime_s, i))
        insort(expected, (now_s + requested_s, i))

    while arrived < len(rows) or ends:
        next_submit_s = rows[arrived][0] if arrived < len(rows) else never_s
        if ends and ends[0][0] <= next_submit_s:
            now_s, i = heapq.heappop(ends)
            free += rows[i][2]
            del expected[bisect_left(expected, (start_s[i] + rows[i][3], i))]
        else:
            now_s = next_submit_s
            queue.append(arrived)
            arrived += 1
        while queue and rows[queue[0]][2] <= free:
            start(queue.pop(0), now_s)
        if not free or len(queue) < 2:
            continue
        head_cores = rows[queue[0]][2]
        available, shadow_s = free, now_s
        for expected_s, i in expected:
            if expected_s > shadow_s:
                if available >= head_cores:
                    break
                shadow_s = expected_s
            available += rows[i][2]
        extra = available - head_cores
        waiting = queue[:1]
        for i in queue[1:]:
            cores, requested_s = rows[i][2:]
            if cores <= free and (now_s + requested_s <= shadow_s or cores <= extra):
                if now_s + requested_s > shadow_s:
                    extra -= cores
                start(i, now_s)
            else:
                waiting.append(i)
        queue = waiting
    return start_s


class Load(NamedTuple):
    name: str
    jobs: list[SimulatedJob]
    processors: int


def load(path: Path | None) -> Load:
    """The jobs of a log that can run, ended at their requests; or generated ones."""
    if path is None:
        return generated(100_000)
    log = read_swf(path)
    processors = log.processors
    if processors is None:
        raise SystemExit(f"{path} does not say how many processors there are")
    runnable = settle_overruns(drop_jobs(log.jobs, RUNNABLE_RULES).jobs, "truncate")
    jobs = [job for job in simulated_jobs(runnable) if job.cores <= processors]
    return Load(path.name.removesuffix(".gz").removesuffix(".swf"), jobs, processors)


def generated(count: int) -> Load:
    """Jobs that offer 80 % of 1,152 processors, with the round requests that users make."""
    random = Random(1)
    processors = 1152
    shapes = []
    for _ in range(count):
        requested_s = random.choice([600.0, 1800.0, 3600.0, 7200.0, 14400.0, 43200.0, 64800.0])
        cores = random.choice([1, 8, 8, 8, 16, 16, 32, 64, 128, 256])
        shapes.append((requested_s * random.betavariate(0.8, 1.6), cores, requested_s))
    area = sum(runtime_s * cores for runtime_s, cores, _ in shapes)
    gap_s = area / count / (0.8 * processors)
    submit_s = 0.0
    jobs = []
    for runtime_s, cores, requested_s in shapes:
        submit_s += random.expovariate(1 / gap_s)
        jobs.append(SimulatedJob(submit_s, runtime_s, cores, requested_s))
    return Load("generated", jobs, processors)


def timed(run: Callable[[], list[float]]) -> tuple[float, list[float]]:
    begun_s = time.process_time()
    starts_s = run()
    return time.process_time() - begun_s, starts_s


def measure(name: str, path: Path | None, rounds: int) -> dict[str, float | str]:
    """One model and the bare loop in turns, in this process."""
    load_name, jobs, processors = load(path)
    pairs = []
    starts_s: list[float] = []
    for _ in range(rounds):
        model_s, starts_s = timed(
            lambda: list(simulate_batch(jobs, processors, name, kill_overruns=True).start_s)
        )
        bare_s, bare_starts_s = timed(lambda: bare_easy(jobs, processors))
        if name == "easy" and starts_s != bare_starts_s:
            raise SystemExit("EASY differs from the bare loop")
        pairs.append((model_s, bare_s))
    waits_s = [start - job.submit_s for start, job in zip(starts_s, jobs, strict=True)]
    return {
        "log": load_name,
        "jobs": len(jobs),
        "jobs_per_s": len(jobs) / statistics.median(model_s for model_s, _ in pairs),
        "bare_per_s": len(jobs) / statistics.median(bare_s for _, bare_s in pairs),
        "ratio": statistics.median(bare_s / model_s for model_s, bare_s in pairs),
        "wait_s": statistics.fmean(waits_s),
        "bytes": 1024 * _kilobytes("VmHWM"),
    }


def _kilobytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def in_fresh_process(name: str, path: Path | None, rounds: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", name, "--rounds", str(rounds)]
    if path is not None:
        command += ["--log", str(path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result: dict[str, float] = json.loads(output)
    return result


class Costs(NamedTuple):
    """Seconds of processor time for each."""

    submit_s: float
    estimate_s: float
    end_s: float


def costs_of_a_queue(name: str, waiting: int) -> Costs:
    """What an operation costs, pass included, while about so many jobs wait."""
    random = Random(1)
    _, jobs, processors = generated(waiting + 2000)
    lrm = make_lrm(name, processors)
    running: list[int] = []

    def submit(numbers: range) -> float:
        begun_s = time.process_time()
        for i in numbers:
            lrm.submit(QueuedJob(i, jobs[i].cores, jobs[i].requested_s), 0.0)
            running.extend(i for i in lrm.schedule(0.0) if isinstance(i, int))
        return time.process_time() - begun_s

    submit(range(waiting))
    submit_s = submit(range(waiting, waiting + 1000)) / 1000
    lrm.estimate_start_s(1, 60.0, 0.0)
    begun_s = time.process_time()
    for i in range(1000):
        lrm.estimate_start_s(jobs[i].cores, jobs[i].requested_s, 0.0)
    estimate_s = (time.process_time() - begun_s) / 1000
    begun_s = time.process_time()
    for i in range(10):
        lrm.end(running.pop(random.randrange(len(running))), 1.0 + i)
        running.extend(i for i in lrm.schedule(1.0 + i) if isinstance(i, int))
    return Costs(submit_s, estimate_s, (time.process_time() - begun_s) / 10)


def throughput_table(path: Path | None, rounds: int) -> Table:
    results = {name: in_fresh_process(name, path, rounds) for name in LRMS}
    any_result = results["easy"]
    table = Table(
        title=f"{any_result['log']}, {any_result['jobs']} jobs (medians of {rounds}); bare EASY "
        f"loop {any_result['bare_per_s']:,.0f} jobs/s"
    )
    table.add_column("model", no_wrap=True)
    for heading in ("jobs/s", "of the bare loop", "mean wait s", "peak MB", "goals"):
        table.add_column(heading, justify="right")
    for name, result in results.items():
        met = (
            result["jobs_per_s"] >= GOALS.get(name, 0)
            and (name != "easy" or result["ratio"] >= EASY_RATIO_GOAL)
            and result["bytes"] <= MEMORY_GOAL_BYTES
        )
        table.add_row(
            name,
            f"{result['jobs_per_s']:,.0f}",
            f"{result['ratio']:.3f}",
            f"{result['wait_s']:,.0f}",
            f"{result['bytes'] / 1e6:.0f}",
            "met" if met else "not met",
        )
    return table


def queue_table(waiting: int) -> Table:
    table = Table(title="Cost of one operation and the pass after it, in ms, by waiting jobs")
    table.add_column("model", no_wrap=True)
    for heading in ("waiting", "submit", "estimate a start", "early end"):
        table.add_column(heading, justify="right")
    for name in LRMS:
        for count in (waiting // 10, waiting):
            costs = costs_of_a_queue(name, count)
            table.add_row(name, f"{count:,}", *(f"{cost_s * 1e3:.3f}" for cost_s in costs))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--log", type=Path, default=BLUE if BLUE.is_file() else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queue", type=int, default=10_000, help="jobs that wait")
    parser.add_argument("--one", choices=list(LRMS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.log, options.rounds)))
        return
    console = Console()
    console.print(throughput_table(options.log, options.rounds))
    console.print(queue_table(options.queue))
    print(
        f"goals: EASY {GOALS['easy']:,} jobs/s and {EASY_RATIO_GOAL} of the bare loop, "
        f"conservative {GOALS['conservative']:,} jobs/s, {MEMORY_GOAL_BYTES / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    main()
