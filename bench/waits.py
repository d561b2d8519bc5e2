"""Measures predictions of queue waits: what they cost, and whether upper bounds hold.

The first table has the waits of each log as they were, bounded by BMBP and by Chebyshev's
inequality: the share of the jobs within the bound, in bursts and outside, and the time of a job (a
prediction and an observation). The second has a simulated queue of each policy: the time that all
point-valued predictions of a log take, beside that of the simulation alone.

    python bench/waits.py [--corpus FOLDER] [--log LOG.swf.gz]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from wfrun.engine.prediction.waits.predictor import WAIT_PREDICTORS, Cluster
from wfrun.engine.prediction.waits.replay import (
    Replay,
    ReplayedJob,
    recorded_events,
    replay_waits,
    simulated_events,
)
from wfrun.engine.queues import LRMS, make_lrm
from wfrun.parsers.logs import RUNNABLE_RULES, drop_jobs, read_swf
from wfrun.runners.forecast.wait_accuracy import accuracies, recorded_jobs, simulated_jobs

CORPUS = Path(os.environ.get("WFRUN_CORPUS", Path(__file__).parents[2] / "shared" / "data"))
BOUNDS = ("bmbp", "chebyshev")
POINTS = ("point", "point-corrected")
WITHIN_GOAL = 0.95
"""Of the jobs outside bursts, for BMBP."""
JOB_GOAL_US = 20.0
LOG_GOAL_S = 60.0


def timed(
    jobs: Sequence[ReplayedJob], lrm: str | None, processors: int, *names: str
) -> tuple[Replay, float]:
    """A replay with these predictors, and the processor time that it takes, in seconds; ``lrm``
    None: of the waits of the log."""
    cluster = Cluster(processors, lrm or "fcfs")
    start_s = time.process_time()
    events = (
        recorded_events(jobs) if lrm is None else simulated_events(jobs, make_lrm(lrm, processors))
    )
    chosen = {name: WAIT_PREDICTORS[name].make(cluster) for name in names}
    return replay_waits(jobs, events, chosen), time.process_time() - start_s


def bounds_table(folder: Path) -> Table:
    table = Table(title=f"waits of the logs; goal: BMBP {WITHIN_GOAL:.0%} outside bursts")
    for heading in ("log", "jobs", "in bursts", "bound", "within", "in bursts", "outside",
                    "accuracy", "µs a job"):  # fmt: skip
        table.add_column(heading, justify="left" if heading in ("log", "bound") else "right")
    for path in sorted(folder.glob("*.swf*")):
        jobs = recorded_jobs(drop_jobs(read_swf(path).jobs, RUNNABLE_RULES).jobs)
        _, events_s = timed(jobs, None, 1)
        for name in BOUNDS:
            replay, taken_s = timed(jobs, None, 1, name)
            one = accuracies(jobs, replay)[name]
            within = None if one.under is None else 1 - one.under
            job_us = (taken_s - events_s) / len(jobs) * 1e6
            missed = name == "bmbp" and (one.within_outside or 0.0) < WITHIN_GOAL
            table.add_row(
                path.name.partition(".swf")[0], f"{len(jobs):,}", share(one.in_bursts), name,
                share(within), share(one.within_in_bursts),
                f"[red]{share(one.within_outside)}" if missed else share(one.within_outside),
                share(one.accuracy), f"{'[red]' * (job_us > JOB_GOAL_US)}{job_us:.1f}",
            )  # fmt: skip
    return table


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def points_table(path: Path) -> Table:
    log = read_swf(path)
    processors = log.processors or 1
    logged = drop_jobs(log.jobs, RUNNABLE_RULES).jobs
    table = Table(title=f"{path.name}; goal: {LOG_GOAL_S:.0f} s")
    for heading in ("queue", "load", "predictor", "accuracy of waits", "seconds", "simulation"):
        table.add_column(heading, justify="left" if heading in ("queue", "predictor") else "right")
    for lrm in LRMS:
        # FCFS cannot serve the load of the log: its queue grows without end.
        load = 0.5 if lrm == "fcfs" else None
        jobs = simulated_jobs(logged, processors, load=load)
        _, alone_s = timed(jobs, lrm, processors)
        for name in POINTS:
            replay, taken_s = timed(jobs, lrm, processors, name)
            measured = accuracies(jobs, replay)[name]
            seconds = f"{'[red]' * (taken_s > LOG_GOAL_S)}{taken_s - alone_s:.1f}"
            table.add_row(
                lrm, "of the log" if load is None else f"{load:.0%}", name,
                share(measured.accuracy_waited), seconds, f"{alone_s:.1f}",
            )  # fmt: skip
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=CORPUS / "swf")
    parser.add_argument("--log", type=Path)
    arguments = parser.parse_args()
    console = Console(width=120)
    logs = sorted(arguments.corpus.glob("*.swf*"))
    if not logs:
        console.print(f"no log in {arguments.corpus}: name a folder of SWF logs with --corpus")
        return
    kth = next((path for path in logs if path.name.startswith("KTH")), logs[0])
    console.print(points_table(arguments.log or kth))
    console.print(bounds_table(arguments.corpus))


if __name__ == "__main__":
    main()
