"""Measures the speed of simulated grids: jobs a second of processor time, by scheduler.

First the schedulers of `wfrun predict --grid auver` with 90,000 generated jobs on five clusters,
then the 14 allocation strategies with the users' estimates on the first four weeks of the seven
logs of the JGC paper, whose sites backfill (EASY). The logs are read from the folder WFRUN_CORPUS;
without it, that part is left out.

    python bench/grid.py [--part 1.0]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import SiteSpec
from wfrun.engine.policies.placement.allocation import STRATEGIES
from wfrun.engine.prediction.estimates import UserEstimate
from wfrun.runners.simulate.grid.grids import AUVER, generated_jobs
from wfrun.runners.simulate.grid.model import GridJob, Scheduler
from wfrun.runners.simulate.grid.schedulers import SCHEDULERS
from wfrun.runners.simulate.grid.simulation import simulate_grid
from wfrun.studies.grids.jgc_grids import jobs_of, sites
from wfrun.studies.predictions.jgc.jgc import logs_of
from wfrun.studies.predictions.part import PartSetting
from wfrun.studies.predictions.workloads import workloads_of

GOAL_S = 60.0
"""Processor time of a scheduler with 90,000 jobs."""
EASY_GOAL = 20_000
"""Jobs a second of MPL over sites with EASY."""
WEEKS = 4
CORPUS = Path(
    os.environ.get("WFRUN_CORPUS") or Path(__file__).parent.parent.parent / "shared" / "data"
)


def spent_s(
    jobs: Sequence[GridJob], places: Sequence[SiteSpec], scheduler: Scheduler, lrm: str
) -> float:
    begun_s = time.process_time()
    simulate_grid(jobs, places, scheduler, lrm)
    return time.process_time() - begun_s


def table_of(title: str) -> Table:
    table = Table(title=title)
    table.add_column("scheduler", no_wrap=True)
    for heading in ("s", "jobs/s", "goal"):
        table.add_column(heading, justify="right")
    return table


def schedulers(part: float) -> Table:
    jobs = generated_jobs(AUVER, 0, part=part)
    table = table_of(f"{len(jobs):,} jobs at 70% load on five clusters, FCFS")
    for kind in SCHEDULERS.values():
        seconds = spent_s(jobs, AUVER.sites, kind.make(AUVER.sites), "fcfs")
        met = "met" if seconds <= GOAL_S * len(jobs) / 90_000 else "not met"
        table.add_row(kind.title, f"{seconds:.1f}", f"{len(jobs) / seconds:,.0f}", met)
    return table


def strategies() -> Table | None:
    try:
        logs = logs_of(PartSetting(True, workloads_of(CORPUS, ())))
    except InvalidError:
        logs = None
    if logs is None:
        return None
    jobs = jobs_of(logs, WEEKS)
    table = table_of(f"{len(jobs):,} jobs of {WEEKS} weeks of seven logs, EASY")
    for policy in STRATEGIES:
        scheduler = Scheduler(policy, UserEstimate(), per_site=False, corrected=False)
        seconds = spent_s(jobs, sites(), scheduler, "easy")
        goal = ""
        if policy.symbol == "MPL":
            goal = "met" if len(jobs) / seconds >= EASY_GOAL else "not met"
        title = f"{policy.symbol}, level {policy.level}"
        table.add_row(title, f"{seconds:.1f}", f"{len(jobs) / seconds:,.0f}", goal)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--part", type=float, default=1.0, help="share of the 90,000 jobs")
    options = parser.parse_args()
    console = Console()
    console.print(schedulers(options.part))
    table = strategies()
    if table is None:
        print("the logs of the JGC paper are not there: name their folder with WFRUN_CORPUS")
    else:
        console.print(table)


if __name__ == "__main__":
    main()
