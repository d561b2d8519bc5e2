"""Measures the packing of moldable jobs.

1. *Planning*: 400 jobs of the paper's kinds (SPAA 2004) on 200 processors, processor time of the
   schedule (dual approximation and DEMT) and of both lower bounds (needs scipy).
2. *Run*: 1,000 real moldable jobs of 0.1 to 2 s on one processor are packed into 8 slots of this
   machine: they sleep for the time of the size that they get. Time from the first start to the last
   end, beside the plan.

    python bench/packing.py [--jobs 1000] [--only planning|run]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import yaml
from rich.console import Console
from rich.table import Table

from wfrun.engine import events as ev
from wfrun.engine.jobs.packing.demt import demt
from wfrun.engine.jobs.packing.dual import dual_approximation
from wfrun.engine.jobs.packing.job import list_schedule
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.prepare.pack_jobs import planned_schedule
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.runners.run.store.event_store import Store
from wfrun.runners.simulate.packed.compare import weighted_bound
from wfrun.studies.demt.workloads import PROCESSORS, TITLES, WORKLOADS, make_jobs

PLANNED_JOBS = 400
SCHEDULE_GOAL_S, BOUNDS_GOAL_S = 1.0, 10.0
SLOTS = 8
RATIO_GOAL = 1.1
"""Of the time of a real run to the planned one."""


def planning() -> Table:
    table = Table("jobs", "schedule", "bounds", "goal")
    table.title = f"{PLANNED_JOBS} jobs on {PROCESSORS} processors"
    for workload in WORKLOADS:
        jobs = make_jobs(workload, PLANNED_JOBS, 0)
        since_s = time.process_time()
        dual = dual_approximation(jobs, PROCESSORS)
        dual_s = time.process_time() - since_s
        list_schedule(jobs, demt(jobs, PROCESSORS, dual), PROCESSORS)
        schedule_s = time.process_time() - since_s
        since_s = time.process_time()
        weighted_bound(jobs, PROCESSORS, dual)
        bounds_s = dual_s + time.process_time() - since_s
        good = schedule_s <= SCHEDULE_GOAL_S and bounds_s <= BOUNDS_GOAL_S
        table.add_row(
            TITLES[workload],
            f"{schedule_s:.2f} s",
            f"{bounds_s:.2f} s",
            "met" if good else "missed",
        )
    return table


def document(count: int) -> str:
    """Jobs that sleep; the share of a job that is parallel is uniform."""
    random = Random(1)
    jobs = []
    for number in range(count):
        serial_s, parallel = random.uniform(0.1, 2), random.random()
        times_s = {k: serial_s * (1 - parallel + parallel / k) for k in range(1, SLOTS + 1)}
        cases = " ".join(f"{size}) sleep {time_s:.4f};;" for size, time_s in times_s.items())
        jobs.append({
            "job": f"j{number}",
            "command": ["sh", "-c", f"case {{size}} in {cases} esac"],
            "size": {"min": 1, "max": SLOTS},
            "walltime": {"serial_s": 60 * serial_s, "parallel": parallel},
            "runtime": serial_s,
            "weight": random.uniform(1, 10),
        })  # fmt: skip
    return str(yaml.safe_dump({"jobs": jobs}))


def run(count: int) -> Table:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, catalog, run_dir = folder / "jobs.yaml", folder / "sites.yaml", folder / "run"
        path.write_text(document(count))
        catalog.write_text(f"sites: {{here: {{slots: {SLOTS}}}}}\n")
        command: list[str | Path] = [
            sys.executable, "-m", "wfrun.runners.cli.main", "jobs", path, "--pack", "demt",
            "--processors", str(SLOTS), "--sites", catalog, "--run-dir", run_dir,
        ]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        planned = planned_schedule(read_state(RunDir(run_dir)))
        assert planned is not None
        store = Store(run_dir)
        outcomes = [e.outcome for e in store.load() if isinstance(e, ev.AttemptEnded)]
        store.close()
        starts = [o.started_s for o in outcomes if o.started_s is not None]
        ends = [o.ended_s for o in outcomes if o.ended_s is not None]
    took_s = max(ends) - min(starts)
    ratio = took_s / planned.makespan_s
    table = Table("jobs", "slots", "planned", "took", "ratio", "goal")
    table.title = "real jobs"
    good = "met" if ratio <= RATIO_GOAL else "missed"
    table.add_row(f"{count:,}", str(SLOTS), f"{planned.makespan_s:.1f} s", f"{took_s:.1f} s",
                  f"{ratio:.3f}", good)  # fmt: skip
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--only", choices=("planning", "run"))
    options = parser.parse_args()
    console = Console()
    if options.only != "run":
        console.print(planning())
    if options.only != "planning":
        console.print(run(options.jobs))


if __name__ == "__main__":
    main()
